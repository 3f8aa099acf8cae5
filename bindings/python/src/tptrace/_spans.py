"""Spans that are recorded live, while the program runs.

Recording never raises for want of room, for a trace that is closed or in a child of a fork: it is counted, or nothing.
"""

from __future__ import annotations

import copy
import ctypes
import functools
import inspect
import itertools
from collections.abc import Callable
from typing import Any, TypeVar

from . import _library as c
from . import _structs

__all__ = ["Span", "counter", "enable_category", "instant", "set_current_trace", "span"]

Function = TypeVar("Function", bound=Callable[..., Any])

# Names by category, and those without one by themselves.
_numbers: dict[tuple[str, str], ctypes.c_uint32] = {}
_plain: dict[str, ctypes.c_uint32] = {}
_ids = itertools.count(1)


def number_of(name: str, category: str = "") -> ctypes.c_uint32:
    """The number of a name, interned for the process, as ctypes takes it."""
    known = _numbers.get((name, category))
    if known is None:
        known = ctypes.c_uint32()
        texts = _structs.text("name", name), _structs.text("category", category)
        c.check(c.lib.tp_name_new(*texts, ctypes.byref(known)))
        _numbers[name, category] = known
        if category == "":
            _plain[name] = known
    return known


def name_of(name: str, category: str = "") -> int:
    """The number of a name, interned for the process."""
    return number_of(name, category).value


def enable_category(category: str, on: bool = True) -> None:
    """Switches the spans of a category on or off, in all traces of the process. "" are those without one."""
    c.check(c.lib.tp_category_enable(_structs.text("category", category), 1 if on else 0))


class _Current:
    """The trace that `span` and its like record into."""

    trace: Any = None


def set_current_trace(trace: Any) -> None:
    """Makes a Trace the one that `tptrace.span`, `tptrace.instant` and `tptrace.counter` record into; None for none."""
    _Current.trace = trace


def give_args(handle: Any, args: dict[str, Any]) -> None:
    """The arguments of the span that was opened last on this thread."""
    for key, value in args.items():
        number = name_of(key)
        if isinstance(value, bool):
            c.fast.tp_span_arg_bool(handle, number, value)
        elif isinstance(value, float):
            c.fast.tp_span_arg_float(handle, number, value)
        elif isinstance(value, int):
            if -(1 << 63) <= value < 1 << 63:
                c.fast.tp_span_arg_int(handle, number, value)
            elif 0 <= value < 1 << 64:
                c.fast.tp_span_arg_uint(handle, number, value)
            else:
                c.fast.tp_span_arg_text(handle, number, c.to_str(str(value)))
        else:
            c.fast.tp_span_arg_text(handle, number, c.to_str(value if isinstance(value, str) else str(value)))


# The two calls of every span. Without declared types ctypes takes the objects made for it as they are.
_begin: Any = c.undeclared("tp_span_begin")
_end: Any = c.undeclared("tp_span_end")


class Span:
    """A span as a context manager and as a decorator, of functions and of async functions.

    `with tptrace.span("step", batch=3):`, or `@tptrace.span("step")` on a function, is one of the current trace (see
    `set_current_trace`), and nothing without one; `trace.span("step")` is one of that trace. `category` is the document's
    `cat`: "user_annotation" if empty, "cpu_op" for ops. What else is given becomes the span's arguments.

    An async function's span may be interrupted by others of its thread: it is drawn as an async span, in a row of its own.
    """

    __slots__ = ("_args", "_number", "_pointer")

    def __init__(self, name: str, *, category: str = "", **args: Any) -> None:
        number = _plain.get(name) if category == "" else _numbers.get((name, category))
        self._number = number_of(name, category) if number is None else number
        self._args = args

    def _target(self) -> Any:
        return _Current.trace

    def __enter__(self) -> Span:
        trace = _Current.trace
        self._enter(None if trace is None else trace._pointer)
        return self

    def _enter(self, pointer: Any) -> None:
        # A span that was dropped for want of room (5) has an end all the same.
        if pointer is not None and _begin(pointer, self._number) in (0, 5):
            self._pointer = pointer
            if self._args:
                give_args(pointer, self._args)
        else:
            self._pointer = None

    def __exit__(self, *_: object) -> None:
        pointer = self._pointer
        if pointer is not None:
            _end(pointer)

    def arg(self, key: str, value: Any) -> None:
        """Adds an argument. Of spans inside one another it goes to the innermost."""
        pointer = getattr(self, "_pointer", None)
        if pointer is not None:
            give_args(pointer, {key: value})

    def __copy__(self) -> Span:
        made = type(self).__new__(type(self))
        made._number, made._args = self._number, self._args
        return made

    def __call__(self, function: Function) -> Function:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def timed_async(*given: Any, **named: Any) -> Any:
                target = self._target()
                pointer, this = None if target is None else target._pointer, next(_ids)
                c.fast.tp_record_async(pointer, self._number, 0, this)
                try:
                    return await function(*given, **named)
                finally:
                    c.fast.tp_record_async(pointer, self._number, 2, this)

            return timed_async  # type: ignore[return-value]

        @functools.wraps(function)
        def timed(*given: Any, **named: Any) -> Any:
            # A span of its own: the function may call itself, on other threads too.
            with copy.copy(self):
                return function(*given, **named)

        return timed  # type: ignore[return-value]


class SpanOf(Span):
    """A span of a trace that is named, whatever the current one is."""

    __slots__ = ("_trace",)

    def __init__(self, trace: Any, name: str, category: str, args: dict[str, Any]) -> None:
        super().__init__(name, category=category)
        self._args = args
        self._trace = trace

    def __copy__(self) -> Span:
        made = super().__copy__()
        made._trace = self._trace  # type: ignore[attr-defined]
        return made

    def _target(self) -> Any:
        return self._trace

    def __enter__(self) -> Span:
        self._enter(self._trace._pointer)
        return self


span = Span


def instant(name: str, *, category: str = "") -> None:
    """Something that happens now on this thread, in the current trace."""
    if _Current.trace is not None:
        c.fast.tp_record_instant(_Current.trace._pointer, name_of(name, category))


def counter(name: str, value: float, *, category: str = "") -> None:
    """The value of a counter now, in the current trace."""
    if _Current.trace is not None:
        c.fast.tp_record_counter(_Current.trace._pointer, name_of(name, category), value)
