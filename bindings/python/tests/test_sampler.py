"""The sampler of all threads' stacks. No test asserts how often it looks: they wait until it has."""

from __future__ import annotations

import _thread
import collections
import os
import subprocess
import sys
import threading
import time
import warnings

import pytest
from conftest import load

import tptrace


def samples(document):
    return [e for e in document["traceEvents"] if e.get("cat") == "python_function"]


def written(trace, tmp_path):
    trace.write(tmp_path / "trace.json")
    return load(tmp_path / "trace.json")


def wait_for(sampler, ticks=3):
    before = sampler.counts().ticks
    while sampler.counts().ticks < before + ticks:
        assert sampler.running
        time.sleep(0.001)


def parked(go_on, started):
    started.set()
    go_on.wait()


class Parked:
    """A thread that waits in `parked`, `deep` calls down."""

    def __init__(self, name, deep=0):
        self.go_on, started = threading.Event(), threading.Event()

        def down(left):
            down(left - 1) if left else parked(self.go_on, started)

        self.thread = threading.Thread(target=down, args=(deep,), name=name)
        self.thread.start()
        started.wait()

    def __enter__(self):
        return self.thread

    def __exit__(self, *_):
        self.go_on.set()
        self.thread.join()


def test_stacks_of_all_threads_under_their_names(tmp_path):
    with tptrace.Trace() as trace:
        with Parked("the first") as first, tptrace.Sampler(trace, 1) as sampler:
            with Parked("the second") as second:
                assert sampler.running and sampler.period_ms == 1
                wait_for(sampler)
            # One that ends is no reason to stop, and keeps its name.
            wait_for(sampler)
        assert not sampler.running
        counts = sampler.counts()
        document = written(trace, tmp_path)
        assert trace.counts().samples == counts.samples
    found = samples(document)
    assert counts.samples == len(found) >= 3 * 3 and (counts.dropped, counts.cut) == (0, 0)
    assert document["sampler"] == {"period_ms": 1, **counts._asdict()}
    names = {e["tid"]: e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"}
    by_thread = collections.Counter(names[e["tid"]] for e in found)
    assert set(by_thread) == {"MainThread", "the first", "the second"}, "not its own"
    assert by_thread["the second"] < by_thread["the first"]
    for name in ("the first", "the second"):
        stacks = [e["args"]["stack"] for e in found if names[e["tid"]] == name]
        # Some looks may find it on its way.
        line = parked.__code__.co_firstlineno + 2
        stack = next(stack for stack in stacks if f"{__file__}:{line} (parked)" in stack)
        functions = [frame.rpartition(" ")[2] for frame in stack]
        assert functions[functions.index("(parked)") :] == ["(parked)", "(down)", "(run)", "(_bootstrap_inner)", "(_bootstrap)"]
        assert found[0]["name"] == found[0]["args"]["stack"][0]
    assert first.native_id != second.native_id
    assert {e["ph"] for e in found} == {"i"}


def test_the_times_are_those_of_the_trace(tmp_path):
    for clock in ("monotonic", "realtime", "unknown"):
        with tptrace.Trace(base_ns=0, clock=clock) as trace, tptrace.Sampler(trace, 1) as sampler:
            with trace.span("while it looks"):
                wait_for(sampler, 5)
            sampler.stop()
            document = written(trace, tmp_path)
        (span,) = [e for e in document["traceEvents"] if e["name"] == "while it looks"]
        # The last look may have been after the span.
        inside = [e for e in samples(document) if span["ts"] <= e["ts"] <= span["ts"] + span["dur"]]
        assert len(inside) >= 3


def test_their_thread_is_the_systems(tmp_path):
    """Spans and samples of a thread have lanes of the same name, since both have the system's number for it."""
    with tptrace.Trace() as trace:
        trace.set_thread_name(threading.get_native_id(), "given")
        with tptrace.Sampler(trace, 1) as sampler, trace.span("here"):
            wait_for(sampler)
        document = written(trace, tmp_path)
    names = {e["tid"]: e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"}
    (span,) = [e for e in document["traceEvents"] if e["name"] == "here"]
    assert {names[e["tid"]] for e in samples(document)} == {names[span["tid"]]} == {"given"}


def test_threads_that_python_does_not_know(tmp_path):
    go_on, started, ended = threading.Event(), threading.Event(), threading.Event()

    def run():
        parked(go_on, started)
        ended.set()

    with tptrace.Trace() as trace, tptrace.Sampler(trace, 1) as sampler:
        ident = _thread.start_new_thread(run, ())
        started.wait()
        wait_for(sampler, 4)
        go_on.set()
        ended.wait()
        sampler.stop()
        document = written(trace, tmp_path)
    names = {e["tid"]: e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"}
    assert f"thread {ident}" in {names[e["tid"]] for e in samples(document)}


def test_depth_and_number_are_bounded(tmp_path):
    with tptrace.Trace() as trace, Parked("deep", 200):
        with tptrace.Sampler(trace, 1, max_depth=10, max_samples=7) as sampler:
            while sampler.counts().dropped < 5:
                time.sleep(0.001)
        counts = sampler.counts()
        document = written(trace, tmp_path)
    assert counts.samples == 7 and counts.cut >= 3
    assert document["sampler"]["dropped"] == counts.dropped >= 5
    stacks = [e["args"]["stack"] for e in samples(document)]
    assert len(stacks) == 7 and max(map(len, stacks)) == 10
    assert any("(parked)" in frame for stack in stacks for frame in stack), "the innermost are kept"


def test_code_that_is_made_as_it_runs_does_not_pile_up(monkeypatch):
    monkeypatch.setattr(tptrace._sampler, "_MOST_CODES", 50)
    with tptrace.Trace() as trace, tptrace.Sampler(trace, 0.1) as sampler:
        for number in range(100_000):
            made = {}
            exec(f"def f{number}(wait): wait(0.0002)", made)
            made[f"f{number}"](time.sleep)
            if sampler.counts().ticks > 150:
                break
        assert 0 < len(sampler._codes) <= 50


def test_locals_are_not_kept(tmp_path):
    import gc
    import weakref

    class Big:
        pass

    def holds():
        big = Big()
        wait_for(sampler)
        return weakref.ref(big)

    with tptrace.Trace() as trace, tptrace.Sampler(trace, 1) as sampler:
        gone = holds()
        gc.collect()
        wait_for(sampler, 1)
        assert gone() is None


def test_starting_and_stopping(tmp_path):
    with tptrace.Trace() as trace:
        sampler = tptrace.Sampler(trace, 1)
        sampler.stop()
        sampler.start()
        thread = sampler._thread
        sampler.start()
        assert sampler._thread is thread
        wait_for(sampler)
        sampler.stop()
        sampler.stop()
        ticks = sampler.counts().ticks
        time.sleep(0.01)
        assert sampler.counts().ticks == ticks and not thread.is_alive()
        sampler.start()
        wait_for(sampler)
        # Two at a time do not see each other.
        with tptrace.Sampler(trace, 1) as other:
            wait_for(other)
            wait_for(sampler)
    # The trace is closed: it ends by itself.
    while sampler.running:
        time.sleep(0.001)
    sampler.stop()


def test_a_trace_that_is_closed():
    trace = tptrace.Trace()
    sampler = tptrace.Sampler(trace)
    trace.close()
    with pytest.raises(tptrace.ClosedError):
        sampler.start()
    assert not sampler.running


def test_two_tell_of_both(tmp_path):
    with tptrace.Trace() as trace:
        samplers = [tptrace.Sampler(trace, 2), tptrace.Sampler(trace, 1)]
        for sampler in samplers:
            with sampler:
                while sampler.counts().samples < 3:
                    time.sleep(0.001)
        trace.write(tmp_path / "trace.json")
        told = load(tmp_path / "trace.json")["sampler"]
        each = [{"period_ms": sampler.period_ms, **sampler.counts()._asdict()} for sampler in samplers]
        assert told["samplers"] == each and told["period_ms"] == 1
        assert told["samples"] == trace.counts().samples == sum(one["samples"] for one in each)


def test_it_goes_on_while_a_trace_is_written(tmp_path):
    pieces = []
    with tptrace.Trace() as trace, tptrace.Sampler(trace, 1) as sampler:
        wait_for(sampler)

        def take(piece):
            wait_for(sampler, 2)
            pieces.append(piece)

        trace.write_to(take)
    assert b"python_function" in b"".join(pieces)


def test_a_write_has_all_that_was_taken(tmp_path):
    """Also what is not yet enough to be handed over, and while it runs."""
    with tptrace.Trace() as trace, tptrace.Sampler(trace, 1) as sampler:
        wait_for(sampler)
        before = sampler.counts().samples
        assert before < tptrace._sampler._BATCH
        document = written(trace, tmp_path)
        assert len(samples(document)) >= before
        assert trace.counts().samples >= before
        trace.write_to(bytearray().extend)
        # More than are handed over at a time.
        while sampler.counts().samples < 2 * tptrace._sampler._BATCH:
            time.sleep(0.001)
        sampler.stop()
        assert trace.counts().samples == sampler.counts().samples


def test_what_fails_in_it_comes_out_of_stop(monkeypatch):
    with tptrace.Trace() as trace:
        sampler = tptrace.Sampler(trace, 1)
        monkeypatch.setattr(sampler, "_chain", lambda frame: 1 / 0)
        sampler.start()
        while sampler.running:
            time.sleep(0.001)
        with pytest.raises(ZeroDivisionError):
            sampler.stop()
        sampler.stop()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_fork(tmp_path):
    with tptrace.Trace() as trace, tptrace.Sampler(trace, 0.2) as sampler:
        for _ in range(20):
            wait_for(sampler, 1)
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    assert not sampler.running
                    sampler.stop()
                    with tptrace.Trace() as own, tptrace.Sampler(own, 0.2) as mine:
                        wait_for(mine, 2)
                    try:
                        trace.counts()
                    except tptrace.ForkedError:
                        code = 0 if mine.counts().samples >= 2 else 2
                finally:
                    os._exit(code)
            assert os.waitpid(child, 0)[1] == 0
            wait_for(sampler, 1)
        # Not with the lock held, or the sampler at rest.
        sampler.stop()
        sampler.start()
        wait_for(sampler)


@pytest.mark.parametrize("ending", ["pass", "sys.exit(3)", "raise KeyError", "trace.close()", "threading.Thread(target=time.sleep, args=(0.2,)).start()"])
def test_the_end_of_the_interpreter(ending):
    program = (
        "import sys, threading, time, tptrace\n"
        "trace = tptrace.Trace()\n"
        "sampler = tptrace.Sampler(trace, 0.1)\n"
        "sampler.start()\n"
        "while sampler.counts().ticks < 3: time.sleep(0.001)\n"
        f"{ending}\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == {"sys.exit(3)": 3, "raise KeyError": 1}.get(ending, 0), done.stderr
    assert "KeyError" in done.stderr if ending == "raise KeyError" else done.stderr == ""


def test_the_period_of_the_environment(monkeypatch):
    monkeypatch.delenv("TP_PROFILER_SAMPLE_MS", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tptrace.sample_period_ms() == 5
        for text, period in (("", 5), ("2", 2), (" 0.5 ", 0.5), ("1e1", 10)):
            monkeypatch.setenv("TP_PROFILER_SAMPLE_MS", text)
            assert tptrace.sample_period_ms() == period
    for text in ("x", "0", "-1", "nan", "inf", "1e300", "5ms"):
        monkeypatch.setenv("TP_PROFILER_SAMPLE_MS", text)
        with pytest.warns(RuntimeWarning, match=f"TP_PROFILER_SAMPLE_MS is '{text}'"):
            assert tptrace.sample_period_ms() == 5
    monkeypatch.setenv("TP_PROFILER_SAMPLE_MS", "3")
    with tptrace.Trace() as trace:
        assert tptrace.Sampler(trace).period_ms == 3 and tptrace.Sampler(trace, 4).period_ms == 4


@pytest.mark.parametrize(
    "given",
    [{"period_ms": 0}, {"period_ms": -1}, {"period_ms": float("nan")}, {"period_ms": "5"}, {"period_ms": True},
     {"max_depth": 0}, {"max_depth": 1.5}, {"max_samples": -1}],
)  # fmt: skip
def test_bad_arguments(given):
    with tptrace.Trace() as trace, pytest.raises(tptrace.InvalidArgumentError, match=next(iter(given))):
        tptrace.Sampler(trace, **given)
    with pytest.raises(tptrace.InvalidArgumentError, match="trace"):
        tptrace.Sampler(None)


def test_the_same_period_as_tensorplay(monkeypatch):
    theirs = pytest.importorskip("tensorplay.profiler.python_tracer", reason="TensorPlay is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for text in ("", "2", " 0.5 ", "x", "0", "-1", "nan", "7.25"):
            monkeypatch.setenv("TP_PROFILER_SAMPLE_MS", text)
            assert tptrace.sample_period_ms() == theirs.sample_interval_ms()


INTERPRETERS = """
import time, warnings
warnings.simplefilter("always")
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
import tptrace
with tptrace.Trace() as trace, tptrace.Sampler(trace, period_ms=0.1) as sampler:
    for _ in range(15):
        other = interpreters.create()
        interpreters.run_string(other, "sum(range(10_000))")
        interpreters.destroy(other)
    before = sampler.counts().samples
    while sampler.counts().samples == before:
        time.sleep(0.001)
"""


def test_it_rests_while_there_is_another_interpreter():
    pytest.importorskip("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    ran = subprocess.run([sys.executable, "-c", INTERPRETERS], capture_output=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    # Those of before 3.12 share one lock, which is enough.
    assert sys.version_info >= (3, 12) or b"rests" not in ran.stderr
