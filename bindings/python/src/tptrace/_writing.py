"""How a document is written, and what a journal tells of written as one."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple, Optional, Union

from . import _library as c
from . import _structs
from ._callbacks import Progress, Watched

__all__ = ["Recovered", "by_name", "recover", "write_options"]


def by_name(format: str, path: Union[str, os.PathLike[str]], otherwise: str) -> str:
    """What "auto" stands for with this path."""
    if format != "auto":
        return format
    return "perfetto" if os.fsdecode(path).endswith((".pftrace", ".pftrace.gz")) else otherwise


def write_options(
    format: str,
    compression: str,
    level: int,
    threads: int,
    fsync: bool,
    separate_overlaps: bool,
    trace_name: Optional[str],
    watched: Watched,
) -> c.WriteOptions:
    """tp_write_options"""
    made = c.WriteOptions(
        flags=(1 if fsync else 0) | (0 if separate_overlaps else 2),
        format=_structs.choose(_structs.FORMATS, "format", format),
        compression=_structs.choose(_structs.COMPRESSIONS, "compression", compression),
        level=_structs.number("level", level, "int32"),
        threads=_structs.number("threads", threads, "uint32"),
        progress=watched.progress,
    )
    if trace_name is not None:
        made.trace_name = _structs.text("trace_name", trace_name)
    return made


class Recovered(NamedTuple):
    """What became of a journal."""

    events: int
    """Events in the document."""
    unfinished: int
    """Spans that were open: they end where the journal does, and have "unfinished"."""
    journal_bytes: int
    """Bytes of the journal that were read."""
    cut_bytes: int
    """Bytes behind them that were cut, since they are damaged or half written."""


def recover(
    journal: Union[str, os.PathLike[str]],
    out_path: Union[str, os.PathLike[str]],
    *,
    format: str = "auto",
    compression: str = "auto",
    level: int = 0,
    threads: int = 0,
    fsync: bool = False,
    separate_overlaps: bool = True,
    trace_name: Optional[str] = None,
    progress: Optional[Callable[[Progress], Any]] = None,
) -> Recovered:
    """Makes the trace that a journal tells of: what a process had recorded before it was killed or crashed.

    The journal stays as it is. It is read up to its end or to where it is damaged. The other arguments are those of
    `Trace.write`, but that "auto" is the torch format unless the path ends in .pftrace or .pftrace.gz. Raises
    MalformedError for what is no journal.
    """
    watched = Watched(progress)
    format = by_name(format, out_path, "torch")
    options = write_options(format, compression, level, threads, fsync, separate_overlaps, trace_name, watched)
    report = c.RecoverReport()
    watched.finish(c.lib.tp_recover(c.path_str(journal), c.path_str(out_path), options, report))
    return Recovered(report.events, report.unfinished, report.journal_bytes, report.cut_bytes)
