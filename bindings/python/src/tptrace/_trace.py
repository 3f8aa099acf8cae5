"""The class over the C handle."""

from __future__ import annotations

import ctypes
import json
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple, Optional, Union

from . import _library as c
from . import _gpu, _structs, _tuples
from ._callbacks import Progress, Watched
from ._errors import ClosedError, InvalidArgumentError
from ._spans import Span, SpanOf, name_of, record_counter
from ._structs import Value
from ._writing import by_name, write_options

__all__ = ["Counts", "Progress", "Trace", "now_ns"]

_FIRST = c.FIRST
_instant: Any = c.fast.tp_py_record_instant


class Counts(NamedTuple):
    """How many events a trace holds, and what had to be dropped or repaired."""

    ops: int
    gpu_activities: int
    memory_events: int
    samples: int
    counters: int
    instants: int
    dropped: int
    """Events refused or dropped: bad values, samples without a frame."""
    clamped: int
    """Slices whose end came before their start; they get 1 ns."""
    repaired_texts: int
    """Texts that were not UTF-8."""
    overlaps_moved: int
    """Slices that the last write moved to an extra lane."""
    overlaps_left: int
    """Slices that the last write left overlapping."""
    flows_dropped: int
    """Flows that the last write left out, since they would have run backwards."""
    memory: int
    """Bytes that events and texts take."""
    record_dropped: int
    """Of live recording, what was dropped: no room, or spans too deep."""
    record_unmatched: int
    """Ends of spans without a begin."""
    record_overwritten: int
    """With `keep_recent`: chunks of older records that made room for newer ones."""
    journal_bytes: int
    """The length of the journal; 0 without one."""
    journal_failures: int
    """Times that the system did not take what was to be written to the journal. It is tried again."""


def now_ns() -> int:
    """The time now on the clock that traces use by default, in nanoseconds: CLOCK_MONOTONIC, as time.perf_counter_ns."""
    return int(c.lib.tp_now_ns())


class Trace:
    """Events of one process, kept in memory until they are written.

    Any thread may use it at any time; also write it while others add. Times are integer nanoseconds of the trace's
    clock. After a fork the child makes a Trace of its own: one of its parent's raises ForkedError.

    Args:
        process_name: the name of the process; the program's own if not given.
        base_ns: what timestamps in the document count from; the time of this call if not given.
        clock: "monotonic", "realtime", or "unknown", whose traces are not aligned with others when merged.
        record_bytes: memory for spans that are recorded live, also while they are written; 0 for no limit, else at least
            65536.
        keep_recent: when it is used up, the oldest go (a flight recorder, whose spans stay when it is written) instead of
            the new ones. Only with record_bytes.
        journal: a file to keep a journal in, so that the trace survives this process: all of it is in there within a
            second, and `tptrace.recover` makes a trace of it. The file must not be there yet; "%p" in its path stands
            for the number of the process. It goes with the trace, if that was written since its last event or has none.
    """

    def __init__(
        self, process_name: Optional[str] = None, *, base_ns: Optional[int] = None, clock: str = "monotonic",
        record_bytes: int = 0, keep_recent: bool = False, journal: Union[str, os.PathLike[str], None] = None
    ) -> None:
        self._handle: Optional[int] = None
        # The same for calls that record: they may come at any time, also for a trace that was freed.
        self._pointer: Optional[c.Pointer] = None
        self._lock = threading.Condition()
        self._users = 0
        self._named: set[int] = set()
        # Those that were started: they hold back the last stacks until they are asked for.
        self._samplers: tuple[weakref.ref[Any], ...] = ()
        # What each told of itself last.
        self._sampled: dict[int, dict[str, Any]] = {}
        self._closing = False
        # Of a profiler's trace, which may be thrown away.
        self._journal_path: Optional[str] = None
        options = c.TraceOptions(clock=_structs.choose(_structs.CLOCKS, "clock", clock))
        options.record_bytes = _structs.number("record_bytes", record_bytes, "uint64")
        options.record_full = 1 if keep_recent else 0
        if keep_recent and record_bytes == 0:
            raise InvalidArgumentError(
                "keep_recent: without a limit the oldest never go: also give record_bytes, such as record_bytes=64 << 20"
            )
        if journal is not None:
            options.journal = c.path_str(journal)
        if base_ns is not None:
            options.flags = 1
            options.base_ns = _structs.number("base_ns", base_ns, "int64")
        if process_name is not None:
            options.process_name = _structs.text("process_name", process_name)
        # As for live spans, whose times also do not jump when the system's time is set.
        self._offset_ns = time.time_ns() - time.monotonic_ns() if clock == "realtime" else 0
        handle = c.Pointer()
        c.check(c.lib.tp_trace_new(options, handle))
        handle.trace = weakref.ref(self)
        self._handle = handle.value
        self._pointer = handle

    def close(self) -> None:
        """Frees the trace and everything in it, once no call in another thread uses it. Closing twice does nothing."""
        with self._lock:
            self._closing = True
            self._lock.wait_for(lambda: self._users == 0)
            handle, self._handle = self._handle, None
            self._pointer = None
        if handle is not None:
            c.lib.tp_trace_free(handle)

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce_ex__(self, _protocol: Any) -> Any:
        raise TypeError(
            "a Trace cannot be copied or pickled, since it is of this process: make one in each, and merge what they write"
        )

    def __del__(self) -> None:
        # Nobody uses what nobody refers to. At exit the module may be gone already.
        handle = getattr(self, "_handle", None)
        if handle is not None and c is not None:
            self._handle = None
            c.lib.tp_trace_free(handle)

    def span(self, name: str, /, *, category: str = "", **args: Any) -> Span:
        """A span of this trace: `with trace.span("step", batch=3):`, or a decorator. See `tptrace.span`."""
        return SpanOf(self, name, category, args)

    def record_instant(self, name: str, *, category: str = "") -> None:
        """Something that happens now on this thread."""
        if _instant(self._pointer, name_of(name, category)) == _FIRST:
            self._name_this_thread()

    def record_counter(self, name: str, value: float, *, category: str = "") -> None:
        """The value of a counter now."""
        record_counter(self._pointer, name, value, category)

    instant = record_instant
    counter = record_counter

    def record_flow(self, phase: str, name: str, id: int, *, category: str = "") -> None:
        """The "start", a "step" or the "end" of a flow: it hangs on the span that is open on this thread."""
        number = _structs.choose({"start": 0, "step": 1, "end": 2}, "phase", phase)
        part = name_of(name, category), number, _structs.number("id", id, "uint64")
        if c.fast.tp_py_record_flow(self._pointer, *part) == c.FIRST:
            self._name_this_thread()

    def record_async(self, phase: str, name: str, id: int, *, category: str = "") -> None:
        """The "begin", an "instant" or the "end" of an async span, which may end on another thread."""
        number = _structs.choose({"begin": 0, "instant": 1, "end": 2}, "phase", phase)
        part = name_of(name, category), number, _structs.number("id", id, "uint64")
        if c.fast.tp_py_record_async(self._pointer, *part) == c.FIRST:
            self._name_this_thread()

    @contextmanager
    def _using(self) -> Iterator[int]:
        """The handle, which is not freed meanwhile."""
        with self._lock:
            if self._handle is None or self._closing:
                raise ClosedError("the trace is closed")
            self._users += 1
            handle = self._handle
        try:
            yield handle
        finally:
            with self._lock:
                self._users -= 1
                self._lock.notify_all()

    def set_process_name(self, name: str) -> None:
        """Names the process. An empty name brings the program's own back."""
        with self._using() as handle:
            c.check(c.lib.tp_trace_set_process_name(handle, _structs.text("name", name)))

    def set_thread_name(self, thread_id: int, name: str) -> None:
        """Names the lanes of a thread: those of its ops, of its CUDA calls and of its samples."""
        thread = _structs.number("thread_id", thread_id, "uint64")
        with self._using() as handle:
            c.check(c.lib.tp_trace_set_thread_name(handle, thread, _structs.text("name", name)))
            self._named.add(thread)

    def _now_ns(self) -> int:
        """The time now on the trace's clock."""
        return time.monotonic_ns() + self._offset_ns

    def _name_thread(self, number: int, name: str) -> None:
        """Python's name of a thread, if it has no other."""
        if number not in self._named:
            with self._using() as handle:
                c.lib.tp_trace_set_thread_name(handle, number, c.to_str(name))

    def _name_this_thread(self) -> None:
        """Python's name of the calling thread: one that has ended when the trace is written has none any more."""
        # current_thread() would make a thread of one that is none of Python's.
        known = getattr(threading, "_active", {}).get(threading.get_ident())
        if known is not None:
            try:
                self._name_thread(threading.get_native_id(), known.name)
            except ClosedError:
                pass

    def _recorded(self) -> int:
        """How far live recording is: another number after every record."""
        return int(c.fast.tp_py_recorded(self._pointer))

    def _is_idle_since(self, time_ns: int) -> bool:
        """Whether nothing that was added begins at that time or later."""
        self._take_samples()
        with self._using() as handle:
            return bool(c.lib.tp_py_idle_since(handle, time_ns))

    def _this_thread(self) -> int:
        """The number of the calling thread, for what is added without one."""
        if c.fast.tp_py_thread_seen(self._pointer) == c.FIRST:
            self._name_this_thread()
        return threading.get_native_id()

    def _take_samples(self) -> None:
        """What samplers hold."""
        for known in self._samplers:
            sampler = known()
            if sampler is not None:
                sampler._flush()

    def _tell_samples(self, sampler: int, told: dict[str, Any]) -> None:
        """What samplers say of themselves in the document: of several together, and each by itself."""
        with self._lock:
            self._sampled[sampler] = told
            every = list(self._sampled.values())
            if len(every) > 1:
                sums = {key: sum(one[key] for one in every) for key in told if key != "period_ms"}
                told = {"period_ms": min(one["period_ms"] for one in every), **sums, "samplers": every}
            self.set_metadata("sampler", told)

    def _name_threads(self, handle: int) -> None:
        """Python's names of its threads, which the system does not know, for those that live and have no other."""
        for thread in threading.enumerate():
            number = thread.native_id
            if number is not None and number not in self._named:
                c.lib.tp_trace_set_thread_name(handle, number, c.to_str(thread.name))

    def set_rank(self, rank: Optional[int], world_size: Optional[int] = None) -> None:
        """Sets rank and world size; None means "unknown".

        Until this is called they come from the environment when the trace is written: RANK, else TP_RANK, and
        WORLD_SIZE, else TP_WORLD_SIZE.
        """
        numbers = [-1 if value is None else _structs.number("rank", value, "int64") for value in (rank, world_size)]
        with self._using() as handle:
            c.check(c.lib.tp_trace_set_rank(handle, *numbers))

    def set_backend(self, name: str) -> None:
        """Names the library that the ranks talk through, such as "nccl"."""
        with self._using() as handle:
            c.check(c.lib.tp_trace_set_backend(handle, _structs.text("name", name)))

    def set_metadata(self, key: str, value: Any) -> None:
        """Adds a top-level key of the document. `value` is anything that the json module can write."""
        document = json.dumps(value, allow_nan=False, ensure_ascii=False)
        with self._using() as handle:
            c.check(c.lib.tp_trace_set_metadata(handle, _structs.text("key", key), _structs.text("value", document)))

    def set_gpu_info(
        self,
        *,
        libcuda: Optional[Union[str, os.PathLike[str]]] = None,
        libcudart: Optional[Union[str, os.PathLike[str]]] = None,
        libcupti: Optional[Union[str, os.PathLike[str]]] = None,
    ) -> None:
        """Keeps what `gpu_info` finds in the trace: `deviceProperties` and the versions of the torch format."""
        where = _gpu.libraries(libcuda, libcudart, libcupti)
        with self._using() as handle:
            c.check(c.lib.tp_trace_set_gpu_info(handle, where))

    def gpu_start(
        self,
        kinds: Optional[Iterable[str]] = None,
        *,
        all_calls: bool = False,
        wait: bool = True,
        buffer_bytes: int = 0,
        cap_bytes: int = 0,
        stop_timeout: float = 10.0,
        libcuda: Optional[Union[str, os.PathLike[str]]] = None,
        libcudart: Optional[Union[str, os.PathLike[str]]] = None,
        libcupti: Optional[Union[str, os.PathLike[str]]] = None,
    ) -> None:
        """Starts to collect what the GPU does into the trace, for all threads of the process, until `gpu_stop`.

        Looks for the driver and CUPTI, loads and starts them. What is odd is given as a GpuWarning. Raises GpuError
        (GpuUnavailableError, GpuBusyError, GpuPermissionError) with what to do; the trace goes on with its CPU side.

        Args:
            kinds: of "kernel", "memcpy", "memset", "runtime", "driver", "overhead", "sync", "external" (which op made a
                call: see `gpu_op`) and "marker" (NVTX); all but the last by default.
            all_calls: also calls that are many and say little, such as cudaGetDevice, and all of the driver's.
            wait: wait for the GPU's work at the end.
            buffer_bytes, cap_bytes: of one buffer, and of all; 0 for 4 MiB and 256 MiB. Records beyond are lost, counted.
            stop_timeout: how long `gpu_stop` may take, in seconds.
            libcuda, libcudart, libcupti: files to use, instead of looking for them.
        """
        where = _gpu.libraries(libcuda, libcudart, libcupti)
        with self._using() as handle:
            said = _gpu.start(handle, kinds, all_calls, wait, buffer_bytes, cap_bytes, stop_timeout, where)
        for warning in said:
            warnings.warn(warning, _gpu.GpuWarning, stacklevel=2)

    def gpu_stop(self) -> _gpu.GpuReport:
        """Ends the collection: waits for the GPU, takes what it did, and tells what it came to.

        What is odd is in the report and in the document, not given as a warning. Before `write`, which writes what has
        been taken so far.
        """
        with self._using() as handle:
            return _gpu.stop(handle)

    @contextmanager
    def gpu_op(self, id: int) -> Iterator[None]:
        """Says that the CUDA calls of this thread come from the op of that id (`add_op(..., id=id)`), within a with block."""
        number = _structs.number("id", id, "uint64")
        with self._using() as handle:
            c.check(c.lib.tp_gpu_push_op(handle, number))
        try:
            yield
        finally:
            with self._using() as handle:
                c.check(c.lib.tp_gpu_pop_op(handle))

    def add_op(
        self,
        name: str,
        start_ns: int,
        end_ns: int,
        *,
        thread_id: Optional[int] = None,
        kind: str = "op",
        id: Optional[int] = None,
        shapes: Optional[Iterable[Iterable[int]]] = None,
        dtypes: Optional[Sequence[Union[int, str]]] = None,
        call_site: Optional[str] = None,
        gpu_ms: Optional[float] = None,
        kernel_count: int = 0,
        output_bytes: int = 0,
        stack: Optional[Iterable[str]] = None,
        args: Optional[Mapping[str, Value]] = None,
    ) -> int:
        """Adds a slice on a CPU thread and answers its id, which GPU activities name as their external id.

        Args:
            thread_id: any number that names the thread; if not given the calling one's, threading.get_native_id(), by which its
                spans go too.
            kind: "op", "user_annotation" or "backward".
            id: what GPU activities call this op; its position in the trace if not given.
            shapes: the shape of each input.
            dtypes: the element type of each input, as TensorPlay numbers them (8 is float32) or as text.
            call_site: where in the program it was called.
            gpu_ms: time of its kernels in milliseconds; `kernel_count` is their number.
            output_bytes: bytes that it allocated for its outputs.
            stack: the call stack, innermost frame first.
            args: free arguments: integers, floats, bools and strings.
        """
        thread = self._this_thread() if thread_id is None else thread_id
        number = _structs.choose(_structs.OP_KINDS, "kind", kind)
        made = _structs.op(
            name, start_ns, end_ns, thread, number, id, shapes, dtypes, call_site, gpu_ms, kernel_count, output_bytes,
            stack, args,
        )  # fmt: skip
        answer = ctypes.c_uint64()
        with self._using() as handle:
            c.check(c.lib.tp_trace_add_op(handle, made, answer))
        return answer.value

    def add_gpu(
        self,
        kind: str,
        name: str,
        start_ns: int,
        end_ns: int,
        *,
        device: int = 0,
        stream: int = 0,
        correlation_id: int = 0,
        external_id: Optional[int] = None,
        os_thread: int = 0,
        callback_id: int = 0,
        bytes: int = 0,
        copy_kind: int = 0,
        value: int = 0,
        grid: Optional[tuple[int, int, int]] = None,
        block: Optional[tuple[int, int, int]] = None,
        registers_per_thread: Optional[int] = None,
        shared_memory: Optional[int] = None,
        context: Optional[int] = None,
        graph_id: Optional[int] = None,
        graph_node_id: Optional[int] = None,
        priority: Optional[int] = None,
        args: Optional[Mapping[str, Value]] = None,
    ) -> None:
        """Adds a kernel, copy or fill on a stream, or the CUDA call that caused it.

        Args:
            kind: "kernel", "memcpy", "memset", "runtime" or "driver".
            correlation_id: joins a call to what it caused; 0 for none.
            external_id: the id of the op that caused it.
            os_thread: the OS thread of a runtime or driver call.
            bytes: how many were copied or filled.
            copy_kind: CUPTI's number for the direction of a copy.
            value: the value of a fill.
            shared_memory: of one block, in bytes.
        """
        details = {
            "grid": grid,
            "block": block,
            "registers_per_thread": registers_per_thread,
            "shared_memory": shared_memory,
            "context": context,
            "graph_id": graph_id,
            "graph_node_id": graph_node_id,
            "priority": priority,
        }
        number = _structs.choose(_structs.GPU_KINDS, "kind", kind)
        made = _structs.gpu(
            number, name, start_ns, end_ns, device, stream, correlation_id, external_id, os_thread, callback_id, bytes,
            copy_kind, value, details, args,
        )  # fmt: skip
        with self._using() as handle:
            c.check(c.lib.tp_trace_add_gpu(handle, made))

    def add_memory(
        self,
        time_ns: int,
        address: int,
        bytes: int,
        *,
        allocated: bool,
        cuda_device: Optional[int] = None,
        thread_id: Optional[int] = None,
        args: Optional[Mapping[str, Value]] = None,
    ) -> None:
        """Adds memory given out (`allocated`) or taken back, on a CUDA device or, without one, the CPU."""
        thread = self._this_thread() if thread_id is None else thread_id
        free = _structs.args(args)
        made = c.MemoryEvent(
            flags=(2 if allocated else 0) | (0 if cuda_device is None else 1),
            device=0 if cuda_device is None else _structs.number("cuda_device", cuda_device, "int32"),
            time_ns=_structs.number("time_ns", time_ns, "int64"),
            address=_structs.number("address", address, "uint64"),
            bytes=_structs.number("bytes", bytes, "int64"),
            thread_id=_structs.number("thread_id", thread, "uint64"),
            args=ctypes.cast(free, ctypes.POINTER(c.Arg)),
            arg_count=len(free),
        )
        with self._using() as handle:
            c.check(c.lib.tp_trace_add_memory(handle, made))

    def add_sample(
        self, time_ns: int, os_thread: int, stack: Iterable[str], *, args: Optional[Mapping[str, Value]] = None
    ) -> None:
        """Adds the stack of one thread at one moment, innermost frame first. Without a frame it is dropped, counted."""
        frames = _structs.texts("stack", stack)
        free = _structs.args(args)
        made = c.Sample(
            time_ns=_structs.number("time_ns", time_ns, "int64"),
            os_thread=_structs.number("os_thread", os_thread, "uint64"),
            stack=ctypes.cast(frames, ctypes.POINTER(c.Str)),
            stack_count=len(frames),
            args=ctypes.cast(free, ctypes.POINTER(c.Arg)),
            arg_count=len(free),
        )
        with self._using() as handle:
            c.check(c.lib.tp_trace_add_sample(handle, made))

    def add_counter(self, name: str, time_ns: int, values: Union[int, float, Mapping[str, Union[int, float]]]) -> None:
        """Adds the value of a counter track, or of each of its series by name: finite numbers."""
        series = values if isinstance(values, Mapping) else {"value": values}
        free = _structs.args(series)
        made = c.Counter(
            name=_structs.text("name", name),
            time_ns=_structs.number("time_ns", time_ns, "int64"),
            values=ctypes.cast(free, ctypes.POINTER(c.Arg)),
            value_count=len(free),
        )
        with self._using() as handle:
            c.check(c.lib.tp_trace_add_counter(handle, made))

    def add_instant(
        self,
        name: str,
        time_ns: int,
        *,
        thread_id: Optional[int] = None,
        scope: str = "thread",
        args: Optional[Mapping[str, Value]] = None,
    ) -> None:
        """Adds something that happened and took no time. Its line covers the "thread", "process" or "global" all."""
        thread = self._this_thread() if thread_id is None else thread_id
        free = _structs.args(args)
        made = c.Instant(
            scope=_structs.choose(_structs.SCOPES, "scope", scope),
            name=_structs.text("name", name),
            time_ns=_structs.number("time_ns", time_ns, "int64"),
            thread_id=_structs.number("thread_id", thread, "uint64"),
            args=ctypes.cast(free, ctypes.POINTER(c.Arg)),
            arg_count=len(free),
        )
        with self._using() as handle:
            c.check(c.lib.tp_trace_add_instant(handle, made))

    def add_ops(self, events: Iterable[Sequence[Any]], *, first_id: Optional[int] = None) -> None:
        """Adds many ops from tuples, as TensorPlay's profiler collects them.

        `(name, kind, start_ns, end_ns, thread_id, shapes, dtypes, call_site, gpu_ms, output_bytes, stack,
        kernel_count)`, where kind is "o" for an op, "u" for a user annotation or "b" for backward. All after the
        thread may be None or missing; tuples of fewer than five fields are skipped. An op's id is its place in
        `events` plus `first_id`, which by default is the number of ops in the trace.
        """
        with self._using() as handle:
            start = self.counts().ops if first_id is None else _structs.number("first_id", first_id, "uint64")
            _tuples.add_ops(handle, events, start)

    def add_gpu_activities(self, activities: Iterable[Sequence[Any]]) -> None:
        """Adds many GPU activities from tuples.

        `(name, kind, start_ns, end_ns, device, stream, correlation_id, external_id, os_thread, callback_id, bytes,
        copy_kind, value)`, where kind is "k" for a kernel, "m" memcpy, "s" memset, "r" runtime or "d" driver.
        """
        with self._using() as handle:
            _tuples.add_gpu_activities(handle, activities)

    def add_memory_events(self, events: Iterable[Sequence[Any]]) -> None:
        """Adds many memory events from tuples.

        `(time_ns, address, bytes, allocated, is_cuda, device, stream, thread_id)`
        """
        with self._using() as handle:
            _tuples.add_memory_events(handle, events)

    def add_samples(self, samples: Iterable[Sequence[Any]]) -> None:
        """Adds many stack samples from tuples `(time_ns, os_thread, stack)`."""
        with self._using() as handle:
            _tuples.add_samples(handle, samples)

    def sync_journal(self) -> None:
        """Brings the journal up to date, and waits until the disk has it. It happens by itself too."""
        with self._using() as handle:
            self._name_threads(handle)
            c.check(c.lib.tp_trace_sync_journal(handle))

    def counts(self) -> Counts:
        """What was stored, dropped and repaired so far."""
        self._take_samples()
        made = c.Counts()
        with self._using() as handle:
            c.check(c.lib.tp_trace_counts(handle, made))
        return Counts(*(getattr(made, field) for field in Counts._fields))

    def write(
        self,
        path: Union[str, os.PathLike[str]],
        *,
        format: str = "auto",
        compression: str = "auto",
        level: int = 0,
        threads: int = 0,
        fsync: bool = False,
        separate_overlaps: bool = True,
        trace_name: Optional[str] = None,
        progress: Optional[Callable[[Progress], Any]] = None,
    ) -> str:
        """Writes everything added so far to a file, replacing it as a whole, and answers its path.

        Other threads may go on adding; what they add meanwhile does not show. On failure the old file is as it was.

        Args:
            format: "plain" (Chrome's trace format), "torch" (with what the readers of PyTorch's traces look for),
                "perfetto" (Perfetto's own format, which no other reader knows; with separate_overlaps), or "auto":
                "perfetto" if the path ends in .pftrace or .pftrace.gz, else "plain".
            compression: "auto" (gzip if the path ends in .gz), "none" or "gzip".
            level: gzip level from 1 (fastest) to 9 (smallest); 0 for the default, 1.
            threads: how many format and compress; 0 for one per core.
            fsync: wait until the file is on the disk.
            separate_overlaps: move slices that cross another on their lane to an extra lane beside it, since viewers
                lose them otherwise.
            trace_name: `traceName` in the torch format; the path if not given.
            progress: called now and then with a Progress on this thread; answers False to cancel.
        """
        watched = Watched(progress)
        format = by_name(format, path, "plain")
        options = write_options(format, compression, level, threads, fsync, separate_overlaps, trace_name, watched)
        self._take_samples()
        with self._using() as handle:
            self._name_threads(handle)
            watched.finish(c.lib.tp_trace_write(handle, c.path_str(path), options))
        return os.fsdecode(path)

    def export_chrome_trace(self, path: Union[str, os.PathLike[str]]) -> None:
        """`write` in the torch format, under the name that torch.profiler has for it. Compressed if the path ends in .gz."""
        self.write(path, format="torch")

    def write_to(
        self,
        target: Union[BinaryIO, Callable[[bytes], Any]],
        *,
        format: str = "plain",
        compression: str = "none",
        level: int = 0,
        threads: int = 0,
        separate_overlaps: bool = True,
        trace_name: Optional[str] = None,
        progress: Optional[Callable[[Progress], Any]] = None,
    ) -> None:
        """Hands the document piece by piece, as bytes, to a binary file object or to a function. As `write`."""
        take: Callable[[bytes], Any] = target.write if hasattr(target, "write") else target
        watched = Watched(progress)
        options = write_options(format, compression, level, threads, False, separate_overlaps, trace_name, watched)
        self._take_samples()

        def put(piece: Any, size: int, _: Any) -> int:
            try:
                left = ctypes.string_at(piece, size)
                # Raw file objects may take a part only, and say how much.
                while left:
                    taken = take(left)
                    if not isinstance(taken, int) or isinstance(taken, bool) or not 0 < taken < len(left):
                        break
                    left = left[taken:]
                return 0
            except BaseException as error:
                watched.raised = error
                return 1

        with self._using() as handle:
            self._name_threads(handle)
            watched.finish(c.lib.tp_trace_write_to(handle, c.OUTPUT(put), None, options))
