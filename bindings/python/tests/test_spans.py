"""Spans that are recorded live."""

from __future__ import annotations

import asyncio
import json
import os
import threading

import pytest
from conftest import load

import tptrace


def slices(document, name=None):
    return [e for e in document["traceEvents"] if e["ph"] == "X" and name in (None, e["name"])]


def written(trace, tmp_path):
    trace.write(tmp_path / "trace.json")
    return load(tmp_path / "trace.json")


def test_a_span_as_context_manager_and_decorator(tmp_path):
    with tptrace.Trace() as trace:

        @trace.span("fib", category="math")
        def fib(n):
            return n if n < 2 else fib(n - 1) + fib(n - 2)

        with trace.span("step", batch=3, lr=0.5, mode="train", last=True, big=1 << 70, none=None) as step:
            assert fib(5) == 5
            step.arg("late", -1)
        with pytest.raises(KeyError), trace.span("fails"):
            raise KeyError
        document = written(trace, tmp_path)
        assert trace.counts().record_unmatched == 0
    (step,) = slices(document, "step")
    expected = {"batch": 3, "lr": 0.5, "mode": "train", "last": True, "big": str(1 << 70), "none": "None", "late": -1}
    assert {key: step["args"][key] for key in expected} == expected
    assert len(slices(document, "fib")) == 15 and slices(document, "fib")[0]["cat"] == "math"
    assert len(slices(document, "fails")) == 1
    assert fib.__name__ == "fib" and fib(3) == 2, "of a closed trace it is nothing"


def test_the_current_trace(tmp_path):
    with tptrace.span("of none", n=1):
        tptrace.instant("of none")
        tptrace.counter("of none", 1)
    with tptrace.Trace() as trace:
        tptrace.set_current_trace(trace)
        try:
            with tptrace.span("step"):
                tptrace.instant("mark")
                tptrace.counter("queue", 2.5)
                trace.record_flow("start", "hand over", 1)

            def other():
                with tptrace.span("on another thread"):
                    trace.record_flow("end", "hand over", 1)

            done, go_on = threading.Event(), threading.Event()
            thread = threading.Thread(target=lambda: (other(), done.set(), go_on.wait()), name="the other")
            thread.start()
            done.wait()
        finally:
            tptrace.set_current_trace(None)
        document = written(trace, tmp_path)
        go_on.set()
        thread.join()
    assert not [e for e in document["traceEvents"] if e["name"] == "of none"]
    (step,), (far,) = slices(document, "step"), slices(document, "on another thread")
    assert step["tid"] != far["tid"]
    names = {e["tid"]: e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"}
    assert (names[step["tid"]], names[far["tid"]]) == ("MainThread", "the other")
    assert {e["ph"] for e in document["traceEvents"]} >= {"X", "i", "C", "s", "f"}


def test_what_is_added_without_a_thread_is_on_the_lane_of_its_spans(tmp_path):
    with tptrace.Trace() as trace:
        with trace.span("step"):
            now = tptrace.now_ns()
            trace.add_op("op", now, now + 1)
            trace.add_instant("instant", now)
            trace.add_memory(now, 1, 64, allocated=True)
        for format in ("plain", "torch"):
            document = load(trace.write(tmp_path / "trace.json", format=format))
            found = [e for e in document["traceEvents"] if e.get("name") in ("step", "op", "instant", "[memory]")]
            assert len(found) == 4 and len({(e["pid"], e["tid"]) for e in found}) == 1, found
            lane = found[0]["tid"]
            names = {e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name" and e["tid"] == lane}
            assert names == {threading.current_thread().name}


def test_async_functions_overlap(tmp_path):
    with tptrace.Trace() as trace:

        @trace.span("request")
        async def request(n):
            await asyncio.sleep(0.001 * n)
            return n

        async def all_of_them():
            return await asyncio.gather(*(request(n) for n in range(3)))

        assert asyncio.run(all_of_them()) == [0, 1, 2]
        document = written(trace, tmp_path)
    begins = [e["id"] for e in document["traceEvents"] if e["ph"] == "b"]
    ends = [e["id"] for e in document["traceEvents"] if e["ph"] == "e"]
    assert len(set(begins)) == 3 and sorted(begins) == sorted(ends)


def test_categories_and_limits(tmp_path):
    with tptrace.Trace(record_bytes=1 << 20, keep_recent=True) as trace:
        tptrace.enable_category("noise", False)
        for number in range(30_000):
            with trace.span("noisy", category="noise"), trace.span("step", n=number):
                pass
        tptrace.enable_category("noise")
        document = written(trace, tmp_path)
        counts = trace.counts()
    numbers = [e["args"]["n"] for e in slices(document, "step")]
    assert numbers[-1] == 29_999 and 5_000 < len(numbers) < 30_000 and not slices(document, "noisy")
    assert counts.record_overwritten > 0 and counts.record_dropped == 0


def test_a_child_of_a_fork_records_into_its_own(tmp_path):
    with tptrace.Trace() as trace, trace.span("parent"):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with trace.span("nothing"):
                    pass
                with tptrace.Trace() as own:
                    with own.span("child"):
                        pass
                    code = 0 if len(slices(written(own, tmp_path))) == 1 else 2
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0


def test_what_is_no_name():
    with tptrace.Trace() as trace:
        with pytest.raises(TypeError):
            trace.span(5)
        with pytest.raises(TypeError, match=r'@span\("step"\)'):

            @trace.span
            def step():
                pass

        with pytest.raises(TypeError, match="value must be a number, not str"):
            trace.counter("x", "7")
        with pytest.raises(ValueError):
            trace.record_flow("middle", "x", 1)
        json.dumps(trace.counts()._asdict())
