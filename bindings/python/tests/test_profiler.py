"""The schedule of steps, and the profiler that follows it."""

from __future__ import annotations

import gc
import json
import os
import re
import threading
import time
import warnings
import weakref

import pytest
from conftest import load
from test_gpu import fakes, in_child  # noqa: F401

import tptrace

NONE, WARMUP, RECORD, SAVE = tptrace.ProfilerAction
pytestmark = pytest.mark.filterwarnings("ignore:without warm-up steps")


def letters(schedule, steps):
    return "".join("-wrS"[schedule(step).value] for step in range(steps))


class Ready(list):
    """What is called when a trace is ready: keeps what it would write."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def __call__(self, trace):
        path = self.folder / f"{len(self)}.json"
        trace.write(path, format="torch")
        self.append(load(path)["traceEvents"])

    def names(self):
        """The spans of each trace, by time."""
        spans = [[e for e in events if e["ph"] == "X"] for events in self]
        return [[e["name"] for e in sorted(each, key=lambda e: (e["ts"], -e["dur"]))] for each in spans]


def steps(*numbers):
    return [f"ProfilerStep#{number}" for number in numbers]


@pytest.mark.parametrize(
    "given, expected",
    [
        ({"wait": 1, "warmup": 1, "active": 2, "repeat": 1}, "-wrS--------"),
        ({"wait": 1, "warmup": 1, "active": 2, "repeat": 2}, "-wrS-wrS----"),
        ({"wait": 1, "warmup": 1, "active": 2}, "-wrS-wrS-wrS"),
        ({"wait": 0, "warmup": 1, "active": 1, "skip_first": 3, "repeat": 2}, "---wSwS-----"),
        ({"wait": 2, "warmup": 1, "active": 1, "skip_first": 1, "skip_first_wait": 1, "repeat": 2}, "-wS--wS-----"),
        ({"wait": 0, "warmup": 0, "active": 1, "repeat": 3}, "SSS---------"),
        ({"wait": 0, "warmup": 0, "active": 3}, "rrSrrSrrSrrS"),
    ],
)
def test_schedules(given, expected):
    assert letters(tptrace.schedule(**given), 12) == expected


def test_bad_schedules():
    good = {"wait": 1, "warmup": 1, "active": 1}
    for bad in ({"wait": -1}, {"warmup": -1}, {"active": 0}, {"repeat": -1}, {"skip_first": -1}, {"active": 1.5},
                {"wait": True}, {"skip_first_wait": 2}):  # fmt: skip
        with pytest.raises(tptrace.InvalidArgumentError, match=next(iter(bad))):
            tptrace.schedule(**{**good, **bad})
    with pytest.raises(TypeError):
        tptrace.schedule(1, 1, 1)
    with pytest.raises(ValueError, match="step"):
        tptrace.schedule(**good)(-1)
    with pytest.warns(UserWarning, match="warm-up"):
        tptrace.schedule(wait=1, warmup=0, active=1)


def test_each_cycle_makes_a_trace(tmp_path):
    ready = Ready(tmp_path)
    with tptrace.Profiler(schedule=tptrace.schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=ready) as profiler:
        for step in range(11):
            assert profiler.step_num == step and len(ready) == profiler.cycle == (step >= 4) + (step >= 8)
            with tptrace.span(f"train {step}", step=step):
                pass
            profiler.step()
    assert ready.names() == [
        ["ProfilerStep#2", "train 2", "ProfilerStep#3", "train 3"], ["ProfilerStep#6", "train 6", "ProfilerStep#7", "train 7"]
    ]  # fmt: skip
    assert {e["cat"] for e in ready[0] if e["name"].startswith("ProfilerStep")} == {"user_annotation"}
    for events in ready:
        by_name = {e["name"]: e for e in events if e["ph"] == "X"}
        for number in (2, 3, 6, 7):
            if f"train {number}" in by_name:
                outer, inner = by_name[f"ProfilerStep#{number}"], by_name[f"train {number}"]
                assert outer["tid"] == inner["tid"] and outer["ts"] <= inner["ts"]
                assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
    assert tptrace.current_trace() is None


def test_cycles_without_a_pause(tmp_path):
    ready = Ready(tmp_path)
    with tptrace.Profiler(schedule=tptrace.schedule(wait=0, warmup=0, active=2), on_trace_ready=ready) as profiler:
        for _ in range(5):
            profiler.step()
    assert ready.names() == [steps(0, 1), steps(2, 3), steps(4)], "the end in the middle of a cycle gives a trace"


def recorded(schedule, gpu=False, sources=(), last=lambda trace: None):
    """The names of the spans of each trace, of a loop that calls `step` after each of its four batches."""
    names = []

    def ready(trace):
        pieces = []
        trace.write_to(pieces.append)
        events = json.loads(b"".join(pieces))["traceEvents"]
        names.append([e["name"] for e in events if e["ph"] == "X" and e["name"].startswith("ProfilerStep")])

    with tptrace.Profiler(schedule=schedule, on_trace_ready=ready, sources=sources) as profiler:
        for _ in range(4):
            with tptrace.span("train"):
                pass
            profiler.step()
        last(profiler.trace)
    return names, profiler.trace


def test_the_step_after_the_last_is_none():
    """Loops call `step` after their last batch too."""
    names, trace = recorded(None)
    assert names == [steps(0, 1, 2, 3)] and trace.counts().ops > 0
    # Nor a cycle of nothing else: the trace that was ready last is there still.
    names, trace = recorded(tptrace.schedule(wait=0, warmup=0, active=2))
    assert names == [steps(0, 1), steps(2, 3)] and trace.counts().ops > 0
    # What was recorded in it counts, also what another source adds at the end.
    names, _ = recorded(None, last=lambda trace: trace.instant("late"))
    assert names == [steps(0, 1, 2, 3, 4)]
    names, _ = recorded(tptrace.schedule(wait=0, warmup=0, active=2), last=lambda trace: trace.add_counter("c", tptrace.now_ns(), 1))
    assert names == [steps(0, 1), steps(2, 3), steps(4)]

    class Source:
        def start(self, trace):
            pass

        def stop(self, trace):
            trace.add_op("late", tptrace.now_ns(), tptrace.now_ns())

    names, _ = recorded(None, sources=[Source()])
    assert names == [steps(0, 1, 2, 3, 4)]


@pytest.mark.parametrize("left", [1, 2, 3])
def test_the_end_in_the_middle(tmp_path, left):
    ready = Ready(tmp_path)
    with pytest.raises(KeyError, match="body"):
        with tptrace.Profiler(schedule=tptrace.schedule(wait=1, warmup=1, active=2), on_trace_ready=ready) as profiler:
            for _ in range(left):
                profiler.step()
            with tptrace.span("fails"):
                raise KeyError("body")
    expected = {1: [], 2: [["ProfilerStep#2", "fails"]], 3: [["ProfilerStep#2", "ProfilerStep#3", "fails"]]}
    assert ready.names() == expected[left]
    assert tptrace.current_trace() is None


def test_without_a_schedule_all_is_recorded(tmp_path):
    ready = Ready(tmp_path)
    with tptrace.Profiler(on_trace_ready=ready, process_name="mine") as profiler:
        assert profiler.current_action is RECORD and tptrace.current_trace() is profiler.trace
        with tptrace.span("work"):
            pass
    assert ready.names() == [["work"]]
    assert "mine" in {e["args"].get("name") for e in ready[0] if e["name"] == "process_name"}
    # Without a function for it the trace is there afterwards.
    with tptrace.Profiler() as profiler:
        profiler.step()
        profiler.step()
    assert profiler.current_action is NONE
    profiler.trace.write(tmp_path / "trace.json")
    spans = [e["name"] for e in load(tmp_path / "trace.json")["traceEvents"] if e["ph"] == "X"]
    assert sorted(spans) == steps(0, 1)


def test_warm_up_is_thrown_away_and_the_next_trace_is_new(tmp_path):
    seen = []
    with tptrace.Profiler(schedule=tptrace.schedule(wait=0, warmup=2, active=1), on_trace_ready=seen.append) as profiler:
        warm = tptrace.current_trace()
        assert warm is not None and profiler.trace is None and profiler.current_action is WARMUP
        profiler.step()
        assert tptrace.current_trace() is warm
        profiler.step()
        assert tptrace.current_trace() is profiler.trace is not warm and profiler.current_action is SAVE
        with pytest.raises(tptrace.ClosedError):
            warm.counts()
        profiler.step()
    (trace,) = seen
    gone = weakref.ref(trace)
    del trace, profiler
    seen.clear()
    gc.collect()
    assert gone() is None, "nobody keeps what was handed out"


def test_spans_that_are_longer_than_a_step(tmp_path):
    """The step's end must not end them, nor the other way round."""
    ready = Ready(tmp_path)
    with tptrace.Profiler(schedule=tptrace.schedule(wait=0, warmup=1, active=2, repeat=1), on_trace_ready=ready) as profiler:
        with tptrace.span("from the warm-up on"):
            profiler.step()
            with tptrace.span("over a step"):
                profiler.step()
                with tptrace.span("inside"):
                    pass
            open_at_the_end = tptrace.span("open at the end")
            open_at_the_end.__enter__()
            profiler.step()
            open_at_the_end.__exit__(None, None, None)
    (events,) = ready
    assert sorted(ready.names()[0]) == sorted([*steps(1, 2), "over a step", "inside", "open at the end"])
    unfinished = [e["name"] for e in events if e.get("args", {}).get("unfinished")]
    assert unfinished == ["open at the end"]
    assert not [e for e in events if e["ph"] == "X" and e["dur"] < 0]


def test_a_generator_goes_through_all_cycles(tmp_path):
    """As one that makes batches: each trace has what happened in it."""
    ready = Ready(tmp_path)

    @tptrace.span("load", queue=1)
    def batches():
        yield from range(5)

    schedule = tptrace.schedule(wait=0, warmup=0, active=2)
    with tptrace.Profiler(schedule=schedule, on_trace_ready=ready) as profiler:
        for _ in batches():
            profiler.step()
    assert [names.count("load") for names in ready.names()] == [2, 2, 2]


def test_what_was_the_current_trace_comes_back():
    with tptrace.Trace() as mine:
        tptrace.set_current_trace(mine)
        try:
            with tptrace.Profiler() as profiler:
                assert tptrace.current_trace() is profiler.trace
            assert tptrace.current_trace() is mine
            with tptrace.Trace() as other, tptrace.Profiler():
                tptrace.set_current_trace(other)
            assert tptrace.current_trace() is other, "one that was set meanwhile stays"
        finally:
            tptrace.set_current_trace(None)


def test_what_the_callback_raises_comes_out_of_step(tmp_path):
    ready = Ready(tmp_path)

    def fails(trace):
        ready(trace)
        raise OSError("disk full")

    profiler = tptrace.Profiler(schedule=tptrace.schedule(wait=0, warmup=0, active=1), on_trace_ready=fails)
    profiler.start()
    for step in range(2):
        with pytest.raises(OSError, match="disk full"):
            profiler.step()
        assert profiler.step_num == step + 1
        with tptrace.span(f"after {step}"):
            pass
    with pytest.raises(OSError, match="disk full"):
        profiler.stop()
    profiler.stop()
    assert ready.names() == [["ProfilerStep#0"], ["ProfilerStep#1", "after 0"], ["ProfilerStep#2", "after 1"]]
    assert tptrace.current_trace() is None


def test_misuse():
    profiler = tptrace.Profiler()
    with pytest.raises(RuntimeError, match="start"):
        profiler.step()
    profiler.stop()
    with profiler:
        with pytest.raises(RuntimeError, match="runs already"):
            profiler.start()
        with pytest.raises(RuntimeError, match="runs already"), profiler:
            pass
        profiler.stop()
    with pytest.raises(RuntimeError, match="start"):
        profiler.step()
    # Again, from the beginning.
    with profiler:
        assert profiler.step_num == 0
        profiler.step()
    for bad in ({"schedule": 5}, {"on_trace_ready": "x"}, {"gpu": 1}, {"sampler": "yes"}):
        with pytest.raises(tptrace.InvalidArgumentError, match=next(iter(bad))):
            tptrace.Profiler(**bad)
    with pytest.raises(TypeError):
        tptrace.Profiler(no_such_option=1)
    with pytest.raises(ValueError, match="clock"):
        tptrace.Profiler(clock="sun")
    with pytest.raises(tptrace.InvalidArgumentError, match="step 0.*'record'"):
        tptrace.Profiler(schedule=lambda step: "record").start()
    odd = tptrace.Profiler(schedule=[RECORD, None].__getitem__)
    odd.start()
    with pytest.raises(tptrace.InvalidArgumentError, match="step 1"):
        odd.step()
    assert odd.step_num == 0
    odd.stop()


def test_what_users_of_torch_type(tmp_path):
    with pytest.raises(TypeError, match="Profiler takes no 'activities'.*gpu=True"):
        tptrace.Profiler(activities=[])
    with pytest.raises(TypeError, match="no 'colour'. It takes schedule, .*, journal, and of Trace process_name, .*record_bytes"):
        tptrace.Profiler(colour=1)
    path = tmp_path / "cycle.json.gz"
    schedule = tptrace.schedule(wait=0, warmup=1, active=1, repeat=1)
    with tptrace.Profiler(schedule=schedule, on_trace_ready=lambda p: p.export_chrome_trace(path)) as profiler:
        with pytest.raises(RuntimeError, match="no trace"):
            profiler.export_chrome_trace(tmp_path / "early.json")
        profiler.step()
        profiler.step()
    profiler.export_chrome_trace(str(tmp_path / "after.json"))
    assert path.read_bytes()[:2] == b"\x1f\x8b" and load(path)["schemaVersion"] == 1
    for made in (path, tmp_path / "after.json"):
        assert [e["name"] for e in load(made)["traceEvents"] if e["ph"] == "X"] == steps(1)


def test_odd_schedules_lose_nothing(tmp_path):
    ready = Ready(tmp_path)
    actions = [RECORD, NONE, WARMUP, NONE, RECORD, WARMUP, SAVE, SAVE]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with tptrace.Profiler(schedule=actions.__getitem__, on_trace_ready=ready) as profiler:
            for _ in actions[1:]:
                profiler.step()
            tptrace.instant("in the last")
    assert ready.names() == [steps(0), steps(4), steps(6), steps(7)]
    assert [re.search(r"step (\d+): (\w+ is followed by \w+)", str(one.message)).groups() for one in said] == [
        ("1", "RECORD is followed by NONE"), ("3", "WARMUP is followed by NONE"), ("5", "RECORD is followed by WARMUP")
    ]  # fmt: skip


def test_the_sampler_of_some_cycles(tmp_path):
    counts = []

    def ready(trace):
        counts.append(trace.counts().samples)

    def until_seen():
        while profiler.cycle == 1 and tptrace.current_trace().counts().samples < 3:
            time.sleep(0.001)

    schedule = tptrace.schedule(wait=0, warmup=1, active=1, repeat=3)
    sampler = lambda cycle: {"period_ms": 1} if cycle == 1 else False  # noqa: E731
    with tptrace.Profiler(schedule=schedule, on_trace_ready=ready, sampler=sampler) as profiler:
        for _ in range(6):
            until_seen()
            profiler.step()
    assert counts[0] == counts[2] == 0 and counts[1] >= 3
    assert not [thread for thread in threading.enumerate() if thread.name == "tptrace sampler"]


def test_sources(tmp_path):
    said = []

    class Source:
        def __init__(self, name, fails=""):
            self.name, self.fails = name, fails

        def start(self, trace):
            said.append(f"{self.name} starts")
            if self.fails == "start":
                raise OSError(self.name)

        def stop(self, trace):
            said.append(f"{self.name} stops")
            trace.add_op(f"op of {self.name}", tptrace.now_ns(), tptrace.now_ns() + 10)
            if self.fails == "stop":
                raise OSError(self.name)

    ready = Ready(tmp_path)
    schedule = tptrace.schedule(wait=1, warmup=1, active=1, repeat=1)
    with tptrace.Profiler(schedule=schedule, on_trace_ready=ready, sources=[Source("a"), Source("b")]) as profiler:
        for _ in range(3):
            profiler.step()
    assert said == ["a starts", "b starts", "b stops", "a stops"] * 2
    assert sorted(ready.names()[0]) == ["ProfilerStep#2", "op of a", "op of b"]
    # One that cannot start ends those before it; one that cannot stop costs no trace.
    said.clear()
    with pytest.raises(OSError, match="b"):
        tptrace.Profiler(sources=[Source("a"), Source("b", "start")]).start()
    assert said == ["a starts", "b starts", "a stops"] and tptrace.current_trace() is None
    ready.clear()
    with pytest.raises(OSError, match="b"):
        with tptrace.Profiler(on_trace_ready=ready, sources=[Source("a"), Source("b", "stop")]):
            pass
    assert sorted(ready.names()[0]) == ["op of a", "op of b"]


def test_without_a_gpu_it_goes_on(tmp_path):
    ready = Ready(tmp_path)
    schedule = tptrace.schedule(wait=0, warmup=1, active=1, repeat=2)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with tptrace.Profiler(schedule=schedule, on_trace_ready=ready, gpu={"libcuda": "/nowhere/libcuda.so.1"}) as profiler:
            for _ in range(4):
                profiler.step()
    assert [one.category for one in said] == [tptrace.GpuWarning] and "/nowhere/libcuda.so.1" in str(said[0].message)
    assert isinstance(profiler.gpu_error, tptrace.GpuUnavailableError) and profiler.gpu_report is None
    assert ready.names() == [steps(1), steps(3)]


def test_gpu_work_of_each_cycle(fakes, tmp_path):  # noqa: F811
    out = in_child(
        "import ctypes, os\n"
        "cupti = ctypes.CDLL(os.environ['TP_LIBCUPTI'])\n"
        "name = ctypes.create_string_buffer(b'kernel')\n"
        f"handler = tptrace.trace_handler({str(tmp_path)!r}, 'worker')\n"
        "def ready(trace):\n"
        "    handler(trace)\n"
        "    print(trace.counts().gpu_activities, profiler.gpu_report.kernels)\n"
        "schedule = tptrace.schedule(wait=1, warmup=1, active=2, repeat=2)\n"
        "gpu = lambda cycle: {'kinds': ['kernel']} if cycle else True\n"
        "with tptrace.Profiler(schedule=schedule, on_trace_ready=ready, gpu=gpu) as profiler:\n"
        "    for _ in range(9):\n"
        "        with tptrace.span('linear', category='cpu_op'):\n"
        "            cupti.fake_launch(name, 1, 7, 0)\n"
        "        profiler.step()\n"
        "print(profiler.gpu_error)\n",
        fakes,
    )
    # Kernels with their calls, then kernels alone, of two steps each.
    assert out.split() == ["4", "2", "2", "2", "None"]
    first, second = (load(path)["traceEvents"] for path in sorted(tmp_path.iterdir()))
    for events in (first, second):
        assert len([e for e in events if e.get("cat") == "kernel"]) == 2


def test_files_for_tensorboard(tmp_path, monkeypatch):
    folder = tmp_path / "logs" / "run"
    with tptrace.Profiler(on_trace_ready=tptrace.trace_handler(folder)):
        pass
    (plain,) = folder.iterdir()
    # The plugin's own pattern.
    pattern = re.compile(r"^(.*?)(\.\d+)?\.pt\.trace\.json(?:\.gz)?$")
    assert re.fullmatch(r"\S+_\d+", pattern.match(plain.name)[1]) and plain.name.endswith(".gz")
    assert "distributedInfo" not in load(plain)
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    schedule = tptrace.schedule(wait=0, warmup=0, active=1, repeat=2)
    with tptrace.Profiler(schedule=schedule, on_trace_ready=tptrace.trace_handler(folder, compression="gzip", level=9)) as profiler:
        profiler.step()
        profiler.step()
    made = sorted(set(folder.iterdir()) - {plain})
    assert len(made) == 2 and all(path.name.startswith("rank-3_") for path in made)
    assert load(made[0])["distributedInfo"]["rank"] == 3
    with tptrace.Profiler(on_trace_ready=tptrace.trace_handler(folder, "mine", use_gzip=False)):
        pass
    (own,) = folder.glob("mine.*.pt.trace.json")
    assert own.read_bytes()[:1] == b"{"
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(OSError), tptrace.Profiler(on_trace_ready=tptrace.trace_handler(blocked)):
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_child_of_a_fork_does_nothing(tmp_path):
    ready = Ready(tmp_path)
    with tptrace.Profiler(
        schedule=tptrace.schedule(wait=0, warmup=1, active=2), on_trace_ready=ready, sampler={"period_ms": 1}
    ) as profiler:
        profiler.step()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with tptrace.span("in the child"):
                    profiler.step()
                profiler.step()
                profiler.stop()
                # One of its own.
                with tptrace.Profiler(on_trace_ready=lambda trace: trace.write(tmp_path / "child.json")) as own:
                    own.step()
                code = 0 if not ready else 2
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        profiler.step()
        tptrace.instant("in the last")
    assert ready.names() == [steps(1, 2)]
    assert "ProfilerStep#0" in (tmp_path / "child.json").read_text()


def test_the_schedules_of_tensorplay():
    theirs = pytest.importorskip("tensorplay.profiler", reason="TensorPlay is not installed")
    given = {"wait": 1, "warmup": 1, "active": 2, "repeat": 2, "skip_first": 1}
    ours = tptrace.schedule(**given)
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with tptrace.Profiler(schedule=theirs.schedule(**given), on_trace_ready=seen.append) as profiler:
            for step in range(12):
                # Theirs does not tell the last step of a cycle.
                assert ours(step) is profiler.current_action or (ours(step), profiler.current_action) == (SAVE, RECORD)
                profiler.step()
    assert len(seen) == 2
