"""Python functions that the library calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Optional

from . import _library as c


class Progress(NamedTuple):
    """How far a write or a merge has come."""

    done: int
    """Work finished: events of a trace, bytes of input of a merge."""
    total: int
    """All the work there is; 0 if unknown."""
    bytes: int
    """Bytes of document made so far, before compression."""
    written: int
    """Bytes handed to the target so far."""
    files: int
    """Of a merge: inputs read to their end."""
    events: int
    """Of a merge: events written."""


class Watched:
    """Callbacks behind C functions: what they raise waits until the library has returned."""

    def __init__(self, progress: Optional[Callable[[Progress], Any]]) -> None:
        self.raised: Optional[BaseException] = None
        self._progress = progress
        self.progress = c.PROGRESS(self._tell) if progress is not None else c.PROGRESS()

    def _tell(self, state: Any, _: Any) -> int:
        try:
            assert self._progress is not None
            at = state.contents
            # Only False cancels: a callback that answers nothing goes on.
            return int(self._progress(Progress(at.done, at.total, at.bytes, at.written, at.files, at.events)) is False)
        except BaseException as error:
            self.raised = error
            return 1

    def finish(self, status: int) -> None:
        if self.raised is not None:
            raise self.raised
        c.check(status)
