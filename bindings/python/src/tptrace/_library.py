"""Finds the compiled library and declares its functions. The structs are those of tracer.h."""

from __future__ import annotations

import ctypes
import os
import pathlib
from ctypes import POINTER, Structure, c_char, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Optional

from . import _errors

SONAME = "libtptrace.so.0"


class Str(Structure):
    """tp_str"""

    _fields_ = [("ptr", c_char_p), ("len", c_size_t)]


class Arg(Structure):
    """tp_arg"""

    _fields_ = [
        ("key", Str),
        ("kind", c_int32),
        ("reserved", c_int32),
        ("integer", c_int64),
        ("number", c_double),
        ("text", Str),
    ]


class Sized(Structure):
    """A struct that starts with its size."""

    def __init__(self, **members: Any) -> None:
        super().__init__(size=ctypes.sizeof(type(self)), **members)


class TraceOptions(Sized):
    """tp_trace_options"""

    _fields_ = [("size", c_size_t), ("flags", c_uint32), ("clock", c_int32), ("base_ns", c_int64), ("process_name", Str), ("record_bytes", c_uint64), ("record_full", c_int32), ("reserved", c_int32), ("journal", Str)]


class Op(Sized):
    """tp_op"""

    _fields_ = [
        ("size", c_size_t),
        ("flags", c_uint32),
        ("kind", c_int32),
        ("name", Str),
        ("start_ns", c_int64),
        ("end_ns", c_int64),
        ("thread_id", c_uint64),
        ("id", c_uint64),
        ("input_count", c_size_t),
        ("ranks", POINTER(c_uint32)),
        ("dims", POINTER(c_int64)),
        ("dtypes", POINTER(c_int32)),
        ("dtype_names", POINTER(Str)),
        ("dtype_count", c_size_t),
        ("call_site", Str),
        ("gpu_ms", c_double),
        ("kernel_count", c_int64),
        ("output_bytes", c_int64),
        ("stack", POINTER(Str)),
        ("stack_count", c_size_t),
        ("args", POINTER(Arg)),
        ("arg_count", c_size_t),
    ]


class GpuActivity(Sized):
    """tp_gpu_activity"""

    _fields_ = [
        ("size", c_size_t),
        ("flags", c_uint32),
        ("kind", c_int32),
        ("name", Str),
        ("start_ns", c_int64),
        ("end_ns", c_int64),
        ("device", c_int32),
        ("stream", c_uint32),
        ("correlation_id", c_uint64),
        ("external_id", c_uint64),
        ("os_thread", c_uint64),
        ("bytes", c_uint64),
        ("callback_id", c_uint32),
        ("copy_kind", c_uint32),
        ("value", c_uint32),
        ("grid_x", c_uint32),
        ("grid_y", c_uint32),
        ("grid_z", c_uint32),
        ("block_x", c_uint32),
        ("block_y", c_uint32),
        ("block_z", c_uint32),
        ("registers_per_thread", c_uint32),
        ("shared_memory", c_uint32),
        ("context", c_uint32),
        ("graph_id", c_uint32),
        ("priority", c_int32),
        ("graph_node_id", c_uint64),
        ("args", POINTER(Arg)),
        ("arg_count", c_size_t),
    ]


class MemoryEvent(Sized):
    """tp_memory_event"""

    _fields_ = [
        ("size", c_size_t),
        ("flags", c_uint32),
        ("device", c_int32),
        ("time_ns", c_int64),
        ("address", c_uint64),
        ("bytes", c_int64),
        ("thread_id", c_uint64),
        ("args", POINTER(Arg)),
        ("arg_count", c_size_t),
    ]


class Sample(Sized):
    """tp_sample"""

    _fields_ = [
        ("size", c_size_t),
        ("time_ns", c_int64),
        ("os_thread", c_uint64),
        ("stack", POINTER(Str)),
        ("stack_count", c_size_t),
        ("args", POINTER(Arg)),
        ("arg_count", c_size_t),
    ]


class Counter(Sized):
    """tp_counter"""

    _fields_ = [
        ("size", c_size_t),
        ("name", Str),
        ("time_ns", c_int64),
        ("values", POINTER(Arg)),
        ("value_count", c_size_t),
    ]


class Instant(Sized):
    """tp_instant"""

    _fields_ = [
        ("size", c_size_t),
        ("flags", c_uint32),
        ("scope", c_int32),
        ("name", Str),
        ("time_ns", c_int64),
        ("thread_id", c_uint64),
        ("args", POINTER(Arg)),
        ("arg_count", c_size_t),
    ]


class Progress(Structure):
    """tp_progress"""

    _fields_ = [
        ("size", c_size_t),
        ("done", c_uint64),
        ("total", c_uint64),
        ("bytes", c_uint64),
        ("written", c_uint64),
        ("files", c_uint64),
        ("events", c_uint64),
    ]


PROGRESS = ctypes.CFUNCTYPE(c_int32, POINTER(Progress), c_void_p)
OUTPUT = ctypes.CFUNCTYPE(c_int32, POINTER(c_char), c_size_t, c_void_p)


class WriteOptions(Sized):
    """tp_write_options"""

    _fields_ = [
        ("size", c_size_t),
        ("flags", c_uint32),
        ("format", c_int32),
        ("compression", c_int32),
        ("level", c_int32),
        ("threads", c_uint32),
        ("reserved", c_uint32),
        ("trace_name", Str),
        ("progress", PROGRESS),
        ("progress_data", c_void_p),
    ]


class Counts(Sized):
    """tp_counts"""

    _fields_ = [
        ("size", c_size_t),
        ("ops", c_uint64),
        ("gpu_activities", c_uint64),
        ("memory_events", c_uint64),
        ("samples", c_uint64),
        ("counters", c_uint64),
        ("instants", c_uint64),
        ("dropped", c_uint64),
        ("clamped", c_uint64),
        ("repaired_texts", c_uint64),
        ("overlaps_moved", c_uint64),
        ("overlaps_left", c_uint64),
        ("flows_dropped", c_uint64),
        ("memory", c_uint64),
        ("record_dropped", c_uint64),
        ("record_unmatched", c_uint64),
        ("record_overwritten", c_uint64),
        ("journal_bytes", c_uint64),
        ("journal_failures", c_uint64),
    ]


class RecoverReport(Sized):
    """tp_recover_report"""

    _fields_ = [("size", c_size_t), ("events", c_uint64), ("unfinished", c_uint64), ("journal_bytes", c_uint64), ("cut_bytes", c_uint64)]


MESSAGE = ctypes.CFUNCTYPE(None, Str, c_void_p)


class MergeOptions(Sized):
    """tp_merge_options"""

    _fields_ = [
        ("size", c_size_t),
        ("flags", c_uint32),
        ("alignment", c_int32),
        ("offsets_ns", POINTER(c_int64)),
        ("offset_count", c_size_t),
        ("compression", c_int32),
        ("level", c_int32),
        ("threads", c_uint32),
        ("reserved", c_uint32),
        ("trace_name", Str),
        ("progress", PROGRESS),
        ("progress_data", c_void_p),
        ("warn", MESSAGE),
        ("warn_data", c_void_p),
        ("ranks", POINTER(c_int64)),
        ("rank_count", c_size_t),
        ("window_start_ns", c_int64),
        ("window_end_ns", c_int64),
        ("categories", POINTER(Str)),
        ("category_count", c_size_t),
        ("names", POINTER(Str)),
        ("name_count", c_size_t),
        ("exclude_names", POINTER(Str)),
        ("exclude_name_count", c_size_t),
        ("min_duration_ns", c_uint64),
        ("max_bytes", c_uint64),
    ]


class MergeReport(Sized):
    """tp_merge_report"""

    _fields_ = [
        ("size", c_size_t),
        ("events", c_uint64),
        ("repaired", c_uint64),
        ("lost", c_uint64),
        ("warnings", c_uint64),
        ("uncertainty_ns", c_uint64),
        ("aligned", c_uint64),
        ("bytes", c_uint64),
        ("written", c_uint64),
        ("cut_window", c_uint64),
        ("cut_category", c_uint64),
        ("cut_name", c_uint64),
        ("cut_duration", c_uint64),
        ("cut_budget", c_uint64),
        ("cut_flow", c_uint64),
        ("complete_from_ns", c_uint64),
    ]


class GpuLibraries(Sized):
    """tp_gpu_libraries"""

    _fields_ = [
        ("size", c_size_t),
        ("libcuda", Str),
        ("libcudart", Str),
        ("libcupti", Str),
        ("search_paths", POINTER(Str)),
        ("search_path_count", c_size_t),
    ]


class GpuOptions(Sized):
    """tp_gpu_options"""

    _fields_ = [
        ("size", c_size_t),
        ("flags", c_uint32),
        ("kinds", c_uint32),
        ("buffer_bytes", c_uint64),
        ("cap_bytes", c_uint64),
        ("stop_timeout_ms", c_uint32),
        ("reserved", c_uint32),
        ("libraries", POINTER(GpuLibraries)),
        ("warn", MESSAGE),
        ("warn_data", c_void_p),
    ]


class GpuReport(Sized):
    """tp_gpu_report"""

    _fields_ = [
        ("size", c_size_t),
        ("collections", c_uint64),
        ("kernels", c_uint64),
        ("memcpys", c_uint64),
        ("memsets", c_uint64),
        ("runtime_calls", c_uint64),
        ("driver_calls", c_uint64),
        ("overheads", c_uint64),
        ("syncs", c_uint64),
        ("links", c_uint64),
        ("markers", c_uint64),
        ("filtered", c_uint64),
        ("dropped", c_uint64),
        ("refused_buffers", c_uint64),
        ("kept_buffers", c_uint64),
        ("late_buffers", c_uint64),
        ("no_times", c_uint64),
        ("inverted_times", c_uint64),
        ("out_of_window", c_uint64),
        ("unasked", c_uint64),
        ("unknown", c_uint64),
        ("unnamed", c_uint64),
        ("torn_buffers", c_uint64),
        ("buffers", c_uint64),
        ("clock_uncertainty_ns", c_uint64),
        ("clock_drift_ns", c_uint64),
        ("warnings", c_uint64),
    ]


HANDLE = c_void_p


class Pointer(c_void_p):
    """The handle of a Trace, for calls that record, and a weak reference to the Trace itself."""

    trace: Any = None

    def met(self) -> bool:
        """The calling thread is new to the trace: it gets Python's name for it there. Answers True."""
        trace = self.trace()
        if trace is not None:
            trace._name_this_thread()
        return True


PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "tp_version": (c_char_p, []),
    "tp_status_name": (c_char_p, [c_int32]),
    "tp_last_error_message": (c_size_t, [POINTER(c_char), c_size_t]),
    "tp_now_ns": (c_int64, []),
    "tp_trace_new": (c_int32, [POINTER(TraceOptions), POINTER(HANDLE)]),
    "tp_trace_free": (None, [HANDLE]),
    "tp_trace_set_process_name": (c_int32, [HANDLE, Str]),
    "tp_trace_set_thread_name": (c_int32, [HANDLE, c_uint64, Str]),
    "tp_trace_set_rank": (c_int32, [HANDLE, c_int64, c_int64]),
    "tp_trace_set_backend": (c_int32, [HANDLE, Str]),
    "tp_trace_set_metadata": (c_int32, [HANDLE, Str, Str]),
    "tp_trace_counts": (c_int32, [HANDLE, POINTER(Counts)]),
    "tp_trace_add_op": (c_int32, [HANDLE, POINTER(Op), POINTER(c_uint64)]),
    "tp_trace_add_gpu": (c_int32, [HANDLE, POINTER(GpuActivity)]),
    "tp_trace_add_memory": (c_int32, [HANDLE, POINTER(MemoryEvent)]),
    "tp_trace_add_sample": (c_int32, [HANDLE, POINTER(Sample)]),
    "tp_trace_add_counter": (c_int32, [HANDLE, POINTER(Counter)]),
    "tp_trace_add_instant": (c_int32, [HANDLE, POINTER(Instant)]),
    "tp_trace_write": (c_int32, [HANDLE, Str, POINTER(WriteOptions)]),
    "tp_trace_write_to": (c_int32, [HANDLE, OUTPUT, c_void_p, POINTER(WriteOptions)]),
    "tp_gpu_info_text": (c_int32, [POINTER(GpuLibraries), POINTER(c_char), c_size_t, POINTER(c_size_t)]),
    "tp_gpu_info_json": (c_int32, [POINTER(GpuLibraries), POINTER(c_char), c_size_t, POINTER(c_size_t)]),
    "tp_trace_set_gpu_info": (c_int32, [HANDLE, POINTER(GpuLibraries)]),
    "tp_gpu_start": (c_int32, [HANDLE, POINTER(GpuOptions)]),
    "tp_trace_sync_journal": (c_int32, [HANDLE]),
    "tp_recover": (c_int32, [Str, Str, POINTER(WriteOptions), POINTER(RecoverReport)]),
    "tp_gpu_stop": (c_int32, [HANDLE, POINTER(GpuReport), MESSAGE, c_void_p]),
    "tp_gpu_push_op": (c_int32, [HANDLE, c_uint64]),
    "tp_gpu_pop_op": (c_int32, [HANDLE]),
    "tp_trace_merge": (c_int32, [POINTER(Str), c_size_t, Str, POINTER(MergeOptions), POINTER(MergeReport)]),
    "tp_name_new": (c_int32, [Str, Str, POINTER(c_uint32)]),
    "tp_category_enable": (c_int32, [Str, c_int32]),
    "tp_merge_survey": (c_int32, [Str, POINTER(MergeOptions), MESSAGE, c_void_p]),
    "tp_merge_plan": (c_int32, [POINTER(Str), c_size_t, POINTER(MergeOptions), MESSAGE, c_void_p]),
    "tp_merge_fragment": (c_int32, [Str, Str, Str, POINTER(MergeOptions)]),
    "tp_merge_join": (c_int32, [Str, POINTER(Str), c_size_t, Str, POINTER(MergeOptions), POINTER(MergeReport)]),
}

# The package's own, which the header does not show. Called without the GIL.
OWN: dict[str, tuple[Any, list[Any]]] = {
    "tp_py_idle_since": (c_int32, [HANDLE, c_int64]),
}

FIRST = 64
"""What functions of the name tp_py_ answer for 0 when the calling thread is new to the trace."""

# Called with the GIL held: giving it up costs more than they take. None waits for anything that needs it.
RECORDERS: dict[str, tuple[Any, list[Any]]] = {
    "tp_py_span_begin": (c_int32, [HANDLE, c_uint32]),
    "tp_span_end": (c_int32, [HANDLE]),
    "tp_span_arg_int": (c_int32, [HANDLE, c_uint32, c_int64]),
    "tp_span_arg_uint": (c_int32, [HANDLE, c_uint32, c_uint64]),
    "tp_span_arg_float": (c_int32, [HANDLE, c_uint32, c_double]),
    "tp_span_arg_bool": (c_int32, [HANDLE, c_uint32, c_int32]),
    "tp_span_arg_text": (c_int32, [HANDLE, c_uint32, Str]),
    "tp_py_span_complete": (c_int32, [HANDLE, c_uint32, c_int64, c_int64]),
    "tp_py_thread_seen": (c_int32, [HANDLE]),
    "tp_py_recorded": (c_uint64, [HANDLE]),
    "tp_py_record_instant": (c_int32, [HANDLE, c_uint32]),
    "tp_py_record_counter": (c_int32, [HANDLE, c_uint32, c_double]),
    "tp_py_record_async": (c_int32, [HANDLE, c_uint32, c_int32, c_uint64]),
    "tp_py_record_flow": (c_int32, [HANDLE, c_uint32, c_int32, c_uint64]),
}

# Called with the GIL held, on the objects themselves.
WALKERS: dict[str, tuple[Any, list[Any]]] = {
    "tp_py_ready": (ctypes.c_int, [ctypes.py_object, ctypes.py_object]),
    "tp_py_add_ops": (c_int32, [HANDLE, ctypes.py_object, c_uint64]),
    "tp_py_add_gpus": (c_int32, [HANDLE, ctypes.py_object]),
    "tp_py_add_memories": (c_int32, [HANDLE, ctypes.py_object]),
    "tp_py_add_samples": (c_int32, [HANDLE, ctypes.py_object]),
}


def _declare(library: Any, prototypes: dict[str, tuple[Any, list[Any]]]) -> Any:
    for name, (result, arguments) in prototypes.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


def _bundled() -> Optional[pathlib.Path]:
    return next(iter(sorted(pathlib.Path(__file__).parent.glob("libtptrace*.so"))), None)


def _find() -> str:
    """The library to load: the one of TPTRACE_LIBRARY, else the wheel's own, else the system's."""
    given = os.environ.get("TPTRACE_LIBRARY")
    if given:
        return given
    bundled = _bundled()
    return str(bundled) if bundled is not None else SONAME


def _load() -> tuple[Any, str]:
    path = _find()
    try:
        return _declare(ctypes.CDLL(path), {**PROTOTYPES, **OWN}), path
    except (OSError, AttributeError) as error:
        raise ImportError(
            f"tptrace cannot use its library {path}: {error}. Install the wheel again, or set TPTRACE_LIBRARY to a"
            " libtptrace.so of the same version."
        ) from error


lib, path = _load()


fast = _declare(ctypes.PyDLL(path), RECORDERS)


def undeclared(name: str) -> Any:
    """A function that is called with the GIL held and takes ctypes objects as they are: no others may be given."""
    function = ctypes.PyDLL(path)[name]
    function.restype = c_int32
    return function



def _walker() -> Optional[Any]:
    """The functions that walk lists of tuples in place, where this Python lets them."""
    try:
        walker = _declare(ctypes.PyDLL(path), WALKERS)
    except (OSError, AttributeError):
        return None
    return walker if walker.tp_py_ready(None, ()) == 1 else None


walker = _walker()


def last_message() -> str:
    """The message of this thread's last failed call."""
    size = lib.tp_last_error_message(None, 0) + 1
    buffer = ctypes.create_string_buffer(size)
    lib.tp_last_error_message(buffer, size)
    return buffer.value.decode("utf-8", "replace")


def check(status: int) -> None:
    """Raises what a failed call's status is in Python."""
    if status != _errors.OK:
        _errors.raise_status(status, last_message())


def encoded(text: str) -> bytes:
    """UTF-8; lone surrogates, which have none, become U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def to_str(text: str) -> Str:
    """A tp_str, which keeps its bytes alive."""
    data = encoded(text)
    return Str(data, len(data))


def path_str(target: Any) -> Str:
    """A path, byte for byte."""
    data = os.fsencode(target)
    return Str(data, len(data))
