"""TensorPlay with tptrace inside."""

from __future__ import annotations

import inspect
import os
import pathlib
import subprocess
import sys
import threading
import types

import pytest
from conftest import load

import tptrace

if os.environ.get("TPTRACE_REQUIRE_TENSORPLAY"):
    import tensorplay
else:
    tensorplay = pytest.importorskip("tensorplay", reason="TensorPlay is not installed: pip install tensorplay==1.0.0")

import tensorplay.profiler as profiler  # noqa: E402
from tensorplay.profiler import _chrome_trace_export as exporter  # noqa: E402

EXAMPLE = pathlib.Path(__file__).resolve().parents[3] / "examples" / "python" / "tensorplay_profile.py"


def work():
    (tensorplay.randn(4, 8) ** 2).sum()


def spans(document):
    return [e for e in document["traceEvents"] if e["ph"] == "X"]


def test_its_functions_are_replaced_everywhere_and_brought_back(tmp_path):
    places = (exporter, profiler, profiler.profiler)
    theirs = [module.__dict__.get(name) for module in places for name in ("export_chrome_trace", "merge_distributed_traces")]
    with tptrace.integrate.tensorplay() as made:
        assert set(made.places) == {
            "tensorplay.profiler._chrome_trace_export.export_chrome_trace",
            "tensorplay.profiler._chrome_trace_export.merge_distributed_traces",
            "tensorplay.profiler.merge_distributed_traces",
            "tensorplay.profiler.profiler.merge_distributed_traces",
        }
        assert tptrace.integrate.tensorplay().places == ()
        with profiler.profile() as profile:
            work()
        paths = [tmp_path / "a.json", tmp_path / "b.json"]
        for path in paths:
            profile.export_chrome_trace(str(path), torch_compat=True)
        # Only tptrace's documents say so.
        assert all("tptrace" in load(path) for path in paths)
        profiler.merge_distributed_traces(paths, tmp_path / "merged.json")
        assert "tptrace" in load(tmp_path / "merged.json")
        handler = profiler.tensorboard_trace_handler(tmp_path / "logs", use_gzip=True)
        with profiler.profile(on_trace_ready=handler, schedule=lambda step: profiler.ProfilerAction.RECORD_AND_SAVE) as profile:
            profile.step()
            work()
            profile.step()
        assert all("tptrace" in load(path) for path in (tmp_path / "logs").iterdir())
    again = [module.__dict__.get(name) for module in places for name in ("export_chrome_trace", "merge_distributed_traces")]
    assert again == theirs
    profile.export_chrome_trace(str(tmp_path / "c.json"))
    assert "tptrace" not in load(tmp_path / "c.json")


def test_what_others_replaced_since_stays(monkeypatch):
    made = tptrace.integrate.tensorplay()
    other = lambda *_: None  # noqa: E731
    monkeypatch.setattr(profiler, "merge_distributed_traces", other)
    made.undo()
    made.undo()
    assert profiler.merge_distributed_traces is other
    assert exporter.export_chrome_trace.__module__ == exporter.__name__
    monkeypatch.undo()
    profiler.merge_distributed_traces = exporter.merge_distributed_traces


def test_one_that_has_changed_is_left_alone(monkeypatch):
    before = exporter.merge_distributed_traces
    monkeypatch.setattr(exporter, "export_chrome_trace", lambda events, path: None)
    with pytest.raises(tptrace.UnsupportedError, match=r"TensorPlay \S+ has no .*export_chrome_trace\(event_list, path"):
        tptrace.integrate.tensorplay()
    monkeypatch.undo()
    monkeypatch.delattr(exporter, "merge_distributed_traces")
    with pytest.raises(tptrace.UnsupportedError, match="merge_distributed_traces"):
        tptrace.integrate.tensorplay()
    monkeypatch.undo()
    assert exporter.merge_distributed_traces is before
    assert inspect.signature(exporter.export_chrome_trace).parameters.keys() == inspect.signature(
        tptrace.export_chrome_trace
    ).parameters.keys()


def test_its_threads_by_the_systems_numbers(tmp_path):
    """Ops of TensorPlay nest in the spans of their threads."""
    with tptrace.Trace() as trace:
        source = tptrace.integrate.TensorPlay(record_shapes=True, profile_memory=True)
        started, go_on = threading.Event(), threading.Event()

        def other():
            with trace.span("there"):
                work()
            started.set()
            go_on.wait()

        source.start(trace)
        thread = threading.Thread(target=other, name="the other")
        with trace.span("here"):
            work()
        thread.start()
        started.wait()
        source.stop(trace)
        trace.write(tmp_path / "trace.json")
        go_on.set()
        thread.join()
    document = load(tmp_path / "trace.json")
    names = {e["tid"]: e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"}
    found = spans(document)
    assert {names[e["tid"]] for e in found} == {"MainThread", "the other"}
    for outer in (e for e in found if e["name"] in ("here", "there")):
        inside = [
            e["name"] for e in found
            if e["tid"] == outer["tid"] and e is not outer and outer["ts"] <= e["ts"] and e["ts"] + e["dur"] <= outer["ts"] + outer["dur"]
        ]  # fmt: skip
        assert {"randn", "sum", "[memory]"} <= set(inside), outer["name"]


def test_misuse_of_the_source(tmp_path):
    with tptrace.Trace() as trace:
        source = tptrace.integrate.TensorPlay()
        with pytest.raises(RuntimeError, match="start"):
            source.stop(trace)
        source.start(trace)
        with pytest.raises(RuntimeError, match="stop"):
            source.start(trace)
        source.stop(trace)
        with pytest.raises(TypeError, match="tptrace.Profiler"):
            tptrace.integrate.TensorPlay(schedule=lambda step: None)


def test_gpu_work_points_at_the_right_ops(tmp_path):
    """Its ids are places in its list: in a trace that has ops already they are others."""
    events = [(f"op {n}", "o", 1000 * n + 1, 1000 * n + 900, 5) for n in range(3)]
    kernels = [(f"kernel {n}", "k", 10_000 + n, 10_001 + n, 0, 7, n + 1, n, 0, 0, 0, 0, 0) for n in range(3)]
    kernels.append(("of none", "k", 10_009, 10_010, 0, 7, 9, (1 << 64) - 1, 0, 0, 0, 0, 0))
    profile = types.SimpleNamespace(_ensure_events=lambda: events, gpu_activities=kernels, mem_events=[], _sampler=None)
    with tptrace.Trace(base_ns=0) as trace:
        for n in range(4):
            trace.add_op("earlier", n, n + 1)
        tptrace.integrate.add_tensorplay(trace, profile)
        trace.write(tmp_path / "trace.json", format="torch")
    by_name = {e["name"]: e for e in spans(load(tmp_path / "trace.json"))}
    for n in range(3):
        assert by_name[f"op {n}"]["args"]["External id"] == by_name[f"kernel {n}"]["args"]["External id"] == n + 4
    assert "External id" not in by_name["of none"]["args"] or by_name["of none"]["args"]["External id"] not in range(7)


def test_its_own_sampler_is_taken_over(tmp_path):
    with tptrace.Trace() as trace:
        source = tptrace.integrate.TensorPlay(with_samples=True)
        source.start(trace)
        sampler = source._profile._sampler
        while len(sampler.samples) < 3:
            work()
        source.stop(trace)
        assert trace.counts().samples >= 3


@pytest.mark.skipif(not EXAMPLE.exists(), reason="not in the repository")
def test_the_example(tmp_path):
    done = subprocess.run([sys.executable, EXAMPLE, tmp_path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    own, *cycles = sorted(tmp_path.iterdir(), key=lambda path: (path.name != "tensorplay.json.gz", path.name))
    assert len(cycles) == 2
    for path, steps in zip(cycles, ({2, 3, 4}, {7, 8, 9})):
        document = load(path)
        found = spans(document)
        by_name = {}
        for event in found:
            by_name.setdefault(event["name"], []).append(event)
        assert {name for name in by_name if name.startswith("ProfilerStep#")} == {f"ProfilerStep#{step}" for step in steps}
        for name in ("load", "forward", "backward", "optimizer"):
            assert len(by_name[name]) == 3, name
        # Ops inside spans, on one lane.
        assert len({e["tid"] for e in found}) == 1
        for forward in by_name["forward"]:
            inside = [e for e in by_name["linear"] if forward["ts"] <= e["ts"] < forward["ts"] + forward["dur"]]
            assert len(inside) == 2 and forward["args"]["rows"] == 64
        assert document["sampler"]["samples"] == len([e for e in document["traceEvents"] if e.get("cat") == "python_function"])
        assert [e["name"] for e in document["traceEvents"] if e["ph"] == "C"] == ["loss"] * 3
    assert "tptrace" in load(own) and any(e["name"] == "linear" for e in spans(load(own)))
