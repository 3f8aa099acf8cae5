"""A sampler: the Python stacks of all threads, every few milliseconds."""

from __future__ import annotations

import atexit
import ctypes
import itertools
import math
import os
import sys
import threading
import time
import warnings
import weakref
from types import CodeType, FrameType
from typing import Any, NamedTuple, Optional

from ._errors import ClosedError, InvalidArgumentError, UnsupportedError
from ._trace import Trace

__all__ = ["Sampler", "SamplerCounts", "sample_period_ms"]

PERIOD_VARIABLE = "TP_PROFILER_SAMPLE_MS"
_DEFAULT_MS = 5.0
_MOST_MS = 86_400_000.0
# Of one core: after a look that took so long, the next waits nine times as long.
_REST = 9
# Texts of so many code objects are kept. Programs that make code as they run would fill the memory otherwise.
_MOST_CODES = 20_000
# No two samplers of a process have one.
_keys = itertools.count()
# Stacks that are given to the trace at a time.
_BATCH = 256


class SamplerCounts(NamedTuple):
    """What a sampler did so far."""

    ticks: int
    """Times that it looked."""
    samples: int
    """Stacks that it took for the trace."""
    dropped: int
    """Stacks beyond `max_samples`."""
    cut: int
    """Stacks of more than `max_depth` frames, of which the innermost were kept."""


def sample_period_ms() -> float:
    """The period of TP_PROFILER_SAMPLE_MS, in milliseconds: 5 if it is not set or empty.

    What is no number above 0 (and at most a day) gives 5 too, as in TensorPlay, and a RuntimeWarning.
    """
    given = os.environ.get(PERIOD_VARIABLE, "")
    if not given:
        return _DEFAULT_MS
    try:
        period = float(given)
    except ValueError:
        period = math.nan
    if not 0 < period <= _MOST_MS:
        warnings.warn(
            f"{PERIOD_VARIABLE} is {given!r}, which is no number of milliseconds above 0: samples are taken every"
            f" {_DEFAULT_MS:g} ms",
            RuntimeWarning,
            stacklevel=2,
        )
        return _DEFAULT_MS
    return period


class Sampler:
    """Takes the Python stacks of all threads of the process into a trace, on a thread of its own.

    `with tptrace.Sampler(trace):`, or `start` and `stop`. Each stack becomes an instant on the thread's lane, with all
    of its frames, `file:line (function)`, innermost first.

    A stack can be seen where its thread gives up the GIL: a call that holds it for long is seen at its end. Not more than
    a tenth of a core is used: with very many or deep stacks the period becomes longer. Threads that Python did not
    start and that never asked for `threading.current_thread()` are named by their pthread instead of by their OS thread.

    It ends with `stop`, when the trace is closed, and at exit. It rests while the process forks; the child has none.

    Args:
        trace: where the samples go, at times of its clock.
        period_ms: time between two looks in milliseconds; if not given that of TP_PROFILER_SAMPLE_MS, else 5.
        max_depth: frames of a stack that are kept, from the innermost on.
        max_samples: how many stacks are taken in all; what comes then is counted, and in the document under "sampler".
            A stack takes 24 bytes of memory, and each different one some 2 bytes more for each frame.
    """

    def __init__(
        self, trace: Trace, period_ms: Optional[float] = None, *, max_depth: int = 64, max_samples: int = 1_000_000
    ) -> None:
        if not isinstance(trace, Trace):
            raise InvalidArgumentError(f"trace: it must be a tptrace.Trace, not {type(trace).__name__}")
        if not hasattr(sys, "_current_frames"):
            raise UnsupportedError("this Python has no sys._current_frames: the stacks of threads cannot be seen")
        if period_ms is None:
            period_ms = sample_period_ms()
        elif isinstance(period_ms, bool) or not isinstance(period_ms, (int, float)) or not 0 < period_ms <= _MOST_MS:
            raise InvalidArgumentError(f"period_ms: it must be a number above 0 and at most {_MOST_MS:.0f}, not {period_ms!r}")
        for name, value, least in (("max_depth", max_depth, 1), ("max_samples", max_samples, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidArgumentError(f"{name}: it must be an integer of at least {least}, not {value!r}")
        self.period_ms = float(period_ms)
        self._trace = trace
        self._key = next(_keys)
        self._max_depth, self._max_samples = max_depth, max_samples
        self._thread: Optional[_Thread] = None
        self._ticks = self._samples = self._dropped = self._cut = 0
        self._rested = False
        self._error: Optional[BaseException] = None
        # By the address of a code object, which is held so that the address stays its own: the text of each place in it.
        self._codes: dict[int, dict[int, str]] = {}
        self._held: list[CodeType] = []
        self._pending: list[tuple[int, int, list[str]]] = []
        self._pending_lock = threading.RLock()
        self._named: dict[int, str] = {}
        self._unknown: set[int] = set()

    def start(self) -> None:
        """Starts to sample. Of a sampler that runs nothing. Raises ClosedError if the trace is closed."""
        with _forks.lock, self._trace._using():
            if self._thread is None or not self._thread.is_alive():
                self._error = None
                self._begin()
                _forks.running.add(self)
                _forks.every.add(self)
                others = tuple(known for known in self._trace._samplers if known() not in (None, self))
                self._trace._samplers = (*others, weakref.ref(self))

    def stop(self) -> None:
        """Ends the sampling, and waits for the sampler's thread. Of a sampler that does not run nothing.

        Raises what the sampler failed with, if it did.
        """
        with _forks.lock:
            _forks.running.discard(self)
            self._end()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def __reduce_ex__(self, _protocol: Any) -> Any:
        raise TypeError("a Sampler cannot be copied or pickled, since it is of this process: make one in each")

    def __enter__(self) -> Sampler:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether samples are taken now."""
        return self._thread is not None and self._thread.is_alive()

    def counts(self) -> SamplerCounts:
        """What was taken, dropped and cut so far."""
        return SamplerCounts(self._ticks, self._samples, self._dropped, self._cut)

    def _begin(self) -> None:
        self._thread = _Thread(self)
        self._thread.start()

    def _end(self) -> None:
        thread = self._thread
        if thread is not None:
            thread.done.set()
            # It looks once more at most. Were it to hang, the program should not. A destructor may run on it.
            if thread is not threading.current_thread():
                thread.join(timeout=10)

    def _run(self, done: threading.Event) -> None:
        period = self.period_ms / 1e3
        following = time.monotonic() + period
        rest = 0.0
        try:
            while not done.wait(max(following - time.monotonic(), rest)):
                before = time.thread_time()
                self._tick()
                rest = (time.thread_time() - before) * _REST
                following = max(following + period, time.monotonic())
        except ClosedError:
            return
        except BaseException as error:
            self._error = error
        try:
            self._flush()
            self._tell()
        except ClosedError:
            pass

    def _tick(self) -> None:
        if not _is_alone():
            if not self._rested:
                self._rested = True
                warnings.warn(
                    "the sampler rests while there is another interpreter in the process: Python looks at its threads without"
                    " its lock, and crashes",
                    RuntimeWarning,
                    stacklevel=2,
                )
            return
        frames = sys._current_frames()
        now = self._trace._now_ns()
        threads = {thread.ident: thread for thread in threading.enumerate()}
        unknown = set()
        rows: list[tuple[int, int, list[str]]] = []
        for ident, frame in frames.items():
            thread = threads.get(ident)
            if isinstance(thread, _Thread):
                continue
            number = thread.native_id if thread is not None else None
            if thread is None or number is None:
                # It starts or ends just now, or it is none of Python's: those are there the next time too.
                unknown.add(ident)
                if ident not in self._unknown:
                    continue
                number = ident
            elif self._named.get(number) != thread.name:
                # Now: a thread that has ended when the trace is written has no name any more.
                self._named[number] = thread.name
                self._trace._name_thread(number, thread.name)
            rows.append((now, number, self._chain(frame)))
        # Frames keep what is in them.
        frames.clear()
        frame = None  # type: ignore[assignment]
        self._unknown = unknown
        self._ticks += 1
        room = self._max_samples - self._samples
        if len(rows) > room:
            first = self._dropped == 0
            self._dropped += len(rows) - room
            del rows[room:]
            if first:
                self._tell()
        self._samples += len(rows)
        with self._pending_lock:
            self._pending += rows
        if len(self._pending) >= _BATCH:
            self._flush()

    def _chain(self, frame: Optional[FrameType]) -> list[str]:
        chain: list[str] = []
        append, codes, left = chain.append, self._codes, self._max_depth
        while frame is not None:
            if left == 0:
                self._cut += 1
                break
            left -= 1
            try:
                append(codes[id(frame.f_code)][frame.f_lasti])
            except KeyError:
                append(self._text(frame))
            frame = frame.f_back
        return chain

    def _text(self, frame: FrameType) -> str:
        """The text of a place that was not seen before."""
        code, codes = frame.f_code, self._codes
        known = codes.get(id(code))
        if known is None:
            if len(codes) >= _MOST_CODES:
                codes.clear()
                self._held.clear()
            known = codes[id(code)] = {}
            self._held.append(code)
        text = known[frame.f_lasti] = f"{code.co_filename}:{frame.f_lineno or code.co_firstlineno} ({code.co_name})"
        return text

    def _flush(self) -> None:
        """Gives what was taken to the trace. Many at a time take a part of the time of each by itself."""
        # Of two at a time the second waits, so that a write after it has all. A signal handler may interrupt one.
        with self._pending_lock:
            pending, self._pending = self._pending, []
            if pending:
                self._trace.add_samples(pending)

    def _tell(self) -> None:
        """In the document, what was taken and what was not."""
        self._trace._tell_samples(self._key, {"period_ms": self.period_ms, **self.counts()._asdict()})


def _is_alone() -> bool:
    """Whether there is no other interpreter, as far as it matters: from 3.12 on each may have a lock of its own, but
    sys._current_frames makes frames of all their threads under this one's."""
    if sys.version_info < (3, 12) or sys.implementation.name != "cpython":
        return True
    return not _next_interpreter(_first_interpreter())


_first_interpreter: Any = getattr(ctypes.pythonapi, "PyInterpreterState_Head", None)
_next_interpreter: Any = getattr(ctypes.pythonapi, "PyInterpreterState_Next", None)
if _first_interpreter is not None:
    _first_interpreter.restype, _first_interpreter.argtypes = ctypes.c_void_p, []
    _next_interpreter.restype, _next_interpreter.argtypes = ctypes.c_void_p, [ctypes.c_void_p]


class _Thread(threading.Thread):
    """The thread of a sampler, which no sampler samples."""

    def __init__(self, sampler: Sampler) -> None:
        super().__init__(name="tptrace sampler", daemon=True)
        self.done = threading.Event()
        self._sampler = sampler

    def run(self) -> None:
        self._sampler._run(self.done)


class _Forks:
    """Rests all samplers while the process forks, so that no lock is held by a thread that the child does not have."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.running: set[Sampler] = set()
        self.every: weakref.WeakSet[Sampler] = weakref.WeakSet()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self.before, after_in_parent=self.in_parent, after_in_child=self.in_child)
        atexit.register(self.at_exit)

    def before(self) -> None:
        self.lock.acquire()
        for sampler in self.running:
            sampler._end()

    def in_parent(self) -> None:
        try:
            for sampler in self.running:
                if sampler._error is None:
                    sampler._begin()
        finally:
            self.lock.release()

    def in_child(self) -> None:
        self.lock = threading.RLock()
        for sampler in self.running:
            sampler._thread = None
        self.running = set()
        for sampler in self.every:
            sampler._pending, sampler._pending_lock = [], threading.RLock()

    def at_exit(self) -> None:
        with self.lock:
            for sampler in self.running:
                sampler._end()
            self.running = set()


_forks = _Forks()
