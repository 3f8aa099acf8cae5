"""Write GPU and CPU traces that every trace viewer opens."""

from ._dropin import export_chrome_trace
from ._errors import (
    CallbackError,
    CancelledError,
    ClosedError,
    ForkedError,
    InternalError,
    InvalidArgumentError,
    IOFailedError,
    LimitError,
    MalformedError,
    MemoryExhaustedError,
    TptraceError,
    UnsupportedError,
)
from ._library import lib as _lib
from ._trace import Counts, Progress, Trace, now_ns

__version__: str = _lib.tp_version().decode()

__all__ = [
    "CallbackError",
    "CancelledError",
    "ClosedError",
    "Counts",
    "ForkedError",
    "IOFailedError",
    "InternalError",
    "InvalidArgumentError",
    "LimitError",
    "MalformedError",
    "MemoryExhaustedError",
    "Progress",
    "Trace",
    "TptraceError",
    "UnsupportedError",
    "export_chrome_trace",
    "now_ns",
]
