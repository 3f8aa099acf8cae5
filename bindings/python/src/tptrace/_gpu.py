"""The GPU at run time: what there is. Nothing of CUDA is loaded or called before it is asked for."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any, NamedTuple, Optional, Union

from . import _library as c

__all__ = ["GpuDevice", "GpuInfo", "GpuLibrary", "gpu_info"]

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
