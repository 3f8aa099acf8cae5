"""Spans that are recorded live, while the program runs.

Recording never raises for want of room, for a trace that is closed or in a child of a fork: it is counted, or nothing.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import operator
import sys
from collections.abc import Callable
from typing import Any, Optional, TypeVar

from . import _library as c
from . import _structs
from ._driven import CO_COROUTINE, SUSPENDABLE, AsyncSpan, Ready, driven, mark, suspendable

__all__ = ["Span", "counter", "current_trace", "enable_category", "instant", "set_current_trace", "span"]

Function = TypeVar("Function", bound=Callable[..., Any])

_FIRST = c.FIRST
_counter: Any = c.fast.tp_py_record_counter

# Names by category, and those without one by themselves.
_numbers: dict[tuple[str, str], ctypes.c_uint32] = {}
_plain: dict[str, ctypes.c_uint32] = {}


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


def record_counter(pointer: Any, name: str, value: float, category: str) -> None:
    """A counter's value now, in the trace that the pointer is of."""
    try:
        if _counter(pointer, name_of(name, category), value) == _FIRST:
            pointer.met()
    except ctypes.ArgumentError:
        if isinstance(value, int):
            raise ValueError("value: it must be between -1.8e308 and 1.8e308, as a float is") from None
        raise TypeError(f"value must be a number, not {type(value).__name__}") from None


def enable_category(category: str, on: bool = True) -> None:
    """Switches the spans of a category on or off, in all traces of the process. "" are those without one."""
    c.check(c.lib.tp_category_enable(_structs.text("category", category), 1 if on else 0))


class _Current:
    """The trace that `span` and its like record into."""

    trace: Any = None


def set_current_trace(trace: Any) -> None:
    """Makes a Trace the one that `tptrace.span`, `tptrace.instant` and `tptrace.counter` record into; None for none."""
    _Current.trace = trace


def current_trace() -> Any:
    """The Trace that was set with `set_current_trace`, or None."""
    return _Current.trace


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
        elif isinstance(value, str):
            c.fast.tp_span_arg_text(handle, number, c.to_str(value))
        else:
            give_args(handle, {key: plain(value)})


def plain(value: Any) -> Any:
    """An int, a float, a bool or a str for another value: a number for what is one, as NumPy's are."""
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    for convert, method in ((operator.index, "__index__"), (float, "__float__")):
        if hasattr(type(value), method):
            try:
                return convert(value)
            except Exception:  # Arrays and tensors are numbers if they have one element.
                pass
    try:
        return str(value)
    except Exception:  # What is recorded is no reason for the program to fail.
        return f"<{type(value).__name__} without str()>"


# The two calls of every span. Without declared types ctypes takes the objects made for it as they are.
_begin: Any = c.undeclared("tp_py_span_begin")
_end: Any = c.undeclared("tp_span_end")
_frame: Any = sys._getframe


def _key(depth: int) -> int:
    """What tells the frame of a `with` block, seen from a caller `depth` calls inside it; 0 if there is none."""
    try:
        return id(_frame(depth + 1))
    except ValueError:
        return 0


class Span:
    """A span as a context manager and as a decorator: of functions, async functions, generators and async generators.

    `with tptrace.span("step", batch=3):`, or `@tptrace.span("step")` on a function, is one of the current trace (see
    `set_current_trace`), and nothing without one; `trace.span("step")` is one of that trace. `category` is the document's
    `cat`: "user_annotation" if empty, "cpu_op" for ops. What else is given becomes the span's arguments.

    What shares its thread with others while it is suspended is drawn as an async span, in a row of its own:

    - an async function that is decorated, from its first to its last moment; and on the thread a slice for each time
      that it runs, the first with the arguments. What it awaits in its own task shares the row, nested.
    - a `with` block, or `async with`, in an async function or in a generator. Its arguments are on a short slice at its
      beginning.
    - a generator that is decorated: a slice for each time that it runs, with no row. An async generator: a row for each
      item that it is asked for.

    A generator of `contextlib.contextmanager` counts as part of the function that uses it. `ExitStack.enter_context` in
    an async function is taken for that of a function: use `AsyncExitStack.enter_async_context` there.
    """

    __slots__ = ("_args", "_number", "_open", "_pointer")

    def __init__(self, name: str, /, *, category: str = "", **args: Any) -> None:
        if callable(name):
            raise TypeError(f'a span has a name: @span("{getattr(name, "__name__", "name")}")')
        number = _plain.get(name) if category == "" else _numbers.get((name, category))
        self._number = number_of(name, category) if number is None else number
        self._args = args
        # Async spans of this object that are open; made when there is one.
        self._open: Optional[list[AsyncSpan]] = None

    def _target(self) -> Any:
        return _Current.trace

    def __copy__(self) -> Span:
        copied = object.__new__(type(self))
        copied._number, copied._args, copied._open = self._number, self._args, None
        return copied

    def __deepcopy__(self, _memo: Any) -> Span:
        return self.__copy__()

    def __reduce_ex__(self, _protocol: Any) -> Any:
        raise TypeError("a span cannot be pickled, since its name is of this process: make one where it is needed")

    def __enter__(self) -> Span:
        trace = _Current.trace
        pointer = None if trace is None else trace._pointer
        try:
            if _frame(1).f_code.co_flags & SUSPENDABLE and self._enter_suspendable(pointer, _frame(1)):
                return self
        except ValueError:
            pass  # Called from C, on a thread without a frame.
        # A span that was dropped for want of room (5) has an end all the same.
        if pointer is not None and (
            (status := _begin(pointer, self._number)) in (0, 5) or (status == _FIRST and pointer.met())
        ):
            self._pointer = pointer
            if self._args:
                try:
                    give_args(pointer, self._args)
                except BaseException:  # Ctrl-C: there will be no __exit__.
                    _end(pointer)
                    raise
        else:
            self._pointer = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._open and self._exit_async(_key(1)):
            return
        pointer = self._pointer
        if pointer is not None:
            _end(pointer)

    def __aenter__(self) -> Ready:
        trace = self._target()
        try:
            frame = _frame(1)
            nests = bool(frame.f_code.co_flags & CO_COROUTINE) and frame.f_globals.get("__name__") != "contextlib"
            key = id(frame)
        except ValueError:
            nests, key = False, 0
        self._enter_async(None if trace is None else trace._pointer, key, nests)
        return Ready(self)

    def __aexit__(self, *_: object) -> Ready:
        # An AsyncExitStack enters and leaves in different frames.
        if not self._exit_async(_key(1)) and self._open:
            self._open.pop().end()
        return Ready(None)

    def _enter_suspendable(self, pointer: Any, frame: Any) -> bool:
        nests = suspendable(frame)
        if nests is not None:
            self._enter_async(pointer, id(frame), nests)
        return nests is not None

    def _enter_async(self, pointer: Any, key: int, nests: bool) -> None:
        mark(pointer, self._number, self._args)
        opened = AsyncSpan(pointer, self._number, key, nests)
        if self._open is None:
            self._open = []
        self._open.append(opened)

    def _exit_async(self, key: int) -> bool:
        """Ends the newest async span of a frame, if there is one."""
        opened = self._open or []
        for at in range(len(opened) - 1, -1, -1):
            if opened[at].key == key:
                opened.pop(at).end()
                return True
        return False

    def arg(self, key: str, value: Any) -> None:
        """Adds an argument. Of spans inside one another it goes to the innermost."""
        if self._open:
            mark(self._open[-1].pointer, self._number, {key: value})
            return
        pointer = getattr(self, "_pointer", None)
        if pointer is not None:
            give_args(pointer, {key: value})

    def __call__(self, function: Function) -> Function:
        if isinstance(function, (classmethod, staticmethod)):
            return type(function)(self(function.__func__))
        if not callable(function):
            raise TypeError(f"a span decorates functions, not {function!r}")
        made: Any = self._decorated(function)
        return functools.wraps(function)(made)  # type: ignore[return-value]

    def _decorated(self, function: Callable[..., Any]) -> Callable[..., Any]:
        number = self._number

        def pointer_now() -> Any:
            target = self._target()
            return None if target is None else target._pointer

        if inspect.iscoroutinefunction(function):

            async def timed_async(*given: Any, **named: Any) -> Any:
                pointer = pointer_now()
                if pointer is None:
                    return await function(*given, **named)
                whole = AsyncSpan(pointer, number, 0, True)
                try:
                    made = function(*given, **named)
                    if not hasattr(made, "send"):
                        return await made
                    return await driven(made, pointer_now, number, self._args)
                finally:
                    whole.end()

            return timed_async

        if inspect.isasyncgenfunction(function):

            async def timed_items(*given: Any, **named: Any) -> Any:
                items = function(*given, **named)
                step = items.asend(None)
                args = self._args
                while True:
                    whole = AsyncSpan(pointer_now(), number, 0, True)
                    try:
                        item = await driven(step, pointer_now, number, args)
                    except StopAsyncIteration:
                        return
                    finally:
                        whole.end()
                    args = {}
                    try:
                        sent = yield item
                    except GeneratorExit:
                        await items.aclose()
                        raise
                    except BaseException as error:
                        step = items.athrow(error)
                    else:
                        step = items.asend(sent)

            return timed_items

        if inspect.isgeneratorfunction(function):

            def timed_pieces(*given: Any, **named: Any) -> Any:
                return (yield from driven(function(*given, **named), pointer_now, number, self._args))

            return timed_pieces

        def timed(*given: Any, **named: Any) -> Any:
            # Nothing of it is kept in this object: the function may call itself, on other threads too.
            pointer = pointer_now()
            if pointer is None or (
                (status := _begin(pointer, number)) not in (0, 5) and not (status == _FIRST and pointer.met())
            ):
                return function(*given, **named)
            try:
                if self._args:
                    give_args(pointer, self._args)
                return function(*given, **named)
            finally:
                _end(pointer)

        return timed


class SpanOf(Span):
    """A span of a trace that is named, whatever the current one is."""

    __slots__ = ("_trace",)

    def __init__(self, trace: Any, name: str, category: str, args: dict[str, Any]) -> None:
        super().__init__(name, category=category)
        self._args = args
        self._trace = trace

    def _target(self) -> Any:
        return self._trace

    def __copy__(self) -> Span:
        copied = super().__copy__()
        copied._trace = self._trace  # type: ignore[attr-defined]
        return copied

    def __enter__(self) -> Span:
        # As above, without one more call.
        pointer = self._trace._pointer
        try:
            if _frame(1).f_code.co_flags & SUSPENDABLE and self._enter_suspendable(pointer, _frame(1)):
                return self
        except ValueError:
            pass
        if pointer is not None and (
            (status := _begin(pointer, self._number)) in (0, 5) or (status == _FIRST and pointer.met())
        ):
            self._pointer = pointer
            if self._args:
                try:
                    give_args(pointer, self._args)
                except BaseException:  # Ctrl-C: there will be no __exit__.
                    _end(pointer)
                    raise
        else:
            self._pointer = None
        return self


span = Span


def instant(name: str, *, category: str = "") -> None:
    """Something that happens now on this thread, in the current trace."""
    if _Current.trace is not None:
        _Current.trace.record_instant(name, category=category)


def counter(name: str, value: float, *, category: str = "") -> None:
    """The value of a counter now, in the current trace."""
    if _Current.trace is not None:
        record_counter(_Current.trace._pointer, name, value, category)
