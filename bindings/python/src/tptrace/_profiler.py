"""A profiler of steps: waits, warms up, records, hands out a trace, and starts over."""

from __future__ import annotations

import ctypes
import enum
import inspect
import os
import socket
import time
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Callable, Optional, Protocol, Union

from . import _gpu, _spans, _structs
from . import _library as c
from ._errors import GpuError, InvalidArgumentError
from ._journals import Journals, throw_away
from ._sampler import Sampler
from ._trace import Trace

__all__ = ["Profiler", "ProfilerAction", "Source", "schedule", "trace_handler"]

STEP_NAME = "ProfilerStep"
"""What the readers of PyTorch's traces look for, with # and the step's number."""

Switch = Union[bool, Mapping[str, Any], Callable[[int], Union[bool, Mapping[str, Any]]]]


class ProfilerAction(enum.Enum):
    """What the profiler does in one step."""

    NONE = 0
    """Nothing."""
    WARMUP = 1
    """All as when recording, for what the first time costs; it is thrown away."""
    RECORD = 2
    """Records."""
    RECORD_AND_SAVE = 3
    """Records, and hands out the trace at the end of the step."""


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """The schedule of torch.profiler: which steps to record, for `Profiler(schedule=...)`.

    After `skip_first` steps a cycle: nothing for `wait` steps, warming up for `warmup`, recording for `active`, whose last
    step ends with a trace.

    Args:
        repeat: how many cycles; 0 for no end.
        skip_first_wait: not 0: the first cycle has no `wait`.
    """
    for name, value, least in (
        ("wait", wait, 0), ("warmup", warmup, 0), ("active", active, 1), ("repeat", repeat, 0), ("skip_first", skip_first, 0)
    ):  # fmt: skip
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InvalidArgumentError(f"{name}: it must be an integer of at least {least}, not {value!r}")
    if skip_first_wait not in (0, 1):
        raise InvalidArgumentError(f"skip_first_wait: it must be 0 or 1, not {skip_first_wait!r}")
    if warmup == 0:
        warnings.warn("without warm-up steps the first recorded step is slower than the others", stacklevel=2)
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise InvalidArgumentError(f"step: it must be at least 0, not {step!r}")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        if repeat and step >= repeat * cycle:
            return ProfilerAction.NONE
        at = step % cycle
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if at < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def _always(_: int) -> ProfilerAction:
    return ProfilerAction.RECORD


def trace_handler(
    dir_name: Union[str, os.PathLike[str]], worker_name: Optional[str] = None, use_gzip: bool = True, **write: Any
) -> Callable[[Trace], None]:
    """A function for `Profiler(on_trace_ready=...)` that writes each trace into a folder that TensorBoard takes as logdir.

    The files are WORKER.TIME.pt.trace.json.gz, in the torch format.

    Args:
        dir_name: the folder; made if it is not there.
        worker_name: different for each process; if not given rank-RANK_HOST_PID, without its first part if there is no
            RANK or TP_RANK in the environment.
        use_gzip: compress; False for .pt.trace.json.
        write: arguments of `Trace.write`.
    """
    folder = os.fspath(dir_name)

    def handle(trace: Trace) -> None:
        os.makedirs(folder, exist_ok=True)
        worker = worker_name
        if not worker:
            rank = os.environ.get("RANK", os.environ.get("TP_RANK", "")).strip()
            worker = f"{f'rank-{rank}_' if rank.isdecimal() else ''}{socket.gethostname()}_{os.getpid()}"
        # Nanoseconds, so that no two have one name. The viewers show them as the name of the recording.
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        trace.write(os.path.join(folder, name), **{"format": "torch", **write})

    return handle


class Source(Protocol):
    """Something else that records while a Profiler does, such as another profiler, into the same trace."""

    def start(self, trace: Trace) -> None:
        """Starts to record."""

    def stop(self, trace: Trace) -> None:
        """Ends, and adds what it recorded to the trace."""


class _Recording:
    """One trace, and what records into it."""

    def __init__(self, profiler: Profiler, cycle: int, kept: bool) -> None:
        self.trace = profiler._journals.trace(kept)
        self.first_step = profiler.step_num
        self.report: Optional[_gpu.GpuReport] = None
        # What ends it, the last that was started first.
        self._ends: list[Callable[[], None]] = []
        try:
            self._start(profiler, cycle)
        except BaseException:
            self._ends.insert(0, lambda: throw_away(self.trace))
            self.end()
            raise

    def _start(self, profiler: Profiler, cycle: int) -> None:
        trace = self.trace
        gpu = _wanted("gpu", profiler._gpu, cycle)
        if gpu is not None and profiler.gpu_error is None:
            try:
                trace.gpu_start(**gpu)
                self._ends.append(self._stop_gpu)
            except GpuError as error:
                profiler.gpu_error = error
                warnings.warn(f"the profiler goes on without the GPU: {error}", _gpu.GpuWarning, stacklevel=5)
        for source in profiler._sources:
            source.start(trace)
            self._ends.append(lambda source=source: source.stop(trace))  # type: ignore[misc]
        sampler = _wanted("sampler", profiler._sampler, cycle)
        if sampler is not None:
            made = Sampler(trace, **sampler)
            made.start()
            self._ends.append(made.stop)
        before = _spans.current_trace()
        _spans.set_current_trace(trace)
        self._ends.append(lambda: self._bring_back(before))

    def _stop_gpu(self) -> None:
        self.report = self.trace.gpu_stop()

    def _bring_back(self, before: Optional[Trace]) -> None:
        # Another one that was set meanwhile stays.
        if _spans.current_trace() is self.trace:
            _spans.set_current_trace(before)

    def end(self) -> None:
        """Ends all, also if a part of it fails."""
        if self._ends:
            last = self._ends.pop()
            try:
                last()
            finally:
                self.end()


def _wanted(name: str, given: Switch, cycle: int) -> Optional[dict[str, Any]]:
    """The arguments for something that may be switched on for a cycle; None if it is off."""
    if callable(given):
        given = given(cycle)
    if isinstance(given, Mapping):
        return dict(given)
    if given is True or given is False or given is None:
        return {} if given else None
    raise InvalidArgumentError(f"{name}: it must be a bool, a mapping of arguments, or a function of the cycle, not {given!r}")


_TRACE_OPTIONS = tuple(name for name in inspect.signature(Trace.__init__).parameters if name not in ("self", "journal"))
# What those of torch.profiler.profile are for.
_OF_TORCH = {
    "activities": "spans are always recorded; gpu=True collects what the GPU does",
    "with_stack": "sampler=True samples the stacks of all threads",
    "use_cuda": "gpu=True collects what the GPU does",
    "record_shapes": "ops that are added may have shapes",
    "profile_memory": "memory that is told with Trace.add_memory is in the trace",
}


def _refusal(name: str) -> str:
    hint = f" ({_OF_TORCH[name]})" if name in _OF_TORCH else ""
    return (
        f"Profiler takes no {name!r}{hint}. It takes schedule, on_trace_ready, gpu, sampler, sources, journal, and of Trace"
        f" {', '.join(_TRACE_OPTIONS)}"
    )


class Profiler:
    """Records chosen steps of a loop, each cycle of them into a trace of its own.

        with tptrace.Profiler(
            schedule=tptrace.schedule(wait=1, warmup=1, active=3, repeat=2),
            on_trace_ready=tptrace.trace_handler("traces"),
        ) as profiler:
            for batch in batches:
                train(batch)
                profiler.step()

    Names and order of actions are those of `torch.profiler.profile`. While it records (and warms up), its trace is the
    current one, so that `tptrace.span` and the like land there. Each step becomes a slice `ProfilerStep#N` of the
    thread that calls `step`. One thread drives a profiler. In a child of a fork it does nothing.

    A cycle that the end of the block cuts short is handed out as it is, also when an exception ends it; a warm-up that is
    cut short is thrown away. The step that the last call of `step` began is left out if nothing was recorded in it, and so
    is a trace of nothing else.

    Args:
        schedule: a function that says of a step's number, from 0 on, which ProfilerAction it gets: see `schedule`. Those of
            PyTorch and of TensorPlay may be given too. Without one all is recorded, into one trace.
        on_trace_ready: called with each Trace when its last step is over, on the thread that drives the profiler. It may
            keep the trace; the profiler does not close it. See `trace_handler`. What it raises comes out of `step`, when
            the next step has begun.
        gpu: also collect what the GPU does: True, or the arguments of `Trace.gpu_start`, or a function that says either of
            a cycle's number. If it cannot be collected the profiler goes on without, with a GpuWarning once;
            `gpu_error` says why.
        sampler: also sample the stacks of all threads: likewise, with the arguments of `Sampler`.
        sources: what else records, each as long as the profiler does: see `Source`.
        journal: a file to keep a journal in, for each trace that is recorded one of its own: "%c" in the path stands for the
            trace's number, from 0 on, and "%p" for that of the process. Without a "%c" the number is put before the path's
            ending: "run.journal" gives run.0.journal, run.1.journal... Each goes with its trace, if that was written. One
            that cannot be made later on is told in a RuntimeWarning, and the work goes on. Warm-ups have none.
        trace_options: the other arguments of `Trace`, such as record_bytes.
    """

    def __init__(
        self,
        *,
        schedule: Optional[Callable[[int], Any]] = None,
        on_trace_ready: Optional[Callable[[Trace], Any]] = None,
        gpu: Switch = False,
        sampler: Switch = False,
        sources: Iterable[Source] = (),
        journal: Optional[Union[str, os.PathLike[str]]] = None,
        **trace_options: Any,
    ) -> None:
        for name in trace_options:
            if name not in _TRACE_OPTIONS:
                raise TypeError(_refusal(name))
        for name, function in (("schedule", schedule), ("on_trace_ready", on_trace_ready)):
            if function is not None and not callable(function):
                raise InvalidArgumentError(f"{name}: it must be a function, not {function!r}")
        for name, switch in (("gpu", gpu), ("sampler", sampler)):
            if not callable(switch):
                _wanted(name, switch, 0)
        self._journals = Journals(journal, trace_options)
        self._schedule = schedule or _always
        self._on_trace_ready = on_trace_ready
        self._gpu, self._sampler, self._sources = gpu, sampler, tuple(sources)
        self.step_num = 0
        """The number of the step that runs."""
        self.cycle = 0
        """How many traces are ready."""
        self.current_action = ProfilerAction.NONE
        """What is done in this step."""
        self.trace: Optional[Trace] = None
        """The trace that is recorded, or else the one that was ready last, until the next cycle begins."""
        self.gpu_report: Optional[_gpu.GpuReport] = None
        """What the last collection of GPU work came to."""
        self.gpu_error: Optional[GpuError] = None
        """Why there is no GPU work."""
        self._recording: Optional[_Recording] = None
        self._stepped = schedule is not None
        self._step_start = 0
        # How far live recording was then.
        self._step_recorded = 0
        # What was ready last, while it is not known yet whether the cycle after it has anything.
        self._previous: Optional[Trace] = None
        self._process: Optional[int] = None

    def start(self) -> None:
        """Begins step 0."""
        if self._process == os.getpid():
            raise RuntimeError("this profiler runs already: call stop() first")
        first = self._action(0)
        self.step_num = self.cycle = 0
        self._process = os.getpid()
        try:
            self._change(ProfilerAction.NONE, first)
        except BaseException:
            self._process = None
            raise
        self._begin_step()

    def step(self) -> None:
        """Says that the next step begins."""
        if self._process is None:
            raise RuntimeError("step() of a profiler that does not run: use it in a with block, or call start() first")
        if self._process != os.getpid():
            return
        following = self._action(self.step_num + 1)
        self._stepped = True
        self._previous = None
        self._end_step()
        self.step_num += 1
        try:
            self._change(self.current_action, following)
        finally:
            self._begin_step()

    def stop(self) -> None:
        """Ends the last step, and hands out what was recorded. Of a profiler that does not run nothing."""
        if self._process != os.getpid():
            return
        try:
            self._change(self.current_action, None)
        finally:
            self._process = self._previous = None

    def export_chrome_trace(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the trace that is recorded, or else the one that was ready last: see `Trace.export_chrome_trace`."""
        if self.trace is None:
            raise RuntimeError("there is no trace: nothing was recorded yet")
        self.trace.export_chrome_trace(path)

    def __reduce_ex__(self, _protocol: Any) -> Any:
        raise TypeError("a Profiler cannot be copied or pickled, since it is of this process: make one in each")

    def __enter__(self) -> Profiler:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _action(self, step: int) -> ProfilerAction:
        given = self._schedule(step)
        try:
            return given if isinstance(given, ProfilerAction) else ProfilerAction[given.name]
        except (AttributeError, KeyError):
            raise InvalidArgumentError(f"schedule: for step {step} it must answer a ProfilerAction, not {given!r}") from None

    def _begin_step(self) -> None:
        if self._recording is not None:
            trace = self._recording.trace
            self._step_start, self._step_recorded = trace._now_ns(), trace._recorded()

    def _end_step(self) -> None:
        if self._recording is not None:
            self._mark_step(self._recording.trace, self._recording.trace._now_ns())

    def _mark_step(self, trace: Trace, end_ns: int) -> None:
        """The slice of the step. It has given times: spans that are open here may be of more than this step."""
        number = ctypes.c_uint32()
        c.check(c.lib.tp_name_new(_structs.text("name", f"{STEP_NAME}#{self.step_num}"), c.to_str(""), ctypes.byref(number)))
        if c.fast.tp_py_span_complete(trace._pointer, number.value, self._step_start, end_ns) == c.FIRST:
            trace._name_this_thread()

    def _change(self, before: ProfilerAction, after: Optional[ProfilerAction]) -> None:
        """From one step's action to the next one's, or to the end."""
        records = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        self.current_action = after or ProfilerAction.NONE
        if before is after and before is not ProfilerAction.RECORD_AND_SAVE:
            return
        if before is ProfilerAction.RECORD and after is ProfilerAction.RECORD_AND_SAVE:
            return
        if before is ProfilerAction.RECORD and after is not None:
            self._warn(f"RECORD is followed by {after.name}: what was recorded is handed out here")
        if before is ProfilerAction.WARMUP and after is ProfilerAction.NONE:
            self._warn("WARMUP is followed by NONE: what was recorded is thrown away")
        try:
            if before not in records:
                self._throw_away()
            elif after is None:
                self._end_last_step()
            else:
                self._hand_out()
        finally:
            if after is not None and after is not ProfilerAction.NONE:
                self._recording = _Recording(self, self.cycle, after in records)
                self._previous = self.trace
                self.trace = self._recording.trace if after in records else None

    def _warn(self, what: str) -> None:
        warnings.warn(f"the schedule is odd at step {self.step_num}: {what}", RuntimeWarning, stacklevel=4)

    def _throw_away(self) -> None:
        recording, self._recording = self._recording, None
        if recording is not None:
            try:
                recording.end()
            finally:
                throw_away(recording.trace)

    def _hand_out(self) -> None:
        recording, self._recording = self._recording, None
        if recording is not None:
            try:
                recording.end()
            finally:
                self._is_ready(recording)

    def _end_last_step(self) -> None:
        """The end in the middle of a cycle. A step that the last call of `step` began, and in which nothing was recorded,
        is none: loops call it after the last batch too."""
        recording, self._recording = self._recording, None
        if recording is None:
            return
        trace, end_ns = recording.trace, recording.trace._now_ns()
        quiet = self.step_num > 0 and trace._recorded() == self._step_recorded
        try:
            # What was collected meanwhile is in the trace after this.
            recording.end()
            quiet = quiet and trace._is_idle_since(self._step_start)
        except BaseException:
            quiet = False
            raise
        finally:
            if quiet and recording.first_step == self.step_num:
                throw_away(trace)
                self.trace = self._previous
            else:
                if self._stepped and not quiet:
                    self._mark_step(trace, end_ns)
                self._is_ready(recording)

    def _is_ready(self, recording: _Recording) -> None:
        self.gpu_report = recording.report
        self.cycle += 1
        if self._on_trace_ready is not None:
            self._on_trace_ready(recording.trace)
