"""Write and merge GPU and CPU traces that every trace viewer opens."""

from . import integrate
from ._callbacks import Progress
from ._dropin import export_chrome_trace
from ._errors import (
    CallbackError,
    CancelledError,
    ClosedError,
    ForkedError,
    GpuBusyError,
    GpuError,
    GpuPermissionError,
    GpuUnavailableError,
    InternalError,
    InvalidArgumentError,
    IOFailedError,
    LimitError,
    MalformedError,
    MemoryExhaustedError,
    TptraceError,
    UnsupportedError,
)
from ._gpu import GpuDevice, GpuInfo, GpuLibrary, GpuReport, GpuWarning, gpu_info
from ._library import lib as _lib
from ._merge import MergeReport, MergeWarning, merge_distributed_traces, merge_traces
from ._profiler import Profiler, ProfilerAction, Source, schedule, trace_handler
from ._sampler import Sampler, SamplerCounts, sample_period_ms
from ._spans import Span, counter, current_trace, enable_category, instant, set_current_trace, span
from ._split import MergePlan, merge_fragment, merge_join, merge_plan, merge_survey
from ._trace import Counts, Trace, now_ns
from ._writing import Recovered, recover

__version__: str = _lib.tp_version().decode()

__all__ = [
    "CallbackError",
    "CancelledError",
    "ClosedError",
    "Counts",
    "ForkedError",
    "GpuBusyError",
    "GpuDevice",
    "GpuError",
    "GpuInfo",
    "GpuLibrary",
    "GpuPermissionError",
    "GpuReport",
    "GpuUnavailableError",
    "GpuWarning",
    "IOFailedError",
    "InternalError",
    "InvalidArgumentError",
    "LimitError",
    "MalformedError",
    "MemoryExhaustedError",
    "MergePlan",
    "MergeReport",
    "MergeWarning",
    "Profiler",
    "ProfilerAction",
    "Progress",
    "Recovered",
    "Sampler",
    "SamplerCounts",
    "Source",
    "Span",
    "TptraceError",
    "Trace",
    "UnsupportedError",
    "counter",
    "current_trace",
    "enable_category",
    "export_chrome_trace",
    "gpu_info",
    "instant",
    "integrate",
    "merge_distributed_traces",
    "merge_fragment",
    "merge_join",
    "merge_plan",
    "merge_survey",
    "merge_traces",
    "now_ns",
    "recover",
    "sample_period_ms",
    "schedule",
    "set_current_trace",
    "span",
    "trace_handler",
]
