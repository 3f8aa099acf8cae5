"""What the library's statuses are in Python."""

from __future__ import annotations

import errno as _errno
import re
from typing import NoReturn, Optional

OK = 0
UNAVAILABLE = 1
INVALID_ARGUMENT = 2
IO = 3
MALFORMED = 4
LIMIT = 5
CALLBACK = 6
CANCELLED = 7
OUT_OF_MEMORY = 8
UNSUPPORTED = 9
FORKED = 10
INTERNAL = 11
GPU_UNAVAILABLE = 20
GPU_BUSY = 21
GPU_PERMISSION = 22
GPU_FAILED = 23


class TptraceError(Exception):
    """A call of the library failed. `status` is its TP_STATUS_ number."""

    status: int = INTERNAL


class InvalidArgumentError(TptraceError, ValueError, TypeError):
    """An argument cannot be used; the message says which and why.

    Both a ValueError and a TypeError, since the library does not tell the two apart.
    """

    status = INVALID_ARGUMENT


class ClosedError(TptraceError, ValueError):
    """The trace was closed."""

    status = UNAVAILABLE


class IOFailedError(TptraceError, OSError):
    """The system refused an operation on a file. Also the matching subclass of OSError, such as FileNotFoundError."""

    status = IO

    def __str__(self) -> str:
        return str(self.args[-1]) if self.args else ""


class FileMissingError(IOFailedError, FileNotFoundError):
    """A folder or file does not exist."""


class NotPermittedError(IOFailedError, PermissionError):
    """The system does not permit the operation."""


class IsFolderError(IOFailedError, IsADirectoryError):
    """A folder stands where a file should."""


class MalformedError(TptraceError, ValueError):
    """An input file is damaged."""

    status = MALFORMED


class LimitError(TptraceError, ValueError):
    """An input file goes past a limit that keeps memory bounded."""

    status = LIMIT


class CallbackError(TptraceError):
    """An output callback refused its bytes."""

    status = CALLBACK


class CancelledError(TptraceError):
    """A progress callback asked to stop."""

    status = CANCELLED


class MemoryExhaustedError(TptraceError, MemoryError):
    """Memory could not be had."""

    status = OUT_OF_MEMORY


class UnsupportedError(TptraceError, NotImplementedError):
    """This version of the library does not know what was asked for."""

    status = UNSUPPORTED


class ForkedError(TptraceError, RuntimeError):
    """The trace was created before a fork, and this is the child."""

    status = FORKED


class InternalError(TptraceError, RuntimeError):
    """A defect of the library: please report the message."""

    status = INTERNAL


class GpuError(TptraceError, RuntimeError):
    """GPU work cannot be collected; the message says why and what to do. The trace goes on with its CPU side."""

    status = GPU_FAILED


class GpuUnavailableError(GpuError):
    """No driver, no device, or no CUPTI that works."""

    status = GPU_UNAVAILABLE


class GpuBusyError(GpuError):
    """Another profiler collects GPU work, or another trace of this process."""

    status = GPU_BUSY


class GpuPermissionError(GpuError, PermissionError):
    """The system does not permit to collect GPU work."""

    status = GPU_PERMISSION

    def __str__(self) -> str:
        return str(self.args[-1]) if self.args else ""


_BY_STATUS: dict[int, type[TptraceError]] = {
    kind.status: kind
    for kind in (
        InvalidArgumentError,
        ClosedError,
        MalformedError,
        LimitError,
        CallbackError,
        CancelledError,
        MemoryExhaustedError,
        UnsupportedError,
        ForkedError,
        InternalError,
        GpuError,
        GpuUnavailableError,
        GpuBusyError,
        GpuPermissionError,
    )
}

_BY_ERRNO: dict[int, type[IOFailedError]] = {
    _errno.ENOENT: FileMissingError,
    _errno.EACCES: NotPermittedError,
    _errno.EPERM: NotPermittedError,
    _errno.EISDIR: IsFolderError,
}


def raise_status(status: int, message: str) -> NoReturn:
    """Raises what `status` is in Python."""
    if status == IO:
        found = re.search(r"\(os error (\d+)\)", message)
        number: Optional[int] = int(found[1]) if found else None
        raise _BY_ERRNO.get(number or 0, IOFailedError)(number or _errno.EIO, message)
    kind = _BY_STATUS.get(status, TptraceError)
    error = kind(message)
    error.status = status
    raise error
