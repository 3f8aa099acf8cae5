"""Spans of code that is suspended: async functions, generators, and blocks inside them."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import gc
import inspect
import itertools
import threading
import weakref

import pytest
from conftest import load

import tptrace


def written(trace, tmp_path):
    assert trace.counts().record_unmatched == 0
    trace.write(tmp_path / "trace.json")
    return load(tmp_path / "trace.json")["traceEvents"]


def slices(events, name=None):
    return [e for e in events if e["ph"] == "X" and name in (None, e["name"])]


def rows(events):
    """Async spans by the category and id of their row: (name, begin, end). Those of a row must nest."""
    found, open_of = {}, {}
    # Events of one instant keep their order.
    for event in sorted((e for e in events if e["ph"] in "be"), key=lambda e: e["ts"]):
        key = event["cat"], event["id"]
        stack = open_of.setdefault(key, [])
        if event["ph"] == "b":
            stack.append((event["name"], event["ts"]))
        else:
            name, start = stack.pop()
            assert name == event["name"], "spans of one row must nest"
            found.setdefault(key, []).append((name, start, event["ts"]))
    assert not any(open_of.values())
    return found


def nests(events):
    """Whether the slices of each thread nest."""
    for tid in {e["tid"] for e in slices(events)}:
        ends = []
        for event in sorted((e for e in slices(events) if e["tid"] == tid), key=lambda e: (e["ts"], -e["dur"])):
            while ends and ends[-1] <= event["ts"]:
                ends.pop()
            if ends and event["ts"] + event["dur"] > ends[-1] + 0.0011:
                return False
            ends.append(event["ts"] + event["dur"])
    return True


def test_tasks_that_take_turns(tmp_path):
    with tptrace.Trace() as trace:

        @trace.span("inner")
        async def inner():
            await asyncio.sleep(0)

        @trace.span("request", category="rpc", kind="get")
        async def request(number):
            for _ in range(number):
                with trace.span("block", turn=number) as block:
                    await inner()
                    block.arg("late", 1)
                async with trace.span("async block"):
                    await asyncio.sleep(0)
                with trace.span("compute"):
                    helper()
            return number

        @trace.span("helper")
        def helper():
            pass

        async def all_of_them():
            with trace.span("all"):
                return await asyncio.gather(*(request(n) for n in (3, 1, 2)))

        assert asyncio.run(all_of_them()) == [3, 1, 2]
        events = written(trace, tmp_path)
    assert nests(events)
    found = rows(events)
    # A row for each request; what it awaits is in one of the same id, of its own category.
    requests = {id: row for (category, id), row in found.items() if category == "rpc"}
    others = {id: row for (category, id), row in found.items() if category != "rpc"}
    assert len(requests) == 3 and [n for n, *_ in others.pop((set(others) - set(requests)).pop())] == ["all"]
    for id, [(_, start, end)] in requests.items():
        assert all(start <= begun and ended <= end for _, begun, ended in others[id])
    assert sorted([n for n, *_ in row].count("block") for row in others.values()) == [1, 2, 3]
    assert all([n for n, *_ in row].count("inner") == len(row) // 4 for row in others.values())
    assert [e["args"]["kind"] for e in slices(events, "request") if "kind" in e["args"]] == ["get"] * 3
    assert sorted(e["args"]["turn"] for e in slices(events, "block") if "turn" in e["args"]) == [1, 2, 2, 3, 3, 3]
    assert len([e for e in slices(events, "block") if e["args"].get("late") == 1]) == 6
    assert len(slices(events, "helper")) == 6
    # The function in a coroutine runs inside a slice of the task that called it.
    for helped in slices(events, "helper"):
        assert any(r["ts"] <= helped["ts"] and helped["ts"] + helped["dur"] <= r["ts"] + r["dur"] for r in slices(events, "request"))


def test_a_child_task_has_a_row_of_its_own(tmp_path):
    with tptrace.Trace() as trace:

        @trace.span("child")
        async def child(event):
            await event.wait()

        async def main():
            event = asyncio.Event()
            async with trace.span("parent"):
                task = asyncio.create_task(child(event))
                await asyncio.sleep(0)
            event.set()
            await task

        asyncio.run(main())
        events = written(trace, tmp_path)
    assert sorted([name for name, *_ in row] for row in rows(events).values()) == [["child"], ["parent"]]


def test_exceptions_and_cancelling(tmp_path):
    with tptrace.Trace() as trace:

        @trace.span("fails")
        async def fails():
            await asyncio.sleep(0)
            raise KeyError("why")

        @trace.span("waits")
        async def waits():
            try:
                await asyncio.sleep(60)
            finally:
                with trace.span("cleans up"):
                    await asyncio.sleep(0)

        async def main():
            with pytest.raises(KeyError, match="why"):
                await fails()
            task = asyncio.create_task(waits())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(ZeroDivisionError), trace.span("block"):
                await asyncio.sleep(0)
                raise ZeroDivisionError

        asyncio.run(main())
        events = written(trace, tmp_path)
    assert nests(events)
    assert {name for row in rows(events).values() for name, *_ in row} == {"fails", "waits", "cleans up", "block"}


def test_generators(tmp_path):
    with tptrace.Trace() as trace:

        @trace.span("numbers", upto=3)
        def numbers():
            got = yield 1
            try:
                yield got * 2
            except KeyError:
                yield "caught"
            return "done"

        made = numbers()
        assert inspect.isgenerator(made)
        assert next(made) == 1 and made.send(21) == 42 and made.throw(KeyError()) == "caught"
        with pytest.raises(StopIteration) as stop:
            next(made)
        assert stop.value.value == "done"

        closed = []

        @trace.span("closes")
        def closes():
            try:
                yield
            finally:
                closed.append(True)

        left = closes()
        next(left)
        left.close()
        assert closed == [True]
        del left
        # Two that take turns, with a block around their yield.
        def turns(name):
            for _ in range(3):
                with trace.span(name):
                    yield

        with trace.span("consumer"):
            for _ in zip(turns("a"), turns("b")):
                with trace.span("between"):
                    pass
        events = written(trace, tmp_path)
    assert nests(events)
    pieces = slices(events, "numbers")
    assert [e["args"].get("upto") for e in pieces] == [3, None, None, None]
    assert len(slices(events, "closes")) == 2
    assert sorted(row[0][0] for row in rows(events).values()) == ["a"] * 3 + ["b"] * 3
    assert len(slices(events, "between")) == 3 and len(slices(events, "consumer")) == 1


def test_async_generators(tmp_path):
    with tptrace.Trace() as trace:
        ended = []

        @trace.span("items", of="queue")
        async def items():
            try:
                for n in range(3):
                    await asyncio.sleep(0)
                    try:
                        got = yield n
                    except KeyError:
                        got = "thrown"
                    if got is not None:
                        yield got
            finally:
                ended.append(True)

        async def main():
            assert [n async for n in items()] == [0, 1, 2]
            stream = items()
            assert await stream.__anext__() == 0
            assert await stream.asend("sent") == "sent"
            assert await stream.__anext__() == 1
            assert await stream.athrow(KeyError()) == "thrown"
            await stream.aclose()
            assert ended == [True, True]
            with pytest.raises(StopAsyncIteration):
                await stream.__anext__()

        asyncio.run(main())
        assert inspect.isasyncgenfunction(items)
        events = written(trace, tmp_path)
    assert nests(events)
    # Three items and the end; then four items.
    assert [[name for name, *_ in row] for row in rows(events).values()] == [["items"]] * 8
    assert [e["args"]["of"] for e in slices(events, "items") if "of" in e["args"]] == ["queue"] * 2


def test_context_managers_of_generators(tmp_path):
    """A generator of contextlib runs as part of the function that uses it."""
    with tptrace.Trace() as trace:

        @contextlib.contextmanager
        def timed(name):
            with trace.span(name, n=1):
                yield

        @contextlib.asynccontextmanager
        async def timed_async():
            with trace.span("both"):
                yield

        def function():
            with timed("of a function"), contextlib.ExitStack() as stack:
                stack.enter_context(timed("of a stack"))

        async def coroutine():
            with timed("of a coroutine"):
                await asyncio.sleep(0)
            async with timed_async(), contextlib.AsyncExitStack() as stack:
                await stack.enter_async_context(trace.span("of an async stack"))
                await asyncio.sleep(0)

        function()
        asyncio.run(coroutine())
        events = written(trace, tmp_path)
    outer, inner = slices(events, "of a function")[0], slices(events, "of a stack")[0]
    assert outer["args"]["n"] == 1 and outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
    assert sorted(row[0][0] for row in rows(events).values()) == ["both", "of a coroutine", "of an async stack"]


def test_one_object_in_many_tasks_and_threads(tmp_path):
    with tptrace.Trace() as trace:
        shared = trace.span("shared")

        async def task():
            for _ in range(5):
                with shared:
                    await asyncio.sleep(0)
                    with shared:
                        await asyncio.sleep(0)

        async def main():
            await asyncio.gather(*(task() for _ in range(4)))

        def thread():
            asyncio.run(main())
            with shared, shared:
                pass

        threads = [threading.Thread(target=thread) for _ in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        events = written(trace, tmp_path)
    assert nests(events)
    assert sum(len(row) for row in rows(events).values()) == 3 * 4 * 10
    assert len(slices(events, "shared")) == 6


def test_calls_from_c_without_a_frame(tmp_path):
    """Threads on which nothing of Python's runs but the span's own functions."""
    with tptrace.Trace() as trace:
        for enter, leave in (("__enter__", "__exit__"), ("__aenter__", "__aexit__")):
            made, ended = trace.span(enter), threading.Event()
            calls = [map(getattr(type(made), name), [made]) for name in (enter, leave)]
            _thread.start_new_thread(list, (itertools.chain(*calls, map(threading.Event.set, [ended])),))
            assert ended.wait(30)
        events = written(trace, tmp_path)
    assert [e["name"] for e in slices(events)] == ["__enter__"]
    assert [row[0][0] for row in rows(events).values()] == ["__aenter__"]


def test_methods_and_what_cannot_be_decorated(tmp_path):
    with tptrace.Trace() as trace:

        class Model:
            @trace.span("forward")
            def forward(self, x):
                return x + 1

            @trace.span("made")
            @classmethod
            def made(cls):
                return cls()

            @trace.span("static")
            @staticmethod
            def static(x):
                return x

            @trace.span("later")
            async def later(self):
                return 7

        model = Model.made()
        assert (model.forward(1), model.static(2), Model.static(3), asyncio.run(model.later())) == (2, 2, 3, 7)
        with pytest.raises(TypeError, match="decorates functions"):
            trace.span("no")(5)
        names = [e["name"] for e in slices(written(trace, tmp_path))]
        assert sorted(names) == ["forward", "later", "made", "static", "static"]


def test_nothing_is_kept_alive(tmp_path):
    class Big:
        pass

    with tptrace.Trace() as trace:

        @trace.span("task")
        async def task(big):
            await asyncio.sleep(0)
            raise ValueError(big)

        async def main():
            big = Big()
            gone = weakref.ref(big)
            with contextlib.suppress(ValueError):
                await task(big)
            return gone

        gone = asyncio.run(main())
        gc.collect()
        assert gone() is None


def test_without_a_trace_they_run_as_they_are():
    @tptrace.span("f", n=1)
    async def f(n):
        with tptrace.span("block", n=1) as block:
            block.arg("x", 1)
            await asyncio.sleep(0)
        async with tptrace.span("block"):
            return [i async for i in g(n)]

    @tptrace.span("g")
    async def g(n):
        for i in h(n):
            yield i

    @tptrace.span("h", n=1)
    def h(n):
        with tptrace.span("in h"):
            yield from range(n)

    assert asyncio.run(f(3)) == [0, 1, 2]


def test_counters_and_instants_of_a_trace(tmp_path):
    with tptrace.Trace() as trace:
        trace.counter("queue", 3)
        trace.instant("mark", category="x")
        events = written(trace, tmp_path)
    assert [e["args"]["value"] for e in events if e["ph"] == "C"] == [3]
    assert [e["name"] for e in events if e["ph"] == "i"][:1] == ["mark"]
