"""Lists of the tuples that TensorPlay's profiler collects, into a trace.

The library walks the objects in place where it can (_library.walker). Elsewhere, on PyPy or a free-threaded build,
each tuple is handed over by itself: the same result, a hundred times slower.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any

from . import _library as c
from . import _structs
from ._errors import InvalidArgumentError, TptraceError

_NO_EXTERNAL_ID = (1 << 64) - 1
_OP_KINDS = {"o": 0, "u": 1, "b": 2}
_GPU_KINDS = {"k": 0, "m": 1, "s": 2, "r": 3, "d": 4}


def _walkable(items: Iterable[Any]) -> Any:
    """The items as a list or tuple that iterates as it is stored."""
    kind = type(items)
    for base in (list, tuple):
        if isinstance(items, base) and kind.__iter__ is base.__iter__:
            return items
    return list(items)


def _walk(name: str, handle: Any, items: Iterable[Any], *more: Any) -> None:
    # A Python exception that is set comes out of the call itself.
    c.check(getattr(c.walker, name)(handle, _walkable(items), *more))


def _each(what: str, items: Iterable[Any], add: Callable[[int, Any], None]) -> None:
    for index, item in enumerate(items):
        try:
            add(index, item)
        except (TypeError, ValueError) as error:
            if isinstance(error, TptraceError) and not isinstance(error, InvalidArgumentError):
                raise
            raise InvalidArgumentError(f"{what} {index}: {error}") from error


def _fields(item: Any, count: int) -> tuple[Any, ...]:
    fields = tuple(item)
    if len(fields) != count:
        raise ValueError(f"it has {len(fields)} fields, not {count}")
    return fields


def _bits(what: str, value: Any) -> int:
    """An integer of either sign as 64 bits."""
    if hasattr(value, "__index__") and -(1 << 63) <= value.__index__() < 0:
        return int(value.__index__()) + (1 << 64)
    return _structs.number(what, value, "uint64")


def _small(value: Any) -> int:
    return int(value) if value is not None and 0 <= value < 1 << 32 else 0


def add_ops(handle: Any, items: Iterable[Any], first_id: int) -> None:
    """Ops; an op's id is its place in the list plus `first_id`."""
    if c.walker is not None:
        return _walk("tp_py_add_ops", handle, items, first_id)

    def add(index: int, item: Any) -> None:
        fields = tuple(item)
        if len(fields) < 5:
            return
        name, kind, start, end, thread = fields[:5]
        shapes, dtypes, site, gpu_ms, output, stack, kernels = (*fields[5:], *(None,) * 7)[:7]
        frames = None
        if stack:
            frames = [str(frame) for frame in stack] if isinstance(stack, (list, tuple)) else [str(stack)]
        made = _structs.op(
            name,
            start,
            end,
            _bits("thread_id", thread),
            _OP_KINDS.get(kind, 0) if isinstance(kind, str) else 0,
            first_id + index,
            shapes,
            dtypes,
            site,
            gpu_ms,
            kernels or 0,
            output or 0,
            frames,
            None,
        )
        c.check(c.lib.tp_trace_add_op(handle, made, None))

    _each("event", items, add)


def add_gpu_activities(handle: Any, items: Iterable[Any]) -> None:
    """GPU activities."""
    if c.walker is not None:
        return _walk("tp_py_add_gpus", handle, items)

    def add(_: int, item: Any) -> None:
        fields = _fields(item, 13)
        name, kind, start, end, device, stream, correlation, external, thread, callback, size, copy, value = fields
        number = _GPU_KINDS.get(kind, 0) if isinstance(kind, str) else 0
        is_call = number >= 3
        made = _structs.gpu(
            number,
            name,
            start,
            end,
            0 if is_call else device,
            0 if is_call else stream,
            correlation,
            None if external == _NO_EXTERNAL_ID else external,
            _bits("os_thread", thread) if is_call else 0,
            _small(callback),
            size or 0,
            copy if number == 1 else 0,
            _small(value),
            {},
            None,
        )
        c.check(c.lib.tp_trace_add_gpu(handle, made))

    _each("GPU activity", items, add)


def add_memory_events(handle: Any, items: Iterable[Any]) -> None:
    """Memory events."""
    if c.walker is not None:
        return _walk("tp_py_add_memories", handle, items)

    def add(_: int, item: Any) -> None:
        time, address, size, allocated, is_cuda, device, _stream, thread = _fields(item, 8)
        made = c.MemoryEvent(
            flags=(1 if is_cuda else 0) | (2 if allocated else 0),
            device=_structs.number("device", device, "int32") if is_cuda else 0,
            time_ns=_structs.number("time_ns", time, "int64"),
            address=0 if address is None else _bits("address", address),
            bytes=_structs.number("bytes", size, "int64"),
            thread_id=_bits("thread_id", thread),
        )
        c.check(c.lib.tp_trace_add_memory(handle, made))

    _each("memory event", items, add)


def add_samples(handle: Any, items: Iterable[Any]) -> None:
    """Stack samples; those without a frame are dropped, and counted."""
    if c.walker is not None:
        return _walk("tp_py_add_samples", handle, items)

    def add(_: int, item: Any) -> None:
        time, thread, stack = _fields(item, 3)
        frames = _structs.texts("a frame of the stack", stack or ())
        made = c.Sample(
            time_ns=_structs.number("time_ns", time, "int64"),
            os_thread=_bits("os_thread", thread),
            stack=ctypes.cast(frames, ctypes.POINTER(c.Str)),
            stack_count=len(frames),
        )
        c.check(c.lib.tp_trace_add_sample(handle, made))

    _each("sample", items, add)
