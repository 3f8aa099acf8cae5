"""In place of TensorPlay's own exporter: the same signature, the same document."""

from __future__ import annotations

import os
from typing import Any, Optional, Union

from . import _library as c
from ._trace import Trace

_AS_REFERENCE = 4
_KEEP_OVERLAPS = 2


def export_chrome_trace(
    event_list: Any,
    path: Union[str, os.PathLike[str]],
    torch_compat: bool = False,
    gpu_activities: Optional[Any] = None,
    mem_events: Optional[Any] = None,
    samples: Optional[Any] = None,
) -> str:
    """Writes collected CPU, GPU, memory and sample events as JSON, compressed if the path ends in .gz.

    Takes what TensorPlay's `export_chrome_trace` takes, and writes the same document: with `torch_compat=False` equal as
    parsed JSON, with `torch_compat=True` the same and what PyTorch's trace readers need on top.

    Args:
        event_list: op tuples (see `Trace.add_ops`) with an attribute `base_ns`; the attributes `gpu_activities`,
            `mem_events` and `samples` are used where the arguments are None.
        path: the file to write; an old one stays as it was if this fails.

    Returns:
        The path.
    """
    gpu_activities = event_list.gpu_activities if gpu_activities is None else gpu_activities
    mem_events = event_list.mem_events if mem_events is None else mem_events
    samples = event_list.samples if samples is None else samples
    target = os.fspath(path)
    with Trace("python", base_ns=event_list.base_ns) as trace:
        trace.add_ops(event_list, first_id=0)
        trace.add_gpu_activities(gpu_activities)
        trace.add_memory_events(mem_events)
        trace.add_samples(samples)
        if torch_compat:
            _describe_devices(trace)
        options = c.WriteOptions(flags=_AS_REFERENCE | _KEEP_OVERLAPS, format=1 if torch_compat else 0)
        with trace._using() as handle:
            c.check(c.lib.tp_trace_write(handle, c.path_str(target), options))
    return target


def _describe_devices(trace: Trace) -> None:
    """What TensorPlay, where it is there and sees a GPU, knows of the devices and of the CUDA versions."""
    try:
        import tensorplay
    except Exception:
        return
    try:
        if getattr(tensorplay.cuda, "is_available", lambda: False)():
            devices = [tensorplay.cuda.get_device_properties(at) for at in range(tensorplay.cuda.device_count())]
            trace.set_metadata("deviceProperties", [_device(at, item) for at, item in enumerate(devices)])
    except Exception:
        pass  # as the exporter that this replaces: a trace without devices is better than none
    for key, module, function in (
        ("cuda_runtime_version", "_cuda", "get_version"),
        ("cuda_driver_version", "_cuda", "get_driver_version"),
        ("cupti_version", None, "_profiler_cupti_version"),
    ):
        try:
            native = tensorplay._C if module is None else getattr(tensorplay._C, module)
            version = getattr(native, function)()
        except Exception:
            continue
        if version:
            trace.set_metadata(key, version)


def _device(index: int, item: Any) -> dict[str, Any]:
    return {
        "id": index,
        "name": getattr(item, "name", "unknown"),
        "totalGlobalMem": getattr(item, "total_memory", 0),
        "computeMajor": getattr(item, "major", 0),
        "computeMinor": getattr(item, "minor", 0),
        "maxThreadsPerBlock": getattr(item, "max_threads_per_block", 0),
        "maxThreadsPerMultiprocessor": getattr(item, "multi_processor_count", 0),
        "regsPerMultiprocessor": getattr(item, "regs_per_multiprocessor", 0),
        "warpSize": getattr(item, "warp_size", 32),
    }
