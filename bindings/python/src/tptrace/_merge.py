"""Many trace files into one."""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple, Optional, Union

from . import _library as c
from . import _structs
from ._callbacks import Progress, Watched

__all__ = ["MergeReport", "MergeWarning", "merge_distributed_traces", "merge_traces"]

Path = Union[str, os.PathLike[str]]

_ALIGNMENTS = {"auto": 0, "force": 1, "off": 2}
_UNKNOWN = (1 << 64) - 1


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
    cut: Mapping[str, int]
    """Events left out, by reason: window, category, name, duration, budget, and flow for those without both ends."""
    complete_from_ns: Optional[int]
    """If `max_bytes` was too small for all: slices at least this long are all there."""


class Sink:
    """Collects texts that the library gives."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.call = c.MESSAGE(self._take)

    def _take(self, message: Any, _: Any) -> None:
        size = message.len
        self.texts.append(ctypes.string_at(message.ptr, size).decode("utf-8", "replace") if size else "")


def make_options(
    verbatim: bool = False,
    salvage: bool = False,
    alignment: Union[str, Sequence[int]] = "auto",
    compression: str = "auto",
    level: int = 0,
    threads: int = 0,
    fsync: bool = False,
    trace_name: Optional[str] = None,
    ranks: Iterable[int] = (),
    window_ns: Optional[tuple[int, int]] = None,
    categories: Iterable[str] = (),
    min_duration_ns: int = 0,
    names: Iterable[str] = (),
    exclude_names: Iterable[str] = (),
    max_bytes: Optional[int] = None,
) -> c.MergeOptions:
    """The options of `merge_traces` as the library takes them."""
    options = c.MergeOptions(
        flags=(1 if verbatim else 0) | (2 if salvage else 0) | (4 if fsync else 0) | (0 if window_ns is None else 8),
        compression=_structs.choose(_structs.COMPRESSIONS, "compression", compression),
        level=_structs.number("level", level, "int32"),
        threads=_structs.number("threads", threads, "uint32"),
        min_duration_ns=_structs.number("min_duration_ns", min_duration_ns, "uint64"),
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
    numbers = [_structs.number("a rank", rank, "int64") for rank in ranks]
    options.ranks = (ctypes.c_int64 * len(numbers))(*numbers)
    options.rank_count = len(numbers)
    if window_ns is not None:
        start, end = window_ns
        options.window_start_ns = _structs.number("the start of the window", start, "int64")
        options.window_end_ns = _structs.number("the end of the window", end, "int64")
    options.categories = listed = _structs.texts("categories", categories)
    options.category_count = len(listed)
    options.names = listed = _structs.texts("names", names)
    options.name_count = len(listed)
    options.exclude_names = listed = _structs.texts("exclude_names", exclude_names)
    options.exclude_name_count = len(listed)
    if max_bytes is not None:
        if max_bytes == 0:
            raise ValueError("max_bytes is 0: no document is as small")
        options.max_bytes = _structs.number("max_bytes", max_bytes, "uint64")
    return options


def listed_paths(paths: Iterable[Path]) -> list[Path]:
    """A list of paths; one path is no list of its letters."""
    if isinstance(paths, (str, bytes, os.PathLike)):
        raise TypeError("paths must be a list of paths, not one path")
    return list(paths)


def make_report(report: c.MergeReport, said: Iterable[str]) -> MergeReport:
    """The report in Python."""
    return MergeReport(
        report.events,
        report.repaired,
        report.lost,
        bool(report.aligned),
        None if report.uncertainty_ns == _UNKNOWN else report.uncertainty_ns,
        report.bytes,
        report.written,
        tuple(said),
        {
            "window": report.cut_window,
            "category": report.cut_category,
            "name": report.cut_name,
            "duration": report.cut_duration,
            "budget": report.cut_budget,
            "flow": report.cut_flow,
        },
        None if report.complete_from_ns == _UNKNOWN else report.complete_from_ns,
    )


def merge_traces(
    paths: Iterable[Path],
    out_path: Path,
    *,
    executor: Optional[Executor] = None,
    progress: Optional[Callable[[Progress], Any]] = None,
    verbatim: bool = False,
    salvage: bool = False,
    alignment: Union[str, Sequence[int]] = "auto",
    compression: str = "auto",
    level: int = 0,
    threads: int = 0,
    fsync: bool = False,
    trace_name: Optional[str] = None,
    ranks: Iterable[int] = (),
    window_ns: Optional[tuple[int, int]] = None,
    categories: Sequence[str] = (),
    min_duration_ns: int = 0,
    names: Sequence[str] = (),
    exclude_names: Sequence[str] = (),
    max_bytes: Optional[int] = None,
) -> MergeReport:
    """Merges trace files, one for each rank, into one. The output may be one of the inputs.

    Ranks' processes, lanes and flows are kept apart, processes are named and sorted by rank, and timestamps are moved
    onto one clock where the files say how. What the inputs say of themselves is under `ranks`. Memory stays small
    however large they are.

    Args:
        executor: where the files are read and rewritten, one at a time each: any `concurrent.futures.Executor`, so that
            Dask (`client.get_executor()`), Ray or mpi4py run it on their cluster. Paths must mean the same files there,
            and the fragments go beside the output meanwhile. Without one, threads of this process do the work.
        progress: called now and then with a Progress on this thread; answers False to cancel.
        verbatim: shift pids by rank x 10,000,000 and change nothing else, as TensorPlay's merger does.
        salvage: keep what can be kept of damaged files, and tell of the rest, instead of failing.
        alignment: "auto" (if every file says how), "force", "off", or nanoseconds to add for each file.
        compression: "auto" (gzip if the path ends in .gz), "none" or "gzip"; of the inputs their bytes tell.
        level: gzip level from 1 (fastest) to 9 (smallest); 0 for the default, 1.
        threads: how many work; 0 for one per core.
        fsync: wait until the file is on the disk.
        trace_name: `traceName` of the document; the path if not given.
        ranks: only the files of these ranks.
        window_ns: (from, to) in nanoseconds after the earliest event of all files; slices that reach into it stay whole.
        categories: only events of these categories.
        min_duration_ns: only slices at least this long, and what has no duration.
        names: only events whose name matches one of these regular expressions somewhere.
        exclude_names: no events whose name matches one of these.
        max_bytes: bytes of the document before compression: the longest slices that fit stay. Not with an executor.
    """
    files = listed_paths(paths)
    options: dict[str, Any] = {
        "verbatim": verbatim,
        "salvage": salvage,
        "alignment": alignment,
        "compression": compression,
        "level": level,
        "threads": threads,
        "fsync": fsync,
        "trace_name": trace_name,
        "ranks": list(ranks),
        "window_ns": window_ns,
        "categories": categories,
        "min_duration_ns": min_duration_ns,
        "names": names,
        "exclude_names": exclude_names,
        "max_bytes": max_bytes,
    }
    if executor is not None:
        from ._split import merge_with

        return merge_with(executor, files, out_path, progress, options)
    inputs = [c.path_str(path) for path in files]
    watched, said, report = Watched(progress), Sink(), c.MergeReport()
    given = make_options(**options)
    given.progress = watched.progress
    given.warn = said.call
    watched.finish(c.lib.tp_trace_merge((c.Str * len(inputs))(*inputs), len(inputs), c.path_str(out_path), given, report))
    return make_report(report, said.texts)


def merge_distributed_traces(paths: Iterable[Path], out_path: Path, **options: Any) -> str:
    """Merges trace files into one, with the signature and the result of TensorPlay's `merge_distributed_traces`.

    The document is right where the original's is not; `verbatim=True` gives exactly the original's. Takes the options
    of `merge_traces`, `executor` too. What that reports as warnings is given as MergeWarning here.

    Returns:
        The output path.
    """
    for warning in merge_traces(paths, out_path, **options).warnings:
        warnings.warn(warning, MergeWarning, stacklevel=2)
    return os.fspath(out_path)
