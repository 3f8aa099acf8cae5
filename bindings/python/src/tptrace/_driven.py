"""Spans of code that is suspended and resumed: async functions, generators, and `with` blocks inside them.

Such code shares its thread with others of its kind, so that what it does from its beginning to its end does not nest in
what else the thread does. It gets an async span for that time, in a row of its own, and for each time that it runs
a slice on the thread that it runs on, which does nest.
"""

from __future__ import annotations

import contextvars
import itertools
import sys
import types
from collections.abc import Callable, Generator
from typing import Any, Optional

from . import _library as c

SUSPENDABLE = 0x20 | 0x80 | 0x100 | 0x200
"""The flags of a code object that may be suspended: CO_GENERATOR, CO_COROUTINE, CO_ITERABLE_COROUTINE and
CO_ASYNC_GENERATOR."""
CO_COROUTINE = 0x80
_GENERATOR = 0x20

_ids = itertools.count(1)
_BEGIN, _END = 0, 2

# The async span that is open in this task: its id, and the task. Children of a task start with a copy of its context,
# so that the task must be the same.
_outer: contextvars.ContextVar[Optional[tuple[int, Any]]] = contextvars.ContextVar("tptrace_outer", default=None)


def _task() -> Any:
    """The asyncio task that runs, if there is one. asyncio is not imported for this."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return None
    try:
        return asyncio.current_task()
    except (RuntimeError, AttributeError):
        return None


def _part(pointer: Any, number: Any, phase: int, id: int) -> None:
    if c.fast.tp_py_record_async(pointer, number, phase, id) == c.FIRST:
        pointer.met()


def begins(pointer: Any, number: int) -> bool:
    """Begins a span. True: it has an end, also one that was dropped for want of room (5)."""
    status = c.fast.tp_py_span_begin(pointer, number)
    return status in (0, 5) or (status == c.FIRST and pointer.met())


class AsyncSpan:
    """One async span that is open."""

    __slots__ = ("_before", "_id", "_number", "_set", "key", "pointer")

    def __init__(self, pointer: Any, number: Any, key: int, nests: bool) -> None:
        """Begins the span. `key`: the frame it belongs to. `nests`: whether the spans of this task that begin
        meanwhile also end before it, so that they can share its row."""
        self.key = key
        self.pointer, self._number = pointer, number
        self._before = _outer.get()
        task = _task() if nests else None
        self._set = task is not None
        if task is not None and self._before is not None and self._before[1] is task:
            self._id = self._before[0]
        else:
            self._id = next(_ids)
        if self._set:
            _outer.set((self._id, task))
        _part(pointer, number, _BEGIN, self._id)

    def end(self) -> None:
        _part(self.pointer, self._number, _END, self._id)
        if self._set:
            _outer.set(self._before)


def suspendable(frame: types.FrameType) -> Optional[bool]:
    """Whether a `with` block of a frame whose code may be suspended can be interrupted by others; and if so, whether
    what begins inside ends before it (as in coroutines, not in generators). None: it cannot be interrupted.

    A generator that contextlib makes a context manager of runs on as part of the function whose `with` it is.
    """
    flags = frame.f_code.co_flags
    while flags & _GENERATOR:
        caller = frame.f_back
        through = False
        while caller is not None and caller.f_globals.get("__name__") == "contextlib":
            caller, through = caller.f_back, True
        if not through or caller is None:
            return False
        frame, flags = caller, caller.f_code.co_flags
    if not flags & SUSPENDABLE:
        return None
    return bool(flags & CO_COROUTINE)


def mark(pointer: Any, number: Any, args: dict[str, Any]) -> None:
    """The arguments of an async span, which has no place for them: on a short slice of its name where it begins."""
    from ._spans import give_args

    if pointer is not None and args and begins(pointer, number.value):
        try:
            give_args(pointer, args)
        finally:
            c.fast.tp_span_end(pointer)


@types.coroutine
def driven(inner: Any, pointer_now: Callable[[], Any], number: Any, args: dict[str, Any]) -> Generator[Any, Any, Any]:
    """Runs a coroutine, or a generator, with a slice on the thread for each time that it runs. The first gets `args`.

    `pointer_now`: the trace to record into, asked each time: a generator may live longer than a trace.
    """
    from ._spans import give_args

    end, name = c.fast.tp_span_end, number.value
    given: Any = None
    thrown: Optional[BaseException] = None
    while True:
        pointer = pointer_now()
        began = begins(pointer, name)
        try:
            if began and args:
                give_args(pointer, args)
                args = {}
            got = inner.send(given) if thrown is None else inner.throw(thrown)
        except StopIteration as stop:
            return stop.value
        finally:
            # An exception that is kept here would keep this frame.
            given = thrown = None
            if began:
                end(pointer)
        try:
            given = yield got
        except GeneratorExit:
            pointer = pointer_now()
            began = begins(pointer, name)
            try:
                inner.close()
            finally:
                if began:
                    end(pointer)
            raise
        except BaseException as caught:
            thrown = caught


class Ready:
    """What `async with` awaits when there is nothing to wait for."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._value
        yield
