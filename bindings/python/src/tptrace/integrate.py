"""tptrace inside other profilers, without a change of theirs."""

from __future__ import annotations

import importlib
import inspect
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, Optional

from . import _dropin, _merge
from ._errors import UnsupportedError
from ._trace import Trace

__all__ = ["Replacement", "TensorPlay", "tensorplay"]

_EXPORTER = ("event_list", "path", "torch_compat", "gpu_activities", "mem_events", "samples")
_MERGER = ("paths", "out_path")


class Replacement:
    """Functions of another package that were replaced. `undo`, or the end of a `with` block, brings them back."""

    def __init__(self) -> None:
        self._places: list[tuple[ModuleType, str, Any, Any]] = []

    @property
    def places(self) -> tuple[str, ...]:
        """Where something was replaced, as `module.name`; nothing if it was done before."""
        return tuple(f"{module.__name__}.{name}" for module, name, *_ in self._places)

    def _replace(self, package: str, name: str, old: Any, new: Any) -> None:
        """Everywhere in a package: modules keep functions of others under names of their own."""
        for module_name, module in list(sys.modules.items()):
            if isinstance(module, ModuleType) and (module_name == package or module_name.startswith(package + ".")):
                if module.__dict__.get(name) is old:
                    setattr(module, name, new)
                    self._places.append((module, name, old, new))

    def undo(self) -> None:
        """Brings the functions back, but for those that someone else has replaced since."""
        for module, name, old, new in self._places:
            if module.__dict__.get(name) is new:
                setattr(module, name, old)
        self._places = []

    def __enter__(self) -> Replacement:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()


def tensorplay() -> Replacement:
    """Makes TensorPlay write and merge its traces with tptrace: its exporters call its own functions no more.

    Call it once at the start, before or after TensorPlay is imported; calling it again does nothing. Its
    `profile.export_chrome_trace`, `tensorboard_trace_handler` and `merge_distributed_traces` then give the documents
    that docs/formats.md describes, in less time. What modules other than TensorPlay's have imported by name before
    stays as it is.

    Raises ImportError without TensorPlay, and UnsupportedError for one whose exporter has changed.
    """
    importlib.import_module("tensorplay.profiler")
    try:
        theirs = importlib.import_module("tensorplay.profiler._chrome_trace_export")
    except ImportError as error:
        raise _changed("module tensorplay.profiler._chrome_trace_export") from error
    made = Replacement()
    wanted: list[tuple[str, Callable[..., Any], tuple[str, ...]]] = [
        ("export_chrome_trace", _dropin.export_chrome_trace, _EXPORTER),
        ("merge_distributed_traces", _merge.merge_distributed_traces, _MERGER),
    ]
    old: dict[str, Any] = {}
    for name, new, parameters in wanted:
        old[name] = getattr(theirs, name, None)
        if old[name] is new:
            continue
        if not callable(old[name]) or tuple(inspect.signature(old[name]).parameters) != parameters:
            raise _changed(f"{theirs.__name__}.{name}({', '.join(parameters)})")
    for name, new, _ in wanted:
        if old[name] is not new:
            made._replace("tensorplay", name, old[name], new)
    return made


def _changed(what: str) -> UnsupportedError:
    version = getattr(sys.modules["tensorplay"], "__version__", "of no version")
    return UnsupportedError(
        f"TensorPlay {version} has no {what}, which tptrace would replace: use a version of tptrace that knows it"
    )


class TensorPlay:
    """TensorPlay's ops, as a source of a `tptrace.Profiler`: in the same trace as spans and samples.

        with tptrace.Profiler(sources=[tptrace.integrate.TensorPlay(record_shapes=True)]) as profiler: ...

    Without a Profiler: `start(trace)` and `stop(trace)`. One may run at a time, since TensorPlay collects for the
    process. The ops are on the lanes of their threads: of those that live when it starts or stops.

    Args:
        options: the arguments of `tensorplay.profiler.profile`, but for a schedule.
    """

    def __init__(self, **options: Any) -> None:
        for name in ("schedule", "on_trace_ready"):
            if options.get(name) is not None:
                raise TypeError(f"{name}: give it to tptrace.Profiler")
        self._options = options
        self._profile: Optional[Any] = None
        self._threads: dict[int, int] = {}

    def start(self, trace: Trace) -> None:
        """Starts TensorPlay's profiler."""
        if self._profile is not None:
            raise RuntimeError("this source runs already: call stop() first")
        profile = importlib.import_module("tensorplay.profiler").profile(**self._options)
        profile.__enter__()
        self._profile = profile
        self._threads = _threads()

    def stop(self, trace: Trace) -> None:
        """Ends TensorPlay's profiler, and adds what it collected to the trace."""
        profile, self._profile = self._profile, None
        if profile is None:
            raise RuntimeError("this source does not run: call start() first")
        self._threads.update(_threads())
        profile.__exit__(None, None, None)
        add_tensorplay(trace, profile, self._threads)


def _threads() -> dict[int, int]:
    """The OS thread of each Python thread, by what TensorPlay calls it: std::hash of its pthread."""
    return {
        _std_hash(thread.ident): thread.native_id
        for thread in threading.enumerate()
        if thread.ident is not None and thread.native_id is not None
    }


def _std_hash(number: int) -> int:
    """std::hash<std::thread::id> of libstdc++ for a pthread of 64 bits: MurmurHashUnaligned2 of its bytes."""
    whole, factor = (1 << 64) - 1, 0xC6A4A7935BD1E995

    def mix(value: int) -> int:
        return value ^ (value >> 47)

    data = mix(number * factor & whole) * factor & whole
    hashed = ((0xC70F6907 ^ (8 * factor & whole)) ^ data) * factor & whole
    return mix(mix(hashed) * factor & whole)


def add_tensorplay(trace: Trace, profile: Any, threads: Optional[dict[int, int]] = None) -> None:
    """Adds what a profile of TensorPlay's has collected to a trace: ops, GPU activities, memory events and samples.

    Args:
        profile: a `tensorplay.profiler.profile` that has ended.
        threads: the OS thread for each number of a thread that is not one; what is missing stays as it is.
    """
    known = _threads() if threads is None else threads
    first = trace.counts().ops
    ops = profile._ensure_events()
    trace.add_ops(
        [(*op[:4], known.get(op[4], op[4]), *op[5:]) if len(op) > 4 else op for op in ops], first_id=first
    )
    activities = profile.gpu_activities
    if first:
        # They name their ops by place, which those of before have moved.
        activities = [(*one[:7], one[7] + first, *one[8:]) if _is_place(one[7]) else one for one in activities]
    trace.add_gpu_activities(activities)
    trace.add_memory_events([(*one[:7], known.get(one[7], one[7])) for one in profile.mem_events])
    sampler = getattr(profile, "_sampler", None)
    if sampler is not None:
        by_ident = {thread.ident: thread.native_id for thread in threading.enumerate()}
        trace.add_samples([(when, by_ident.get(ident) or ident, stack) for when, ident, stack in sampler.samples])


def _is_place(external_id: Optional[int]) -> bool:
    return external_id is not None and 0 <= external_id < (1 << 63)
