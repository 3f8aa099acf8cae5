"""Spans that are recorded live."""

from __future__ import annotations

import asyncio
import copy
import decimal
import json
import os
import pickle
import threading

import numpy
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


def test_arguments_that_are_numbers_in_other_clothes(tmp_path):
    class Whole:
        def __index__(self):
            return 7

    class Odd:
        def __index__(self):
            raise RuntimeError("none")

        def __str__(self):
            return "odd"

    given = {
        "int64": numpy.int64(-3), "uint64": numpy.uint64((1 << 64) - 1), "float32": numpy.float32(0.5), "flag": numpy.bool_(True),
        "float64": numpy.float64(1.5), "one": numpy.array([4]), "many": numpy.array([1, 2]), "whole": Whole(), "odd": Odd(),
        "decimal": decimal.Decimal("2.5"), "name": "x", "self": 1,
    }  # fmt: skip
    with tptrace.Trace() as trace:
        tptrace.set_current_trace(trace)
        try:
            with trace.span("step", **given), tptrace.span("current", **given):
                pass
        finally:
            tptrace.set_current_trace(None)
        document = written(trace, tmp_path)
    expected = {
        "int64": -3, "uint64": (1 << 64) - 1, "float32": 0.5, "flag": True, "float64": 1.5, "many": "[1 2]", "whole": 7,
        "odd": "odd", "decimal": 2.5, "name": "x", "self": 1,
    }  # fmt: skip
    for name in ("step", "current"):
        (span,) = slices(document, name)
        found = {key: span["args"][key] for key in expected}
        assert found == expected and {key: type(value) for key, value in found.items()} == {
            key: type(value) for key, value in expected.items()
        }


def test_counters_that_are_too_large():
    with tptrace.Trace() as trace:
        with pytest.raises(ValueError, match=r"between -1\.8e308 and 1\.8e308"):
            trace.counter("c", 10**400)
        with pytest.raises(TypeError, match="number, not str"):
            trace.counter("c", "3")
        trace.counter("c", numpy.float32(2))


def test_flight_recorders_that_are_none():
    with pytest.raises(tptrace.InvalidArgumentError, match="keep_recent.*record_bytes=64 << 20"):
        tptrace.Trace(keep_recent=True)
    for keep in (False, True):
        with pytest.raises(tptrace.InvalidArgumentError, match="record_bytes is 1000.*65536"):
            tptrace.Trace(record_bytes=1000, keep_recent=keep)
        # The least of them keeps something.
        with tptrace.Trace(record_bytes=65536, keep_recent=keep) as trace:
            for number in range(5000):
                with trace.span("step", number=number):
                    pass
            pieces = []
            trace.write_to(pieces.append)
            kept = [e["args"].get("number") for e in slices(json.loads(b"".join(pieces)))]
            assert len(kept) > 50 and (max(filter(None, kept)) == 4999) == keep


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


class Silent:
    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __str__(self) -> str:
        raise self.error("no text")


def test_arguments_that_have_no_text(tmp_path):
    async def waits():
        with trace.span("async", value=Silent(ValueError)):
            pass

    with tptrace.Trace() as trace:
        with trace.span("block", value=Silent(ValueError)) as span:
            span.arg("later", Silent(RuntimeError))
        trace.span("function", value=Silent(ValueError))(len)([])
        asyncio.run(waits())
        # What ends the program comes out, and leaves no span open.
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                with trace.span("interrupted", value=Silent(KeyboardInterrupt)):
                    pass
            with pytest.raises(KeyboardInterrupt):
                trace.span("interrupted", value=Silent(KeyboardInterrupt))(len)([])
        found = slices(written(trace, tmp_path))
    told = {e["name"]: e["args"] for e in found}
    assert told["block"] == {"value": "<Silent without str()>", "later": "<Silent without str()>"}
    assert told["function"] == {"value": "<Silent without str()>"}
    assert not any("unfinished" in e.get("args", {}) for e in found)


def test_copies(tmp_path):
    with tptrace.Trace() as trace:
        for one in (trace, tptrace.Sampler(trace), tptrace.Profiler()):
            for take in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError, match="cannot be copied or pickled"):
                    take(one)
        tptrace.set_current_trace(trace)
        for span in (trace.span("named", k=1), tptrace.span("current", k=1)):
            for one in (span, copy.copy(span), copy.deepcopy([span])[0]):
                with one:
                    pass
            with pytest.raises(TypeError, match="cannot be pickled"):
                pickle.dumps(span)
        tptrace.set_current_trace(None)
        found = slices(written(trace, tmp_path))
    assert [(e["name"], e["args"]["k"]) for e in found] == [("named", 1)] * 3 + [("current", 1)] * 3
