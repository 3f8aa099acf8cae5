"""Merging, and TensorPlay's merger beside ours."""

from __future__ import annotations

import gzip
import json
import os
import random

import pytest
from conftest import load

import tptrace


def write(path, document):
    text = document if isinstance(document, str) else json.dumps(document)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def rank(number, *events):
    return {"distributedInfo": {"rank": number, "world_size": 2}, "traceEvents": list(events)}


def test_ranks_become_one_document(tmp_path):
    slice_ = {"ph": "X", "pid": 1, "tid": 2, "ts": 1.5, "dur": 2}
    paths = [write(tmp_path / "a.json", rank(0, slice_)), str(write(tmp_path / "b.json.gz", rank(1, slice_)))]
    out = tmp_path / "out.json.gz"
    report = tptrace.merge_traces(paths, out, level=6, fsync=True, alignment="off")
    assert (report.events, report.lost, report.warnings) == (2, 0, ())
    assert report.written == out.stat().st_size
    document = load(out)
    assert document["distributedInfo"] == {"merged_ranks": [0, 1], "world_size": 2}
    slices = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert [event["pid"] for event in slices] == [1, 10_000_001]


@pytest.mark.filterwarnings("ignore::tptrace.MergeWarning")
def test_the_drop_in_answers_the_path_and_warns(tmp_path):
    paths = [write(tmp_path / "a.json", rank(1)), write(tmp_path / "b.json", rank(1))]
    with pytest.warns(tptrace.MergeWarning, match="several inputs are of rank 1"):
        assert tptrace.merge_distributed_traces(paths, tmp_path / "out.json") == str(tmp_path / "out.json")


def test_plain_files_are_of_the_rank_in_their_events(tmp_path):
    def plain(number):
        return {"traceEvents": [{"ph": "X", "pid": 0, "tid": 0, "ts": 1, "dur": 2, "args": {"rank": number}}]}

    paths = [write(tmp_path / f"{number}.json.gz", plain(number)) for number in (3, 0)]
    out = tmp_path / "out.json"
    with pytest.warns(tptrace.MergeWarning, match="these are missing: 1, 2"):
        tptrace.merge_distributed_traces(paths, out)
    assert load(out)["distributedInfo"]["merged_ranks"] == [3, 0]
    # The reference goes by the place, and takes no files for an empty document.
    tptrace.merge_distributed_traces(paths, out, verbatim=True)
    assert load(out)["distributedInfo"]["merged_ranks"] == [0, 1]
    tptrace.merge_distributed_traces([], out, verbatim=True)
    assert load(out)["traceEvents"] == []
    unknown = write(tmp_path / "unknown.json", {"traceEvents": [{"ph": "X", "pid": 0, "ts": 1, "dur": 2}]})
    report = tptrace.merge_traces([paths[1], unknown], out)
    assert any("no rank is stated" in warning and "unknown.json" in warning for warning in report.warnings)


def test_merged_files_merge_again(tmp_path):
    slice_ = {"ph": "X", "pid": 1, "tid": 2, "ts": 1.5, "dur": 2}
    paths = [write(tmp_path / f"{number}.json", rank(number, slice_)) for number in range(4)]
    tptrace.merge_traces(paths[:2], tmp_path / "ab.json")
    tptrace.merge_traces(paths[2:], tmp_path / "cd.json.gz")
    tptrace.merge_traces([tmp_path / "ab.json", tmp_path / "cd.json.gz"], tmp_path / "out.json")
    document = load(tmp_path / "out.json")
    assert document["distributedInfo"]["merged_ranks"] == [0, 1, 2, 3]
    slices = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert [event["pid"] for event in slices] == [1, 10_000_001, 20_000_001, 30_000_001]


def test_damage_is_an_error_or_salvaged(tmp_path):
    whole = write(tmp_path / "a.json", rank(0, {"ph": "X"}))
    cut = write(tmp_path / "b.json", json.dumps(rank(1, {"ph": "X"}, {"ph": "X"}))[:-5])
    out = tmp_path / "out.json"
    out.write_text("old")
    with pytest.raises(tptrace.MalformedError, match=r"b\.json: at byte \d+"):
        tptrace.merge_traces([whole, cut], out)
    assert out.read_text() == "old"
    report = tptrace.merge_traces([whole, cut], out, salvage=True)
    assert report.events >= 2 and any("b.json" in warning for warning in report.warnings)
    with pytest.raises(FileNotFoundError, match="missing"):
        tptrace.merge_traces([tmp_path / "missing.json"], out)
    with pytest.raises(IsADirectoryError):
        tptrace.merge_traces([tmp_path], out)


def test_bad_arguments(tmp_path):
    path = write(tmp_path / "a.json", rank(0))
    for options in (
        {"alignment": "best"},
        {"alignment": [1, 2]},
        {"alignment": ["1"]},
        {"compression": "zstd"},
        {"level": 11},
        {"verbatim": True, "alignment": "force"},
    ):
        with pytest.raises((TypeError, ValueError)):
            tptrace.merge_traces([path], tmp_path / "out.json", **options)
    with pytest.raises(TypeError):
        tptrace.merge_traces(path, tmp_path / "out.json")
    assert sorted(os.listdir(tmp_path)) == ["a.json"]


def test_progress(tmp_path):
    path = write(tmp_path / "a.json", rank(0, *[{"ph": "X", "pid": 1}] * 100_000))
    seen = []
    tptrace.merge_traces([path], tmp_path / "out.json", progress=seen.append)
    assert seen[-1].total == path.stat().st_size and seen[-1].done > 0
    with pytest.raises(tptrace.CancelledError):
        tptrace.merge_traces([path], tmp_path / "out2.json", progress=lambda _: False)
    with pytest.raises(ZeroDivisionError):
        tptrace.merge_traces([path], tmp_path / "out2.json", progress=lambda _: 1 / 0)
    assert not (tmp_path / "out2.json").exists()


@pytest.mark.filterwarnings("ignore::tptrace.MergeWarning")
@pytest.mark.parametrize("seed", range(60))
def test_verbatim_is_tensorplays(tmp_path, seed):
    exporter = pytest.importorskip("tensorplay.profiler._chrome_trace_export", reason="pip install tensorplay==1.0.0")
    rng = random.Random(seed)
    pids = [0, 1, 7, -3, 10**7, 2**63, 10**40, 1.5, -0.5, 1e3, True, None, "12", " 1_0 ", "+5", "x", "", "٣", [1], {"a": 1}]
    scalars = [0, -1, 2**70, 1.25, 1e-9, True, None, "é😀\n\"\\", "\x01", [], {}, [{"}": "]"}]]

    def event():
        made = {"name": rng.choice(["a", "é", 'q"']), "ph": rng.choice("XsfMiC"), "args": {"v": rng.choice(scalars)}}
        if rng.random() < 0.9:
            made["pid"] = rng.choice(pids)
        return made

    def document():
        made = {"displayTimeUnit": "ms", "extra": rng.choice(scalars)}
        if rng.random() < 0.8:
            made["traceEvents"] = [event() for _ in range(rng.randrange(20))]
        if rng.random() < 0.6:
            made["distributedInfo"] = {"rank": rng.choice([0, 1, 5, 700, -2, None]), "world_size": 8}
        keys = list(made)
        rng.shuffle(keys)
        return {key: made[key] for key in keys}

    paths = []
    for index in range(rng.randrange(4)):
        path = tmp_path / f"in{index}.json{rng.choice(['', '.gz'])}"
        text = json.dumps(document(), indent=rng.choice([None, 1]), ensure_ascii=rng.random() < 0.5)
        paths.append(write(path, text))
    theirs, ours = tmp_path / "theirs.json", tmp_path / "ours.json"
    exporter.merge_distributed_traces(paths, theirs)
    tptrace.merge_distributed_traces(paths, ours, verbatim=True)
    expected, got = json.loads(theirs.read_text()), load(ours)
    assert expected.pop("traceName") == str(theirs) and got.pop("traceName") == str(ours)
    assert got == expected


def test_events_are_selected(tmp_path):
    slices = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": 10, "dur": 50},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 40, "dur": 5},
        {"ph": "X", "cat": "kernel", "name": "add", "pid": 0, "tid": 7, "ts": 80, "dur": 1},
    ]
    paths = [write(tmp_path / f"{number}.json", rank(number, *slices)) for number in (0, 1)]
    out = tmp_path / "out.json"

    def kept(**options):
        report = tptrace.merge_traces(paths, out, alignment="off", **options)
        names = [event["name"] for event in load(out)["traceEvents"] if event["ph"] == "X"]
        return names, {reason: count for reason, count in report.cut.items() if count}

    assert kept(ranks=[1]) == (["aten::mm", "gemm", "add"], {})
    assert kept(categories=["kernel"], ranks=[0]) == (["gemm", "add"], {"category": 1})
    assert kept(window_ns=(45_000, 71_000), ranks=[0]) == (["aten::mm", "add"], {"window": 1})
    assert kept(min_duration_ns=5_000, exclude_names=["^aten"], ranks=[0]) == (["gemm"], {"name": 1, "duration": 1})
    assert kept(names=["mm"]) == (["aten::mm", "gemm"] * 2, {"name": 2})
    whole = tptrace.merge_traces(paths, out)
    report = tptrace.merge_traces(paths, out, max_bytes=whole.bytes + 2_000)
    assert (report.complete_from_ns, report.bytes, sum(report.cut.values())) == (None, report.bytes, 0)
    report = tptrace.merge_traces(paths, out, max_bytes=whole.bytes - 50)
    assert report.bytes <= whole.bytes - 50 and report.cut["budget"] > 0 and report.complete_from_ns > 1_000
    for wrong in ({"ranks": ["x"]}, {"categories": "kernel"}, {"window_ns": (1.5, 2)}):
        with pytest.raises(TypeError):
            tptrace.merge_traces(paths, out, **wrong)
    for wrong in ({"names": ["("]}, {"window_ns": (2, 1)}, {"max_bytes": 0}, {"min_duration_ns": -1}, {"ranks": [9]}):
        with pytest.raises(ValueError):
            tptrace.merge_traces(paths, out, **wrong)


def test_progress_counts_files_and_events(tmp_path):
    paths = [write(tmp_path / f"{number}.json", rank(number, {"ph": "X", "name": "x"})) for number in (0, 1)]
    seen = []
    report = tptrace.merge_traces(paths, tmp_path / "out.json", progress=seen.append)
    assert (seen[-1].files, seen[-1].events) == (2, report.events)
