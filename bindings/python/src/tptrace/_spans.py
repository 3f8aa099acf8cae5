"""Spans that are recorded live, while the program runs.

Recording never raises for want of room, for a trace that is closed or in a child of a fork: it is counted, or nothing.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import itertools
from collections.abc import Callable
from typing import Any, Optional, TypeVar

from . import _library as c
from . import _errors, _structs

__all__ = ["Span", "counter", "enable_category", "instant", "set_current_trace", "span"]

Function = TypeVar("Function", bound=Callable[..., Any])

_names: dict[tuple[str, str], int] = {}
_ids = itertools.count(1)


def name_of(name: str, category: str = "") -> int:
    """The number of a name, interned for the process."""
    known = _names.get((name, category))
    if known is not None:
        return known
    number = ctypes.c_uint32()
    c.check(c.lib.tp_name_new(_structs.text("name", name), _structs.text("category", category), ctypes.byref(number)))
    _names[(name, category)] = number.value
    return number.value


def enable_category(category: str, on: bool = True) -> None:
    """Switches the spans of a category on or off, in all traces of the process. "" are those without one."""
    c.check(c.lib.tp_category_enable(_structs.text("category", category), 1 if on else 0))


class _Current:
    """The trace that `span` and its like record into."""

    trace: Any = None


def set_current_trace(trace: Any) -> None:
    """Makes a Trace the one that `tptrace.span`, `tptrace.instant` and `tptrace.counter` record into; None for none."""
    _Current.trace = trace


def give_args(handle: Optional[int], args: dict[str, Any]) -> None:
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


class Span:
    """A span as a context manager and as a decorator, of functions and of async functions.

    An async function's span may be interrupted by others of its thread: it is drawn as an async span, in a row of its own.
    """

    __slots__ = ("_args", "_category", "_handle", "_name", "_number", "_trace")

    def __init__(self, trace: Any, name: str, category: str, args: dict[str, Any]) -> None:
        self._trace = trace
        self._name = name
        self._category = category
        self._number = _names.get((name, category)) or name_of(name, category)
        self._args = args
        self._handle: Optional[int] = None

    def _target(self) -> Optional[int]:
        trace = self._trace if self._trace is not None else _Current.trace
        return None if trace is None else trace._handle

    def __enter__(self) -> Span:
        self._handle = handle = self._target()
        # A span that was dropped for want of room has an end all the same.
        if handle is not None and c.fast.tp_span_begin(handle, self._number) not in (_errors.OK, _errors.LIMIT):
            self._handle = None
        elif self._args:
            give_args(handle, self._args)
        return self

    def __exit__(self, *_: object) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            c.fast.tp_span_end(handle)

    def arg(self, key: str, value: Any) -> None:
        """Adds an argument. Of spans inside one another it goes to the innermost."""
        if self._handle is not None:
            give_args(self._handle, {key: value})

    def __call__(self, function: Function) -> Function:
        trace, name, category, args = self._trace, self._name, self._category, self._args
        number = self._number

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def timed_async(*given: Any, **named: Any) -> Any:
                handle, this = self._target(), next(_ids)
                c.fast.tp_record_async(handle, number, 0, this)
                try:
                    return await function(*given, **named)
                finally:
                    c.fast.tp_record_async(handle, number, 2, this)

            return timed_async  # type: ignore[return-value]

        @functools.wraps(function)
        def timed(*given: Any, **named: Any) -> Any:
            # A span of its own: the function may call itself, on other threads too.
            with Span(trace, name, category, args):
                return function(*given, **named)

        return timed  # type: ignore[return-value]


def span(name: str, *, category: str = "", **args: Any) -> Span:
    """A span in the current trace: `with tptrace.span("step", batch=3):`, or `@tptrace.span("step")` on a function.

    Without a current trace (see `set_current_trace`) it is nothing. `category` is the document's `cat`: "user_annotation"
    if empty, "cpu_op" for ops.
    """
    return Span(None, name, category, args)


def instant(name: str, *, category: str = "") -> None:
    """Something that happens now on this thread, in the current trace."""
    if _Current.trace is not None:
        c.fast.tp_record_instant(_Current.trace._handle, name_of(name, category))


def counter(name: str, value: float, *, category: str = "") -> None:
    """The value of a counter now, in the current trace."""
    if _Current.trace is not None:
        c.fast.tp_record_counter(_Current.trace._handle, name_of(name, category), value)
