"""Merges whose parts run on executors: the same document as a merge at once."""

from __future__ import annotations

import concurrent.futures
import json
import os
import pickle

import pytest
from conftest import load

import tptrace

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::tptrace.MergeWarning")


def make(path, rank, count=200):
    events = [{"ph": "M", "name": "process_name", "pid": 5, "tid": 0, "args": {"name": "python"}}]
    for i in range(count):
        events.append({"ph": "X", "cat": "cpu_op", "name": f"op{i % 7}", "pid": 5, "tid": 1, "ts": i * 10, "dur": i % 9})
        events.append({"ph": "s", "cat": "ac2g", "name": "ac2g", "id": i, "pid": 5, "tid": 1, "ts": i * 10})
        events.append({"ph": "f", "cat": "ac2g", "name": "ac2g", "id": i, "pid": 0, "tid": 7, "ts": i * 10 + 2, "bp": "e"})
        events.append({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": i * 10 + 2, "dur": 3})
    path.write_text(json.dumps({"distributedInfo": {"rank": rank, "world_size": 3}, "traceEvents": events}))
    return path


@pytest.fixture
def ranks(tmp_path):
    return [make(tmp_path / f"rank{rank}.json", rank) for rank in (2, 0, 1)]


def dask_executor():
    if os.environ.get("TPTRACE_REQUIRE_DASK"):
        import distributed
    else:
        distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    client = distributed.Client(cluster)
    return client.get_executor(), (client, cluster)


@pytest.fixture(params=["threads", "processes", "dask"])
def executor(request):
    if request.param == "dask":
        made, closing = dask_executor()
        yield made
        for one in closing:
            one.close()
        return
    kind = concurrent.futures.ThreadPoolExecutor if request.param == "threads" else concurrent.futures.ProcessPoolExecutor
    with kind(2) as made:
        yield made


def lines(document):
    return sorted(json.dumps(event, sort_keys=True) for event in document.pop("traceEvents")), document


def test_an_executor_makes_the_same_document(tmp_path, ranks, executor):
    for options in ({}, {"window_ns": (100_000, 900_000), "exclude_names": ["op3"]}, {"ranks": [0, 2]}, {"verbatim": True}):
        whole, parts = tmp_path / "whole.json", tmp_path / "parts.json.gz"
        expected = tptrace.merge_traces(ranks, whole, trace_name="merged", **options)
        report = tptrace.merge_traces(ranks, parts, trace_name="merged", executor=executor, **options)
        assert lines(load(parts)) == lines(load(whole))
        assert report._replace(written=0) == expected._replace(written=0)
        assert report.written == parts.stat().st_size
    out = tmp_path / "dropin.json"
    assert tptrace.merge_distributed_traces(ranks, out, executor=executor) == str(out)
    assert load(out)["traceName"] == str(out)
    assert not list(tmp_path.glob(".tptrace-*")), "fragments are left"


def test_failures_come_back_and_leave_nothing(tmp_path, ranks, executor):
    out = tmp_path / "out.json.gz"
    out.write_bytes(b"before")
    ranks[1].write_text(ranks[1].read_text()[:-20])
    with pytest.raises(tptrace.MalformedError, match=r"rank0\.json: at byte \d+"):
        tptrace.merge_traces(ranks, out, executor=executor)
    with pytest.raises(FileNotFoundError):
        tptrace.merge_traces([tmp_path / "missing.json"], out, executor=executor)
    with pytest.raises(tptrace.InvalidArgumentError, match="size budget"):
        tptrace.merge_traces(ranks[2:], out, executor=executor, max_bytes=1 << 20)
    with pytest.raises(ValueError, match="alignment"):
        tptrace.merge_traces(ranks, out, executor=executor, alignment="some")
    with pytest.raises(tptrace.CancelledError):
        tptrace.merge_traces(ranks[2:], out, executor=executor, progress=lambda at: False)
    assert out.read_bytes() == b"before"
    assert not list(tmp_path.glob(".tptrace-*"))
    report = tptrace.merge_traces(ranks, out, executor=executor, salvage=True)
    assert report.lost == 1 and any("rank0" in warning for warning in report.warnings)


def test_the_steps_by_hand(tmp_path, ranks):
    surveys = [tptrace.merge_survey(path) for path in ranks]
    plan = tptrace.merge_plan(surveys, trace_name="by hand")
    assert len(plan.tasks) == 3 and pickle.loads(pickle.dumps(plan)) == plan
    fragments = []
    for index, (path, task) in enumerate(zip(ranks, plan.tasks)):
        moved = path.rename(path.with_suffix(".moved"))
        fragments.append(tmp_path / f"{index}.gz")
        tptrace.merge_fragment(moved, task, fragments[-1], level=6)
    report = tptrace.merge_join(plan.join, reversed(fragments), tmp_path / "out.json")
    assert load(tmp_path / "out.json")["traceName"] == "by hand"
    assert report.events > 2400
    with pytest.raises(tptrace.InvalidArgumentError, match=r"fragments are missing, of .*rank1\.json"):
        tptrace.merge_join(plan.join, fragments[:2], tmp_path / "out.json")
    with pytest.raises(TypeError, match="list of paths"):
        tptrace.merge_join(plan.join, fragments[0], tmp_path / "out.json")
