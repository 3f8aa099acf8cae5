"""Many trace files into one."""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Optional, Union

from . import _library as c
from . import _structs
from ._callbacks import Progress, Watched

__all__ = ["MergeReport", "MergeWarning", "merge_distributed_traces", "merge_traces"]

Path = Union[str, os.PathLike[str]]

_ALIGNMENTS = {"auto": 0, "force": 1, "off": 2}


class MergeWarning(UserWarning):
    """Something odd about the inputs of a merge, or damaged and passed by."""


class MergeReport(NamedTuple):
    """What a merge did."""

    events: int
    """Events of the inputs that were written."""
    repaired: int
    """Damaged events among them, written after repair."""
    lost: int
    """Damaged pieces that could not be kept."""
    aligned: bool
    """Whether timestamps share one clock now."""
    uncertainty_ns: Optional[int]
    """How far timestamps of different inputs may be apart, where the inputs say so."""
    bytes: int
    """Bytes of the document, before compression."""
    written: int
    """Bytes of the file."""
    warnings: tuple[str, ...]
    """What was odd about the inputs, or damaged."""


def merge_traces(
    paths: Iterable[Path],
    out_path: Path,
    *,
    verbatim: bool = False,
    salvage: bool = False,
    alignment: Union[str, Sequence[int]] = "auto",
    compression: str = "auto",
    level: int = 0,
    threads: int = 0,
    fsync: bool = False,
    trace_name: Optional[str] = None,
    progress: Optional[Callable[[Progress], Any]] = None,
) -> MergeReport:
    """Merges trace files, one for each rank, into one. The output may be one of the inputs.

    Ranks' processes, lanes and flows are kept apart, processes are named and sorted by rank, and timestamps are moved
    onto one clock where the files say how. What the inputs say of themselves is under `ranks`. Memory stays small
    however large they are.

    Args:
        verbatim: shift pids by rank x 10,000,000 and change nothing else, as TensorPlay's merger does.
        salvage: keep what can be kept of damaged files, and tell of the rest, instead of failing.
        alignment: "auto" (if every file says how), "force", "off", or nanoseconds to add for each file.
        compression: "auto" (gzip if the path ends in .gz), "none" or "gzip"; of the inputs their bytes tell.
        level: gzip level from 1 (fastest) to 9 (smallest); 0 for the default, 1.
        threads: how many work; 0 for one per core.
        fsync: wait until the file is on the disk.
        trace_name: `traceName` of the document; the path if not given.
        progress: called now and then with a Progress on this thread; answers False to cancel.
    """
    if isinstance(paths, (str, bytes, os.PathLike)):
        raise TypeError("paths must be a list of paths, not one path")
    names = [c.path_str(path) for path in paths]
    watched = Watched(progress)
    said: list[str] = []

    def warn(message: Any, _: Any) -> None:
        said.append(ctypes.string_at(message.ptr, message.len).decode("utf-8", "replace") if message.len else "")

    options = c.MergeOptions(
        flags=(1 if verbatim else 0) | (2 if salvage else 0) | (4 if fsync else 0),
        compression=_structs.choose(_structs.COMPRESSIONS, "compression", compression),
        level=_structs.number("level", level, "int32"),
        threads=_structs.number("threads", threads, "uint32"),
        progress=watched.progress,
        warn=c.MESSAGE(warn),
    )
    if isinstance(alignment, str):
        options.alignment = _structs.choose(_ALIGNMENTS, "alignment", alignment)
    else:
        offsets = [_structs.number("an offset", offset, "int64") for offset in alignment]
        options.alignment = 3
        options.offsets_ns = (ctypes.c_int64 * len(offsets))(*offsets)
        options.offset_count = len(offsets)
    if trace_name is not None:
        options.trace_name = _structs.text("trace_name", trace_name)
    report = c.MergeReport()
    watched.finish(
        c.lib.tp_trace_merge((c.Str * len(names))(*names), len(names), c.path_str(out_path), options, report)
    )
    uncertainty = None if report.uncertainty_ns == (1 << 64) - 1 else report.uncertainty_ns
    return MergeReport(
        report.events,
        report.repaired,
        report.lost,
        bool(report.aligned),
        uncertainty,
        report.bytes,
        report.written,
        tuple(said),
    )


def merge_distributed_traces(paths: Iterable[Path], out_path: Path, **options: Any) -> str:
    """Merges trace files into one, with the signature and the result of TensorPlay's `merge_distributed_traces`.

    The document is right where the original's is not; `verbatim=True` gives exactly the original's. Takes the options
    of `merge_traces`, whose warnings are given as MergeWarning here.

    Returns:
        The output path.
    """
    for warning in merge_traces(paths, out_path, **options).warnings:
        warnings.warn(warning, MergeWarning, stacklevel=2)
    return os.fspath(out_path)
