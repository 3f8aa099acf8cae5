"""A merge in parts that run in other processes, or on other machines."""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple, Optional

from . import _library as c
from ._callbacks import Progress, Watched
from ._merge import MergeReport, Path, Sink, listed_paths, make_options, make_report

__all__ = ["MergePlan", "merge_fragment", "merge_join", "merge_plan", "merge_survey"]


class MergePlan(NamedTuple):
    """A merge planned from surveys."""

    tasks: tuple[str, ...]
    """A task for each survey, in their order; empty for a file that the options leave out."""
    join: str
    """What `merge_join` needs."""


def merge_survey(path: Path, **options: Any) -> str:
    """The first step of a merge in parts: what one file says of itself, as a text for `merge_plan`.

    The steps are a survey of each file, one plan, a fragment of each file, one join. Surveys and fragments may be made
    anywhere and at the same time. All steps take the same options, which are those of `merge_traces`, and the same
    version of this package. `merge_traces` with an `executor` does all of it.
    """
    sink = Sink()
    c.check(c.lib.tp_merge_survey(c.path_str(path), make_options(**options), sink.call, None))
    return sink.texts[0]


def merge_plan(surveys: Iterable[str], **options: Any) -> MergePlan:
    """The second step: settles what the parts have in common. `trace_name` is not guessed from a path here."""
    texts = [c.to_str(survey) for survey in surveys]
    sink = Sink()
    c.check(c.lib.tp_merge_plan((c.Str * len(texts))(*texts), len(texts), make_options(**options), sink.call, None))
    return MergePlan(tuple(sink.texts[:-1]), sink.texts[-1])


def merge_fragment(
    path: Path, task: str, out_path: Path, *, level: int = 0, threads: int = 0, fsync: bool = False
) -> None:
    """The third step: rewrites the events of one file into a compressed fragment.

    Args:
        path: the file, which may have another path than when it was surveyed.
        task: the one that `merge_plan` gave for its survey.
        out_path: the fragment. Any reader of gzip shows what is in it.
    """
    options = make_options(level=level, threads=threads, fsync=fsync)
    c.check(c.lib.tp_merge_fragment(c.path_str(path), c.to_str(task), c.path_str(out_path), options))


def merge_join(
    plan: str,
    fragments: Iterable[Path],
    out_path: Path,
    *,
    compression: str = "auto",
    fsync: bool = False,
    progress: Optional[Callable[[Progress], Any]] = None,
) -> MergeReport:
    """The last step: makes the document of all fragments, in any order, by copying their compressed bytes.

    Args:
        plan: `MergePlan.join`.
    """
    names = [c.path_str(path) for path in listed_paths(fragments)]
    watched, said, report = Watched(progress), Sink(), c.MergeReport()
    options = make_options(compression=compression, fsync=fsync)
    options.progress = watched.progress
    options.warn = said.call
    array = (c.Str * len(names))(*names)
    watched.finish(c.lib.tp_merge_join(c.to_str(plan), array, len(names), c.path_str(out_path), options, report))
    return make_report(report, said.texts)


def _survey(path: str, options: Mapping[str, Any]) -> str:
    return merge_survey(path, **options)


def _fragment(path: str, task: str, out_path: str, options: Mapping[str, Any]) -> None:
    merge_fragment(path, task, out_path, **options)


def _gather(futures: Sequence[Future[Any]]) -> list[Any]:
    """All results, or the first failure in their order; then what has not begun is not begun."""
    try:
        return [future.result() for future in futures]
    except BaseException:
        for future in futures:
            future.cancel()
        raise


def merge_with(
    executor: Executor,
    paths: Iterable[Path],
    out_path: Path,
    progress: Optional[Callable[[Progress], Any]],
    options: Mapping[str, Any],
) -> MergeReport:
    """A merge whose parts run on an executor."""
    given = dict(options)
    make_options(**given)  # what is wrong with them is said here, not in some worker
    # A worker may have another working directory.
    files = [os.path.abspath(os.fspath(path)) for path in paths]
    # `threads` are this process's; a worker has one, like its executor's tasks.
    part: dict[str, Any] = {key: given.pop(key) for key in ("level", "fsync") if key in given}
    join = {"compression": given.pop("compression", "auto"), "fsync": part.get("fsync", False)}
    given.pop("threads", None)
    if given.get("trace_name") is None:
        given["trace_name"] = os.fsdecode(out_path)
    surveys = _gather([executor.submit(_survey, path, given) for path in files])
    plan = merge_plan(surveys, **given)
    folder = tempfile.mkdtemp(prefix=".tptrace-", suffix=".parts", dir=pathlib.Path(os.path.abspath(out_path)).parent)
    try:
        part["threads"] = 1
        chosen = [(path, task) for path, task in zip(files, plan.tasks) if task]
        targets = [os.path.join(folder, f"{index}.gz") for index in range(len(chosen))]
        work = [
            executor.submit(_fragment, path, task, target, part) for (path, task), target in zip(chosen, targets)
        ]
        _gather(work)
        return merge_join(plan.join, targets, out_path, progress=progress, **join)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
