"""The GPU at run time: what there is, and what it did. Nothing of CUDA is loaded or called before it is asked for."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple, Optional, Union

from . import _library as c
from . import _structs

__all__ = ["GpuDevice", "GpuInfo", "GpuLibrary", "GpuReport", "GpuWarning", "gpu_info"]

Path = Union[str, os.PathLike[str]]


class GpuLibrary(NamedTuple):
    """A library of CUDA's that was found."""

    path: str
    """The file."""
    version: int
    """12040 for CUDA 12.4; of CUPTI its own number, such as 22 or 130000. 0 if it does not say."""


class GpuDevice(NamedTuple):
    """One device, as the driver describes it."""

    id: int
    """Its ordinal in this process."""
    name: str
    """Its name."""
    properties: dict[str, Any]
    """All that is known, under the names of Kineto's `deviceProperties`; and "uuid" and "pci"."""


class GpuInfo(NamedTuple):
    """What there is of GPUs."""

    ready: bool
    """Whether GPU work can be collected."""
    state: str
    """One of "ready", "no driver", "stub driver", "no device", "driver mismatch", "forked", "not ready", "refused",
    "driver failed", "no cupti", "cupti failed" or "unsupported platform"."""
    reason: str
    """Why GPU work cannot be collected, and what to do; empty if it can be."""
    driver_code: Optional[int]
    """What cuInit answered, if it was called: 0 for success."""
    driver: Optional[GpuLibrary]
    """libcuda; its version is the newest CUDA that the driver supports."""
    runtime: Optional[GpuLibrary]
    """libcudart, if there is one."""
    cupti: Optional[GpuLibrary]
    """libcupti."""
    devices: tuple[GpuDevice, ...]
    """The devices that this process may use."""
    warnings: tuple[str, ...]
    """What is odd and may spoil a collection."""


class GpuWarning(UserWarning):
    """Something about a collection of GPU work that is odd, or missing from the trace."""


class GpuReport(NamedTuple):
    """What a collection of GPU work came to."""

    collections: int
    """Collections that ended."""
    kernels: int
    """Kernels stored."""
    memcpys: int
    """Copies stored, those between devices among them."""
    memsets: int
    """Fills stored."""
    runtime_calls: int
    """Calls of the runtime stored."""
    driver_calls: int
    """Calls of the driver stored."""
    overheads: int
    """Stretches of overhead stored."""
    syncs: int
    """Synchronisations stored."""
    links: int
    """Calls that an op is known to have made."""
    markers: int
    """Ranges and marks of NVTX's stored."""
    filtered: int
    """Calls left out, since they say little and are many: asking for the device, the last error, and the like."""
    dropped: int
    """Records that CUPTI says it dropped."""
    refused_buffers: int
    """Times that CUPTI asked for a buffer and got none of use, since the cap was reached."""
    kept_buffers: int
    """Buffers that CUPTI has not given back, with the records in them."""
    late_buffers: int
    """Buffers that came after the end of their collection, with the records in them."""
    no_times: int
    """Records without times, left out."""
    inverted_times: int
    """Records that end before they start; they got 1 ns."""
    out_of_window: int
    """Records from outside the time of their collection, left out: their clock is not the one that CUPTI says it
    is."""
    unasked: int
    """Records of kinds that were not asked for, left out."""
    unknown: int
    """Records of kinds that are not known here, left out."""
    unnamed: int
    """Kernels without a name; they got one."""
    torn_buffers: int
    """Buffers whose last record was cut, or that could not be read to their end."""
    buffers: int
    """Buffers read."""
    clock_uncertainty_ns: int
    """How far the conversion of times may be off, in nanoseconds."""
    clock_drift_ns: int
    """How much the clocks of the collector and of the trace moved against each other, in nanoseconds."""
    warnings: tuple[str, ...]
    """What is odd, in sentences."""


KINDS = {
    "kernel": 1,
    "memcpy": 2,
    "memset": 4,
    "runtime": 8,
    "driver": 16,
    "overhead": 32,
    "sync": 64,
    "external": 128,
    "marker": 256,
}


def start(
    handle: int,
    kinds: Optional[Iterable[str]],
    all_calls: bool,
    wait: bool,
    buffer_bytes: int,
    cap_bytes: int,
    stop_timeout: float,
    where: c.GpuLibraries,
) -> tuple[str, ...]:
    """Starts a collection and answers what is odd."""
    if isinstance(kinds, str):
        raise TypeError("kinds must be a list of names, not one name")
    bits = 0
    for kind in kinds or ():
        bits |= _structs.choose(KINDS, "kind", kind)
    said: list[str] = []
    options = c.GpuOptions(
        flags=(1 if all_calls else 0) | (0 if wait else 2),
        kinds=bits,
        buffer_bytes=_structs.number("buffer_bytes", buffer_bytes, "uint64"),
        cap_bytes=_structs.number("cap_bytes", cap_bytes, "uint64"),
        stop_timeout_ms=_structs.number("stop_timeout", max(1, round(stop_timeout * 1000)), "uint32"),
        libraries=ctypes.pointer(where),
        warn=_collector(said),
    )
    c.check(c.lib.tp_gpu_start(handle, options))
    return tuple(said)


def stop(handle: int) -> GpuReport:
    """Ends a collection."""
    said: list[str] = []
    made = c.GpuReport()
    c.check(c.lib.tp_gpu_stop(handle, made, _collector(said), None))
    numbers: list[Any] = [getattr(made, field) for field in GpuReport._fields[:-1]]
    return GpuReport._make([*numbers, tuple(said)])


def _collector(said: list[str]) -> Any:
    def warn(message: Any, _: Any) -> None:
        said.append(ctypes.string_at(message.ptr, message.len).decode("utf-8", "replace") if message.len else "")

    return c.MESSAGE(warn)


def libraries(libcuda: Optional[Path], libcudart: Optional[Path], libcupti: Optional[Path]) -> c.GpuLibraries:
    """Which files to use, and the folders of this Python's packages, where NVIDIA's wheels are installed."""
    made = c.GpuLibraries()
    for name, path in (("libcuda", libcuda), ("libcudart", libcudart), ("libcupti", libcupti)):
        if path is not None:
            setattr(made, name, c.path_str(path))
    folders = [c.path_str(folder) for folder in sys.path if folder and os.path.isdir(os.path.join(folder, "nvidia"))]
    made.search_paths = (c.Str * len(folders))(*folders)
    made.search_path_count = len(folders)
    return made


def gpu_info(
    *, libcuda: Optional[Path] = None, libcudart: Optional[Path] = None, libcupti: Optional[Path] = None
) -> GpuInfo:
    """Looks for the driver, its devices, the runtime and CUPTI, and tells what there is, or why there is nothing.

    Starts the driver if there is one, which takes up to seconds, and after which CUDA does not work in processes that
    this one forks. Without a driver the answer takes about a millisecond.

    Args:
        libcuda, libcudart, libcupti: files to use, instead of looking for them. What is not given is taken from
            TP_LIBCUDA, TP_LIBCUDART and TP_LIBCUPTI in the environment, if set.
    """
    where = libraries(libcuda, libcudart, libcupti)
    buffer = ctypes.create_string_buffer(1 << 16)
    length = ctypes.c_size_t()
    c.check(c.lib.tp_gpu_info_json(where, buffer, len(buffer), length))
    while length.value >= len(buffer):
        buffer = ctypes.create_string_buffer(length.value + 1)
        c.check(c.lib.tp_gpu_info_json(where, buffer, len(buffer), length))
    told = json.loads(buffer.value)

    def library(name: str) -> Optional[GpuLibrary]:
        return GpuLibrary(**told[name]) if told[name] is not None else None

    return GpuInfo(
        ready=told["ready"],
        state=told["state"],
        reason=told["reason"],
        driver_code=told["driver_code"],
        driver=library("driver"),
        runtime=library("runtime"),
        cupti=library("cupti"),
        devices=tuple(GpuDevice(device["id"], device["name"], device) for device in told["devices"]),
        warnings=tuple(told["warnings"]),
    )
