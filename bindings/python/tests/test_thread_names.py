"""Threads go by the names that Python has for them, also when they have ended."""

from __future__ import annotations

import _thread
import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from conftest import load

import tptrace


def names(document):
    return {e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"}


def run(function, name):
    thread = threading.Thread(target=function, name=name)
    thread.start()
    thread.join()


def written(trace, tmp_path):
    trace.write(tmp_path / "trace.json", format="torch")
    return load(tmp_path / "trace.json")


def spans(trace):
    @trace.span("decorated")
    def decorated():
        pass

    @trace.span("pieces")
    def pieces():
        yield

    def in_a_generator():
        with trace.span("block"):
            yield

    def block():
        with trace.span("block"):
            pass

    return {
        "block": block,
        "decorated": decorated,
        "pieces": lambda: list(pieces()),
        "in a generator": lambda: list(in_a_generator()),
        "instant": lambda: trace.record_instant("mark"),
        "async": lambda: trace.record_async("begin", "row", 1),
        "op": lambda: trace.add_op("op", tptrace.now_ns(), tptrace.now_ns()),
        "added instant": lambda: trace.add_instant("mark", tptrace.now_ns()),
    }


@pytest.mark.parametrize(
    "what", ["block", "decorated", "pieces", "in a generator", "instant", "async", "op", "added instant"]
)
def test_a_thread_that_has_ended_has_its_name(tmp_path, what):
    with tptrace.Trace() as trace:
        for number in range(2):
            run(spans(trace)[what], f"loader-{number}")
        assert {"loader-0", "loader-1"} <= names(written(trace, tmp_path))


def test_of_the_current_trace_and_of_many(tmp_path):
    traces = [tptrace.Trace() for _ in range(7)]

    def work():
        for _ in range(2):
            for trace in traces:
                tptrace.set_current_trace(trace)
                with tptrace.span("work"):
                    tptrace.counter("c", 1)
        tptrace.set_current_trace(None)

    run(work, "worker")
    for trace in traces:
        assert "worker" in names(written(trace, tmp_path))
        trace.close()


def test_a_name_that_was_set_stays(tmp_path):
    with tptrace.Trace() as trace:

        def work():
            trace.set_thread_name(threading.get_native_id(), "set")
            trace.instant("mark")

        run(work, "python's")
        assert "set" in names(written(trace, tmp_path)) and "python's" not in names(written(trace, tmp_path))


def test_a_new_name_of_a_thread_that_lives(tmp_path):
    with tptrace.Trace() as trace:
        go, there = threading.Event(), threading.Event()

        def work():
            trace.instant("mark")
            there.set()
            go.wait()

        thread = threading.Thread(target=work, name="early")
        thread.start()
        there.wait()
        thread.name = "late"
        assert "late" in names(written(trace, tmp_path))
        go.set()
        thread.join()
        assert "late" in names(written(trace, tmp_path))


def test_a_thread_that_is_none_of_pythons(tmp_path):
    """It gets no object of threading's for it."""
    with tptrace.Trace() as trace:
        before, done = threading.active_count(), _thread.allocate_lock()
        done.acquire()

        def work():
            trace.instant("mark")
            assert threading.active_count() == before
            done.release()

        _thread.start_new_thread(work, ())
        done.acquire()
        assert trace.counts().record_dropped == 0


def test_recording_into_a_closed_trace_is_nothing():
    trace = tptrace.Trace()
    calls = spans(trace)
    trace.close()
    for what in ("block", "decorated", "pieces", "in a generator", "instant", "async"):
        run(calls[what], what)


KILLED = """
import os, signal, sys, threading
import tptrace
trace = tptrace.Trace(journal=sys.argv[1])
def work():
    with trace.span("load"):
        pass
thread = threading.Thread(target=work, name="loader-0")
thread.start()
thread.join()
with trace.span("step"):
    # As one that hangs: nothing names the threads any more.
    told = trace.counts().journal_bytes
    trace.instant("growing")
    while trace.counts().journal_bytes == told:
        pass
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_journal_has_the_names(tmp_path):
    journal, out = tmp_path / "journal", tmp_path / "out.json"
    child = subprocess.run([sys.executable, "-c", KILLED, os.fspath(journal)], timeout=60)
    assert child.returncode == -signal.SIGKILL
    tptrace.recover(journal, out)
    assert {"MainThread", "loader-0"} <= names(json.loads(out.read_text()))
