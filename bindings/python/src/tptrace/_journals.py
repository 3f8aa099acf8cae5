"""The journals of a profiler: one for each of its recordings."""

from __future__ import annotations

import os
import warnings
from typing import Any, Optional, Union

from ._errors import InvalidArgumentError, IOFailedError
from ._trace import Trace

__all__ = ["Journals", "throw_away"]


class Journals:
    """Makes the traces of a profiler, each with a journal of its own if one is wanted.

    Args:
        pattern: where: "%c" stands for the recording's number, from 0 on, and "%p" for that of the process. Without a
            "%c" the number is put before the path's ending. None for no journals.
        options: the other arguments of `Trace`.

    What Trace refuses is refused here, not in the middle of the work.
    """

    def __init__(self, pattern: Optional[Union[str, os.PathLike[str]]], options: dict[str, Any]) -> None:
        self._options = options
        self._pattern: Optional[str] = None
        self._made = 0
        if pattern is not None:
            if not isinstance(pattern, (str, bytes, os.PathLike)) or not os.fsdecode(pattern):
                raise InvalidArgumentError(f"journal: it must be a path, not {pattern!r}")
            # The process may change its folder.
            path = os.path.abspath(os.fsdecode(pattern))
            stem, ending = os.path.splitext(path)
            self._pattern = path if "%c" in path else f"{stem}.%c{ending}"
        # A trace without an event leaves no journal behind.
        Trace(**options, journal=self._path()).close()

    def _path(self) -> Optional[str]:
        if self._pattern is None:
            return None
        return self._pattern.replace("%p", str(os.getpid())).replace("%c", str(self._made))

    def trace(self, kept: bool) -> Trace:
        """The next recording's trace; one that is not `kept`, as of a warm-up, has no journal. If it cannot be made the trace
        has none either, with a warning: the work goes on."""
        path = self._path() if kept else None
        if path is not None:
            self._made += 1
            try:
                made = Trace(**self._options, journal=path)
                made._journal_path = path
                return made
            except (InvalidArgumentError, IOFailedError) as error:
                warnings.warn(f"the profiler goes on without a journal: {error}", RuntimeWarning, stacklevel=6)
        return Trace(**self._options)


def throw_away(trace: Trace) -> None:
    """Frees a trace that nobody wants, and its journal with it."""
    trace.close()
    if trace._journal_path is not None:
        try:
            os.unlink(trace._journal_path)
        except FileNotFoundError:
            pass
