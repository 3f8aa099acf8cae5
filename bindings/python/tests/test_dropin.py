"""Lists of tuples, and the exporter that takes TensorPlay's."""

from __future__ import annotations

import collections
import gc
import random
import sys

import numpy
import pytest
from conftest import EventList, load, named

import tptrace

OP = ("op", "o", 2_000, 5_500, 7)
GPU = ("kernel", "k", 6_000, 7_000, 0, 7, 1, 0, 0, 0, 0, 0, 0)


def export(tmp_path, *args, **options):
    path = tmp_path / "trace.json"
    assert tptrace.export_chrome_trace(EventList(*args), path, **options) == str(path)
    return load(path)


def test_the_whole_document(tmp_path, way):
    document = export(
        tmp_path,
        [
            ("op", "o", 2_000, 5_500, 7, [[2, 3], []], [8, 4], "a.py:1", 0.12345, 24, ["frame"], 3, 0),
            ("short", "o", 1, 2),
            ("step", "u", 1_500, 9_000, 2**64 - 1),
            ("grad", "b", 6_000, 5_000, 7, None, None, None, -1.0, -1, None, 0, 0),
        ],
        1_000,
        [
            ("launch", "r", 2_500, 3_000, 0, 0, 5, 0, 42, 211, 0, 0, 0),
            ("gemm", "k", 4_000, 5_000, 1, 7, 5, 0, 0, 0, 0, 0, 0),
            ("copy", "m", 5_000, 6_000, -1, 8, 6, 2**64 - 1, 0, 0, 64, 2, 0),
            ("fill", "s", 6_000, 6_500, 0, 8, 7, None, 0, 0, 0, 0, 9),
            ("grad kernel", "x", 7_000, 7_500, 0, 8, 8, 3, 0, 0, 0, 0, 0),
        ],
        [(2_100, 4096, 512, True, True, 1, 0, 7), (2_200, 4096, -512, False, False, 0, 0, 8)],
        [(2_300, 42, ["inner", "outer"]), (2_400, 43, [])],
    )

    def slice_(name, cat, ts, dur, pid, tid, args):
        return {"name": name, "cat": cat, "ph": "X", "ts": ts, "dur": dur, "pid": pid, "tid": tid, "args": args}

    def meta(name, pid, tid, key, value):
        return {"ph": "M", "name": name, "ts": 0.5, "pid": pid, "tid": tid, "args": {key: value}}

    def flow(ph, id, pid, tid, ts, **more):
        return {"ph": ph, "id": id, "pid": pid, "tid": tid, "ts": ts, "cat": "ac2g", "name": "ac2g", **more}

    assert document == {
        "displayTimeUnit": "ns",
        "traceEvents": [
            meta("process_name", 0, 0, "name", "python"),
            meta("process_labels", 0, 0, "labels", "CPU"),
            meta("process_sort_index", 0, 0, "sort_index", 0),
            meta("process_name", 1_000_000, 0, "name", "python"),
            meta("process_labels", 1_000_000, 0, "labels", "GPU 0"),
            meta("process_sort_index", 1_000_000, 0, "sort_index", 6_000_000),
            meta("process_name", 1_000_001, 0, "name", "python"),
            meta("process_labels", 1_000_001, 0, "labels", "GPU 1"),
            meta("process_sort_index", 1_000_001, 0, "sort_index", 6_000_001),
            meta("thread_name", 0, 2, "name", "thread 42"),
            meta("thread_sort_index", 0, 2, "sort_index", 2),
            meta("thread_name", 1_000_000, 4, "name", "stream 8"),
            meta("thread_sort_index", 1_000_000, 4, "sort_index", 4),
            meta("thread_name", 1_000_000, 5, "name", "stream 8"),
            meta("thread_sort_index", 1_000_000, 5, "sort_index", 5),
            meta("thread_name", 1_000_001, 3, "name", "stream 7"),
            meta("thread_sort_index", 1_000_001, 3, "sort_index", 3),
            slice_(
                "op",
                "cpu_op",
                1.0,
                3.5,
                0,
                0,
                {
                    "Input Dims": [[2, 3], []],
                    "Input type": ["float32", "int64"],
                    "Call site": "a.py:1",
                    "GPU duration (ms)": 0.1235 if round(0.12345, 4) == 0.1235 else 0.1234,
                    "Kernels": 3,
                    "Output alloc (bytes)": 24,
                },
            ),
            slice_("step", "user_annotation", 0.5, 7.5, 0, 1, {}),
            slice_("grad", "backward", 5.0, 0.001, 0, 0, {}),
            slice_("launch", "cuda_runtime", 1.5, 0.5, 0, 2, {"correlation": 5, "External id": 0}),
            slice_("gemm", "kernel", 3.0, 1.0, 1_000_001, 3, {"correlation": 5, "External id": 0}),
            slice_("copy", "gpu_memcpy", 4.0, 1.0, 1_000_000, 4, {"correlation": 6, "bytes": 64, "copy kind": 2}),
            slice_("fill", "gpu_memset", 5.0, 0.5, 1_000_000, 5, {"correlation": 7}),
            slice_("grad kernel", "kernel", 6.0, 0.5, 1_000_000, 5, {"correlation": 8, "External id": 3}),
            slice_(
                "[memory]", "user_annotation", 1.1, 0.001, 0, 0, {"Bytes": 512, "Allocation Type": "alloc", "Device": "cuda:1"}
            ),
            slice_(
                "[memory]", "user_annotation", 1.2, 0.001, 0, 6, {"Bytes": -512, "Allocation Type": "free", "Device": "cpu"}
            ),
            {
                "name": "inner",
                "cat": "python_function",
                "ph": "i",
                "s": "t",
                "ts": 1.3,
                "pid": 0,
                "tid": 2,
                "args": {"stack": ["inner", "outer"]},
            },
            flow("s", 5, 0, 0, 1.0),
            flow("f", 5, 1_000_001, 3, 3.0, bp="e"),
            flow("s", 8, 0, 0, 5.0),
            flow("f", 8, 1_000_000, 5, 6.0, bp="e"),
            {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 9.0},
        ],
    }


def test_torch_documents_say_more(tmp_path, way, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    document = export(tmp_path, [(*OP, [[1]], [8], None, None, None, ["inner", "outer"])], 1_000, [GPU], torch_compat=True)
    assert document["schemaVersion"] == 1 and document["displayTimeUnit"] == "ms"
    assert document["baseTimeNanoseconds"] == 1_000
    assert document["distributedInfo"] == {"rank": 3, "world_size": 8, "backend": "tensorplay.distributed"}
    assert document["record_shapes"] is True and document["with_stack"] is True
    assert document["traceName"] == str(tmp_path / "trace.json")
    assert named(document, "op")["args"]["rank"] == 3
    kernel = named(document, "kernel")["args"]
    assert (kernel["device"], kernel["stream"]) == (0, 7)


def test_nothing_at_all(tmp_path, way):
    document = export(tmp_path)
    assert [event["name"] for event in document["traceEvents"]] == [
        "process_name",
        "process_labels",
        "process_sort_index",
        "Record Window End",
    ]
    assert document["traceEvents"][-1]["ts"] == 1.0


def test_arguments_come_before_attributes(tmp_path, way):
    events = EventList([OP], 0, [GPU])
    path = tmp_path / "t.json"
    tptrace.export_chrome_trace(events, path, False, [], [], [])
    assert all(event["name"] != "kernel" for event in load(path)["traceEvents"])
    tptrace.export_chrome_trace(events, path, gpu_activities=(GPU for _ in range(3)))
    assert sum(event["name"] == "kernel" for event in load(path)["traceEvents"]) == 3


def test_duck_typing(tmp_path, way):
    """Everything that iterates as tuples do."""
    Named = collections.namedtuple("Named", "name kind start end thread shapes dtypes site ms out stack kernels")

    class Sub(tuple):
        pass

    class Whole:
        def __init__(self, value):
            self.value = value

        def __index__(self):
            return self.value

    class Dtype:
        def __str__(self):
            return "DType.float32"

    class Other:
        """An event list that is no list."""

        base_ns = 0
        gpu_activities = mem_events = samples = ()

        def __iter__(self):
            yield list(OP)
            yield Sub(OP)
            yield Named("named", "u", 1, 2, 3, ((numpy.int64(2), Whole(3)),), (numpy.int32(8), Dtype(), "own"), "", None, None, (), None)
            yield ("numpy", "o", numpy.int64(5), numpy.uint64(9), numpy.uint64(2**64 - 1), numpy.ones((1, 2), dtype=int))
            yield ("bool", "o", True, 2, 3, [], [], None, numpy.float32(0.5), True)
            yield ("kinds", None, 1, 2, 3)

    path = tmp_path / "t.json"
    tptrace.export_chrome_trace(Other(), path)
    document = load(path)
    assert sum(event["name"] == "op" for event in document["traceEvents"]) == 2
    args = named(document, "named")["args"]
    assert args["Input Dims"] == [[2, 3]] and args["Input type"][1:] == ["float32", "own"]
    assert named(document, "numpy")["args"]["Input Dims"] == [[1, 1]]
    assert named(document, "bool")["args"] == {
        "Input Dims": [], "Input type": [], "GPU duration (ms)": 0.5, "Output alloc (bytes)": 1,
    }  # fmt: skip
    assert named(document, "kinds")["cat"] == "cpu_op"


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"events": [OP, ("x", "o", "1", 2, 3)]}, "event 1: start_ns must be an integer, not str"),
        ({"events": [OP, OP, ("x", "o", 1, None, 3)]}, "event 2: end_ns must be an integer, not NoneType"),
        ({"events": [(7, "o", 1, 2, 3)]}, "event 0: name must be a str, not int"),
        ({"events": [("x", "o", 2**63, 2, 3)]}, "event 0: start_ns"),
        ({"events": [("x", "o", 1, 2, 2**64)]}, "event 0: thread_id"),
        ({"events": [("x", "o", 1, 2, 3, 5)]}, "event 0: "),
        ({"events": [("x", "o", 1, 2, 3, [["a"]])]}, "event 0: "),
        ({"events": [("x", "o", 1, 2, 3, None, None, 5)]}, "event 0: call_site must be a str, not int"),
        ({"events": [("x", "o", 1, 2, 3, None, None, None, "ms")]}, "event 0: "),
        ({"events": [OP, 5]}, "event 1: "),
        ({"gpu_activities": [GPU, GPU[:12]]}, "GPU activity 1: it has 12 fields, not 13"),
        ({"gpu_activities": [(*GPU, 1)]}, "GPU activity 0: it has 14 fields, not 13"),
        ({"gpu_activities": [(*GPU[:6], "5", *GPU[7:])]}, "GPU activity 0: correlation_id must be an integer, not str"),
        ({"mem_events": [(1, 2, 3)]}, "memory event 0: it has 3 fields, not 8"),
        ({"mem_events": [(1, 2, "3", True, False, 0, 0, 1)]}, "memory event 0: bytes must be an integer, not str"),
        ({"samples": [(1, 2, [3])]}, "sample 0: "),
        ({"samples": [(1, 2)]}, "sample 0: it has 2 fields, not 3"),
    ],
)
def test_messages_name_event_and_field(tmp_path, way, lists, message):
    path = tmp_path / "t.json"
    path.write_text("old")
    events = EventList(lists.get("events", ()), 0, lists.get("gpu_activities", ()), lists.get("mem_events", ()), lists.get("samples", ()))
    with pytest.raises(ValueError) as caught:
        tptrace.export_chrome_trace(events, path)
    assert str(caught.value).startswith(message), str(caught.value)
    assert isinstance(caught.value, (TypeError, tptrace.TptraceError))
    assert path.read_text() == "old"


def test_texts_of_every_kind(tmp_path, way):
    texts = ["", "é", "日本", "😀", "\ud83d\ude00", "\ud800", "a\0b", '"\\/\n\t\x01\x7f', "x" * 1_000_000]
    document = export(tmp_path, [(text, "o", i, i + 1, 0, None, None, text) for i, text in enumerate(texts)])
    names = [event["name"] for event in document["traceEvents"] if event["ph"] == "X"]
    expected = [*texts[:4], "😀", "\ufffd", *texts[6:]]
    assert names == expected
    sites = [event["args"].get("Call site", "") for event in document["traceEvents"] if event["ph"] == "X"]
    assert sites == expected


def test_many_events_keep_their_order(tmp_path, way):
    count = 20_000 if way == "walked" else 500
    events = [(f"op {i}", "oub"[i % 3], 10 * i, 10 * i + 5, i % 5, [[i]], [8], f"site {i}") for i in range(count)]
    document = export(tmp_path, events, 0, [(f"k {i}", "k", 10 * i + 5, 10 * i + 9, 0, 7, i + 1, i, 0, 0, 0, 0, 0) for i in range(count)])
    slices = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert [event["name"] for event in slices] == [f"op {i}" for i in range(count)] + [f"k {i}" for i in range(count)]
    assert all(event["args"]["Input Dims"] == [[i]] for i, event in enumerate(slices[:count]))
    starts = [event for event in document["traceEvents"] if event["ph"] == "s"]
    assert [event["ts"] for event in starts] == [10 * i / 1e3 for i in range(count)]


def test_code_that_runs_meanwhile_does_no_harm(tmp_path):
    """An `__index__` that empties the list, drops references, adds to the trace, or raises."""
    events = []

    class Emptying:
        def __index__(self):
            events.clear()
            gc.collect()
            return 5

    events.extend([(f"x{i}" * 5, "o", 1, 2, 3) for i in range(100)])
    events[50] = ("evil", "o", Emptying(), 9, 3)
    with tptrace.Trace() as trace:
        trace.add_ops(events)
        assert trace.counts().ops == 51
        shapes = [[1, 2, 3, 4]]

        class Shrinking:
            def __index__(self):
                shapes[0].clear()
                return 7

        shapes[0][1] = Shrinking()
        trace.add_ops([("x", "o", 1, 2, 3, shapes)])

        class Adding:
            def __index__(self):
                trace.add_op("from inside", 1, 2)
                return 1

        trace.add_ops([("x", "o", Adding(), 2, 3)] * 10_000)
        assert trace.counts().ops == 51 + 1 + 20_000

        class Raising:
            def __index__(self):
                raise RuntimeError("mine")

        with pytest.raises(RuntimeError, match="mine"):
            trace.add_ops([("x", "o", 1, 2, 3)] * 10 + [("x", "o", Raising(), 2, 3)])

        class RaisingFloat:
            def __float__(self):
                raise RuntimeError("mine")

        def shapes():
            yield [1]
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            trace.add_ops([("x", "o", 1, 2, 3, shapes())])
        with pytest.raises(RuntimeError, match="mine"):
            trace.add_ops([("x", "o", 1, 2, 3, None, None, None, RaisingFloat())])


def test_references_are_given_back(tmp_path):
    name, site = "name that is not interned", "site"
    shapes = [[1], [2]]
    event = (name, "o", 10**12, 10**12 + 5, 10**13, shapes, [8, 8], site, 0.5, 10**11, ["a", "b"], 10**10)
    before = [sys.getrefcount(part) for part in event]
    for _ in range(3):
        with tptrace.Trace() as trace:
            trace.add_ops([event] * 10_000)
            with pytest.raises(ValueError):
                trace.add_ops([event] * 10_000 + [("x", "o", "bad", 2, 3)])
    assert [sys.getrefcount(part) for part in event] == before


def test_random_objects_never_crash(tmp_path):
    random.seed(5)
    parts = [None, True, -1, 0, 2**63, 2**64, 2**200, -(2**63), 1.5, float("nan"), "text", "\ud800", b"bytes", [], [[1]], [None], {}, object(), (), ("a",), {1: 2}, numpy.array([1]), type]
    sizes = {"add_ops": 12, "add_gpu_activities": 13, "add_memory_events": 8, "add_samples": 3}
    for _ in range(3_000):
        with tptrace.Trace() as trace:
            for method, size in sizes.items():
                events = [
                    tuple(random.choice(parts) for _ in range(random.choice([size, size, random.randrange(15)])))
                    for _ in range(3)
                ] + [random.choice(parts)]
                try:
                    getattr(trace, method)(events)
                except (TypeError, ValueError):
                    pass
    load(tptrace.Trace().write(tmp_path / "t.json"))
