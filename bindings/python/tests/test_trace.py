"""The Trace class."""

from __future__ import annotations

import gzip
import io
import json
import os
import pathlib
import re
import threading
import time

import numpy
import pytest
from conftest import load, named

import tptrace


def test_every_kind_of_event_arrives(tmp_path):
    with tptrace.Trace("every kind", base_ns=1000) as trace:
        trace.set_thread_name(7, "worker")
        trace.set_rank(2, 4)
        trace.set_backend("gloo")
        trace.set_metadata("note", {"a": [1, "é", None, 2.5]})
        op = trace.add_op(
            "op",
            2000,
            5500,
            thread_id=7,
            kind="backward",
            shapes=[(2, 3), ()],
            dtypes=[8, 4],
            call_site="a.py:1",
            gpu_ms=0.25,
            kernel_count=2,
            output_bytes=24,
            stack=["inner", "outer"],
            args={"i": -1, "big": 2**64 - 1, "f": 0.5, "b": True, "s": "x", "np": numpy.int32(3), "npf": numpy.float32(0.5)},
        )
        trace.add_op("named types", 6000, 7000, thread_id=7, shapes=[[1]], dtypes=["fp8"])
        trace.add_gpu("runtime", "cudaLaunchKernel", 2500, 3000, os_thread=7, correlation_id=9, external_id=op)
        trace.add_gpu(
            "kernel",
            "gemm",
            4000,
            5000,
            device=1,
            stream=7,
            correlation_id=9,
            external_id=op,
            grid=(1, 2, 3),
            block=(4, 5, 6),
            registers_per_thread=32,
            shared_memory=64,
            context=1,
            graph_id=2,
            graph_node_id=3,
            priority=-5,
            args={"k": 1},
        )
        trace.add_gpu("memcpy", "copy", 5000, 6000, device=1, stream=8, bytes=64, copy_kind=1)
        trace.add_memory(2100, 4096, 512, allocated=True, cuda_device=1, thread_id=7, args={"pool": "a"})
        trace.add_memory(2200, 4096, 512, allocated=False, thread_id=7)
        trace.add_sample(2300, 7, ["inner", "outer"], args={"state": "running"})
        trace.add_counter("used", 2400, {"cpu": 1, "gpu": 2.5})
        trace.add_counter("plain", 2400, 3)
        trace.add_instant("now", 2500, thread_id=7, scope="process", args={"why": "test"})
        counts = trace.counts()
        assert counts[:6] == (2, 3, 2, 1, 2, 1)
        assert counts.dropped == 0 and counts.memory > 0
        path = trace.write(tmp_path / "trace.json.gz", format="torch", level=3, threads=2, fsync=True)
    assert path == str(tmp_path / "trace.json.gz")
    document = load(path)
    assert document["distributedInfo"] == {"rank": 2, "world_size": 4, "backend": "gloo"}
    assert document["note"] == {"a": [1, "é", None, 2.5]}
    event = named(document, "op")
    assert (event["ts"], event["dur"]) == (1.0, 3.5)
    args = event["args"]
    assert args["Input Dims"] == [[2, 3], []] and args["Input type"] == ["float32", "int64"]
    assert args["big"] == 2**64 - 1 and args["np"] == 3 and args["npf"] == 0.5 and args["b"] is True
    assert named(document, "named types")["args"]["Input type"] == ["fp8"]
    kernel = named(document, "gemm")["args"]
    assert kernel["grid"] == [1, 2, 3] and kernel["priority"] == -5 and kernel["stream"] == 7 and kernel["k"] == 1
    assert named(document, "inner")["args"] == {"stack": ["inner", "outer"], "state": "running"}
    assert named(document, "used")["args"] == {"cpu": 1, "gpu": 2.5}
    assert named(document, "plain")["args"] == {"value": 3}


def test_times_are_those_of_perf_counter_ns():
    before, now, after = time.perf_counter_ns(), tptrace.now_ns(), time.perf_counter_ns()
    assert before <= now <= after


def test_the_thread_is_the_calling_one(tmp_path):
    with tptrace.Trace() as trace:
        trace.add_op("here", 1, 2)
        there = threading.Thread(target=lambda: trace.add_op("there", 1, 2))
        there.start()
        there.join()
        document = load(trace.write(tmp_path / "t.json"))
    assert named(document, "here")["tid"] != named(document, "there")["tid"]


def test_paths_may_be_str_or_pathlike(tmp_path):
    with tptrace.Trace() as trace:
        for path in (tmp_path / "a.json", str(tmp_path / "b.json"), tmp_path / "naïve \udcff.json"):
            assert trace.write(path) == str(path)
            assert pathlib.Path(path).exists()


def test_bad_values_raise():
    with tptrace.Trace() as trace:
        for call in (
            lambda: trace.add_op(3, 1, 2),
            lambda: trace.add_op("x", "1", 2),
            lambda: trace.add_op("x", 1.5, 2),
            lambda: trace.add_op("x", 2**63, 2),
            lambda: trace.add_op("x", 1, 2, thread_id=-1),
            lambda: trace.add_op("x", 1, 2, kind="o"),
            lambda: trace.add_op("x", 1, 2, shapes=[["a"]]),
            lambda: trace.add_op("x", 1, 2, stack="one str"),
            lambda: trace.add_op("x", 1, 2, args={"a": [1]}),
            lambda: trace.add_op("x", 1, 2, args={1: 1}),
            lambda: trace.add_op("x", 1, 2, args={"a": 2**64}),
            lambda: trace.add_gpu("k", "x", 1, 2),
            lambda: trace.add_gpu("kernel", "x", 1, 2, stream=-1),
            lambda: trace.add_counter("x", 1, {}),
            lambda: trace.add_counter("x", 1, float("nan")),
            lambda: trace.add_counter("x", 1, {"a": "text"}),
            lambda: trace.add_instant("x", 1, scope="all"),
            lambda: trace.set_metadata("traceEvents", []),
            lambda: trace.set_metadata("x", float("nan")),
            lambda: trace.set_metadata("x", object()),
            lambda: trace.write("x.json", format="json"),
            lambda: trace.write("x.json", level=10),
            lambda: trace.write("x.json", compression="zstd"),
            lambda: trace.write("a\0b"),
            lambda: trace.write(""),
            lambda: tptrace.Trace(clock="wall"),
            lambda: tptrace.Trace(base_ns=2**63),
        ):
            with pytest.raises((TypeError, ValueError)):
                call()
        assert trace.counts().ops == 0


def test_messages_name_what_was_wrong():
    with tptrace.Trace() as trace:
        with pytest.raises(TypeError, match="start_ns must be an integer, not str"):
            trace.add_op("x", "1", 2)
        with pytest.raises(ValueError, match=r"'op', 'user_annotation', 'backward', not 'o'"):
            trace.add_op("x", 1, 2, kind="o")
        with pytest.raises(tptrace.InvalidArgumentError, match="finite number") as caught:
            trace.add_counter("x", 1, float("inf"))
        assert caught.value.status == 2


def test_system_errors_are_os_errors(tmp_path):
    with tptrace.Trace() as trace:
        with pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path / "none" / "x.json"))) as caught:
            trace.write(tmp_path / "none" / "x.json")
        assert isinstance(caught.value, tptrace.TptraceError) and caught.value.errno == 2
        with pytest.raises(IsADirectoryError):
            trace.write(tmp_path)
        read_only = tmp_path / "read-only.json"
        read_only.write_text("old")
        read_only.chmod(0o444)
        with pytest.raises(PermissionError):
            trace.write(read_only)
        assert read_only.read_text() == "old"
        with pytest.raises(OSError, match="/dev/full"):
            trace.write("/dev/full")
        assert sorted(os.listdir(tmp_path)) == ["read-only.json"]


@pytest.mark.parametrize("what", ["counter", "instant", "async"])
def test_the_window_ends_after_events_that_are_no_slices(what):
    with tptrace.Trace() as trace:
        if what == "counter":
            trace.counter("c", 1)
        elif what == "instant":
            trace.add_instant("i", tptrace.now_ns())
        else:
            trace.record_async("begin", "row", 1)
        pieces = []
        trace.write_to(pieces.append)
    events = [e for e in json.loads(b"".join(pieces))["traceEvents"] if e["ph"] != "M"]
    assert len(events) == 2 and events[-1]["name"] == "Record Window End"
    assert events[-1]["ts"] == pytest.approx(events[0]["ts"] + 1)


def test_closing(tmp_path):
    trace = tptrace.Trace()
    trace.close()
    trace.close()
    with pytest.raises(tptrace.ClosedError):
        trace.add_op("x", 1, 2)
    with pytest.raises(ValueError):
        trace.write(tmp_path / "x.json")


def test_progress_cancels_and_raises(tmp_path):
    target = tmp_path / "t.json"
    target.write_text("old")
    with tptrace.Trace() as trace:
        trace.add_ops([("op", "o", i, i + 1, 0) for i in range(20_000)])
        seen = []
        trace.write(tmp_path / "whole.json", progress=lambda progress: seen.append(progress))
        assert seen[-1].done == seen[-1].total == 20_000
        assert seen[-1].bytes == seen[-1].written == (tmp_path / "whole.json").stat().st_size
        with pytest.raises(tptrace.CancelledError):
            trace.write(target, progress=lambda progress: False)
        with pytest.raises(KeyError, match="mine"):
            trace.write(target, progress=lambda progress: {}["mine"])
    assert target.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["t.json", "whole.json"]


def test_writing_to_files_and_functions(tmp_path):
    with tptrace.Trace() as trace:
        trace.add_ops([("op", "o", i, i + 1, 0) for i in range(20_000)])
        trace.write(tmp_path / "t.json")
        expected = (tmp_path / "t.json").read_bytes()
        buffer = io.BytesIO()
        trace.write_to(buffer)
        assert buffer.getvalue() == expected
        pieces = []
        trace.write_to(pieces.append)
        assert b"".join(pieces) == expected

        class Slow(io.RawIOBase):
            taken = b""

            def writable(self):
                return True

            def write(self, data):
                part = bytes(data)[: max(1, len(data) // 2)]
                Slow.taken += part
                return len(part)

        trace.write_to(Slow())
        assert Slow.taken == expected
        with pytest.raises(ZeroDivisionError):
            trace.write_to(lambda piece: 1 / 0)


def test_threads_add_while_others_write():
    with tptrace.Trace() as trace:
        stop = threading.Event()
        failures = []

        def add(thread):
            for i in range(300):
                trace.add_op(f"op {i}", i, i + 1, thread_id=thread)
                trace.add_ops([("bulk", "o", i, i + 1, thread)] * 20)

        def write():
            before = 0
            while not stop.is_set():
                pieces = []
                trace.write_to(pieces.append, separate_overlaps=False)
                now = sum(event["ph"] == "X" for event in json.loads(b"".join(pieces))["traceEvents"])
                if now < before:
                    failures.append((before, now))
                before = now

        adders = [threading.Thread(target=add, args=(n,)) for n in range(4)]
        writer = threading.Thread(target=write)
        for thread in (*adders, writer):
            thread.start()
        for thread in adders:
            thread.join()
        stop.set()
        writer.join()
        assert not failures
        assert trace.counts().ops == 4 * 300 * 21


def test_closing_waits_for_other_threads():
    trace = tptrace.Trace()
    trace.add_ops([("op", "o", i, i + 1, 0) for i in range(50_000)])
    started = threading.Event()
    result = []

    def write():
        pieces = []

        def take(piece):
            started.set()
            time.sleep(0.01)
            pieces.append(piece)

        trace.write_to(take)
        result.append(json.loads(b"".join(pieces)))

    thread = threading.Thread(target=write)
    thread.start()
    started.wait()
    trace.close()
    thread.join()
    assert len(result) == 1


def test_a_forked_child_is_told(tmp_path):
    trace = tptrace.Trace()
    trace.add_op("x", 1, 2)
    child = os.fork()
    if child == 0:
        try:
            trace.add_op("x", 1, 2)
            os._exit(1)
        except tptrace.ForkedError:
            pass
        with tptrace.Trace() as own:
            own.add_op("mine", 1, 2)
            own.write(tmp_path / "child.json")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert named(load(tmp_path / "child.json"), "mine")
    trace.write(tmp_path / "parent.json")


def test_overlaps_get_a_lane_of_their_own(tmp_path):
    with tptrace.Trace() as trace:
        trace.add_op("first", 0, 100, thread_id=1)
        trace.add_op("crossing", 50, 150, thread_id=1)
        apart = load(trace.write(tmp_path / "apart.json"))
        assert trace.counts().overlaps_moved == 1
        together = load(trace.write(tmp_path / "together.json", separate_overlaps=False))
    assert named(apart, "first")["tid"] != named(apart, "crossing")["tid"]
    assert named(together, "first")["tid"] == named(together, "crossing")["tid"]


def test_the_name_chooses_perfetto_s_format(tmp_path):
    with tptrace.Trace(base_ns=0) as trace:
        trace.add_op("op", 1_000, 2_000, thread_id=1)
        plain = pathlib.Path(trace.write(tmp_path / "t.pftrace")).read_bytes()
        packed = pathlib.Path(trace.write(tmp_path / "t.pftrace.gz")).read_bytes()
        by_word = pathlib.Path(trace.write(tmp_path / "t.bin", format="perfetto")).read_bytes()
        assert plain[0] == 0x0A and b"Record Window End" in plain
        assert gzip.decompress(packed)[:1] == by_word[:1] == plain[:1]
        assert json.loads(pathlib.Path(trace.write(tmp_path / "t.json")).read_bytes())["traceEvents"]
        with pytest.raises(tptrace.InvalidArgumentError, match="Perfetto"):
            trace.write(tmp_path / "t.pftrace", separate_overlaps=False)
