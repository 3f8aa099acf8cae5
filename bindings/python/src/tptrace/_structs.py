"""Python values as the C structs of one event. Slower than walking a list in place, and free to take keywords."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional, Union

from . import _library as c

Value = Union[int, float, bool, str]

OP_KINDS = {"op": 0, "user_annotation": 1, "backward": 2}
GPU_KINDS = {"kernel": 0, "memcpy": 1, "memset": 2, "runtime": 3, "driver": 4}
SCOPES = {"thread": 0, "process": 1, "global": 2}
CLOCKS = {"monotonic": 0, "realtime": 1, "unknown": 2}
FORMATS = {"plain": 0, "torch": 1, "perfetto": 2}
COMPRESSIONS = {"auto": 0, "none": 1, "gzip": 2}

_BOUNDS = {
    "int32": (-(1 << 31), (1 << 31) - 1),
    "uint32": (0, (1 << 32) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "uint64": (0, (1 << 64) - 1),
}


def choose(table: Mapping[str, int], what: str, name: str) -> int:
    """The number of a choice."""
    try:
        return table[name]
    except (KeyError, TypeError):
        raise ValueError(f"{what} must be one of {', '.join(map(repr, table))}, not {name!r}") from None


def number(what: str, value: Any, kind: str) -> int:
    """An integer that fits: ctypes would cut it in silence."""
    try:
        made = value.__index__()
    except (AttributeError, TypeError):
        raise TypeError(f"{what} must be an integer, not {type(value).__name__}") from None
    low, high = _BOUNDS[kind]
    if not low <= made <= high:
        raise ValueError(f"{what} is {made}: it must be between {low} and {high}")
    return int(made)


def text(what: str, value: Any) -> c.Str:
    """A str as tp_str."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {type(value).__name__}")
    return c.to_str(value)


def texts(what: str, values: Iterable[str]) -> Any:
    """Strings as an array of tp_str."""
    if isinstance(values, str):
        raise TypeError(f"{what} must be a list of strings, not one str")
    made = [text(what, value) for value in values]
    return (c.Str * len(made))(*made)


def args(values: Optional[Mapping[str, Value]]) -> Any:
    """Free arguments as an array of tp_arg."""
    made = []
    for key, value in (values or {}).items():
        name = text("an argument's name", key)
        if isinstance(value, bool):
            made.append(c.Arg(name, 3, 0, int(value), 0.0, c.Str()))
        elif isinstance(value, float):
            made.append(c.Arg(name, 2, 0, 0, value, c.Str()))
        elif isinstance(value, str):
            made.append(c.Arg(name, 4, 0, 0, 0.0, c.to_str(value)))
        elif hasattr(value, "__index__"):
            whole = value.__index__()
            if -(1 << 63) <= whole < 1 << 63:
                made.append(c.Arg(name, 0, 0, whole, 0.0, c.Str()))
            elif 0 <= whole < 1 << 64:
                made.append(c.Arg(name, 1, 0, whole - (1 << 64), 0.0, c.Str()))
            else:
                raise ValueError(f"argument {key!r} is {whole}, which does not fit 64 bits")
        elif hasattr(value, "__float__"):
            made.append(c.Arg(name, 2, 0, 0, float(value), c.Str()))
        else:
            raise TypeError(f"argument {key!r} must be an int, a float, a bool or a str, not {type(value).__name__}")
    return (c.Arg * len(made))(*made)


def op(
    name: str,
    start_ns: int,
    end_ns: int,
    thread_id: int,
    kind: int,
    id: Optional[int],
    shapes: Optional[Iterable[Iterable[int]]],
    dtypes: Optional[Sequence[Union[int, str]]],
    call_site: Optional[str],
    gpu_ms: Optional[float],
    kernel_count: int,
    output_bytes: int,
    stack: Optional[Iterable[str]],
    arguments: Optional[Mapping[str, Value]],
) -> c.Op:
    """tp_op"""
    made = c.Op(
        kind=kind,
        name=text("name", name),
        start_ns=number("start_ns", start_ns, "int64"),
        end_ns=number("end_ns", end_ns, "int64"),
        thread_id=number("thread_id", thread_id, "uint64"),
        call_site=text("call_site", call_site or ""),
        kernel_count=number("kernel_count", kernel_count, "int64"),
        output_bytes=number("output_bytes", output_bytes, "int64"),
    )
    if id is not None:
        made.flags |= 1
        made.id = number("id", id, "uint64")
    if gpu_ms is not None:
        made.flags |= 2
        made.gpu_ms = float(gpu_ms)
    if shapes is not None:
        rows = [[number("a dimension in shapes", size, "int64") for size in shape] for shape in shapes]
        flat = [size for row in rows for size in row]
        made.flags |= 4
        made.input_count = len(rows)
        made.ranks = (ctypes.c_uint32 * len(rows))(*map(len, rows))
        made.dims = (ctypes.c_int64 * len(flat))(*flat)
        if dtypes is not None:
            kinds = list(dtypes)
            made.dtype_count = len(kinds)
            if all(hasattr(kind, "__index__") for kind in kinds):
                codes = [number("a dtype", kind, "int64") for kind in kinds]
                codes = [code if 0 <= code < 1 << 31 else -1 for code in codes]
                made.dtypes = (ctypes.c_int32 * len(codes))(*codes)
            else:
                names = [kind if isinstance(kind, str) else str(kind).rpartition(".")[2] for kind in kinds]
                made.dtype_names = texts("dtypes", names)
    if stack:
        frames = texts("stack", stack)
        made.stack, made.stack_count = frames, len(frames)
    if arguments:
        free = args(arguments)
        made.args, made.arg_count = free, len(free)
    return made


def gpu(
    kind: int,
    name: str,
    start_ns: int,
    end_ns: int,
    device: int,
    stream: int,
    correlation_id: int,
    external_id: Optional[int],
    os_thread: int,
    callback_id: int,
    bytes: int,
    copy_kind: int,
    value: int,
    details: Mapping[str, Any],
    arguments: Optional[Mapping[str, Value]],
) -> c.GpuActivity:
    """tp_gpu_activity"""
    made = c.GpuActivity(
        kind=kind,
        name=text("name", name),
        start_ns=number("start_ns", start_ns, "int64"),
        end_ns=number("end_ns", end_ns, "int64"),
        device=number("device", device, "int32"),
        stream=number("stream", stream, "uint32"),
        correlation_id=number("correlation_id", correlation_id, "uint64"),
        os_thread=number("os_thread", os_thread, "uint64"),
        callback_id=number("callback_id", callback_id, "uint32"),
        bytes=number("bytes", bytes, "uint64"),
        copy_kind=number("copy_kind", copy_kind, "uint32"),
        value=number("value", value, "uint32"),
    )
    if external_id is not None:
        made.flags |= 1
        made.external_id = number("external_id", external_id, "uint64")
    for flag, field in ((2, "grid"), (4, "block")):
        if details.get(field) is not None:
            x, y, z = details[field]
            made.flags |= flag
            for axis, size in zip("xyz", (x, y, z)):
                setattr(made, f"{field}_{axis}", number(field, size, "uint32"))
    for flag, field, kind_ in (
        (8, "registers_per_thread", "uint32"),
        (16, "shared_memory", "uint32"),
        (32, "context", "uint32"),
        (64, "graph_id", "uint32"),
        (128, "graph_node_id", "uint64"),
        (256, "priority", "int32"),
    ):
        if details.get(field) is not None:
            made.flags |= flag
            setattr(made, field, number(field, details[field], kind_))
    if arguments:
        free = args(arguments)
        made.args, made.arg_count = free, len(free)
    return made
