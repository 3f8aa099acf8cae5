"""TensorPlay's own exporter and ours, on what its profiler collects and on generated events."""

from __future__ import annotations

import json
import os
import random

import pytest
from conftest import EventList, load

import tptrace

if os.environ.get("TPTRACE_REQUIRE_TENSORPLAY"):
    import tensorplay
else:
    tensorplay = pytest.importorskip("tensorplay", reason="TensorPlay is not installed: pip install tensorplay==1.0.0")

exporter = pytest.importorskip("tensorplay.profiler._chrome_trace_export")

OWN_KEYS = {"tptrace", "trace_id"}


def both(tmp_path, events, torch_compat):
    theirs, ours = tmp_path / "theirs" / "trace.json", tmp_path / "ours" / "trace.json"
    for path in (theirs, ours):
        path.parent.mkdir(exist_ok=True)
    exporter.export_chrome_trace(events, theirs, torch_compat)
    tptrace.export_chrome_trace(events, ours, torch_compat)
    return json.loads(theirs.read_text()), load(ours)


def holds(ours, theirs):
    """Whether all of `theirs` is in `ours`, with the same values."""
    if isinstance(theirs, dict):
        return isinstance(ours, dict) and all(key in ours and holds(ours[key], value) for key, value in theirs.items())
    if isinstance(theirs, list):
        return isinstance(ours, list) and len(ours) == len(theirs) and all(map(holds, ours, theirs))
    return ours == theirs


def compare(tmp_path, events):
    theirs, ours = both(tmp_path, events, False)
    assert ours == theirs
    theirs, ours = both(tmp_path, events, True)
    rest = iter(ours.pop("traceEvents"))
    for event in theirs.pop("traceEvents"):
        assert any(holds(candidate, event) for candidate in rest), event
    theirs.pop("trace_id")
    assert theirs.pop("traceName").endswith("trace.json") and ours.pop("traceName").endswith("trace.json")
    assert holds(ours, theirs)


@pytest.fixture(scope="module")
def profiled():
    """A small model, trained for some steps under TensorPlay's profiler."""
    import tensorplay.profiler as profiler

    model = tensorplay.nn.Sequential(tensorplay.nn.Linear(8, 16), tensorplay.nn.ReLU(), tensorplay.nn.Linear(16, 4))
    optimizer = tensorplay.optim.SGD(model.parameters(), lr=0.1)
    with profiler.profile(record_shapes=True, with_stack=True, profile_memory=True) as profile:
        for step in range(5):
            with profiler.record_function(f"ProfilerStep#{step}"):
                loss = (model(tensorplay.randn(4, 8)) ** 2).sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    events = profile._ensure_events()
    assert len(events) > 50 and hasattr(events, "base_ns")
    return profile


def test_a_real_run_is_exported_alike(tmp_path, profiled, way):
    compare(tmp_path, profiled._ensure_events())


def test_a_real_run_through_tensorplay_itself(tmp_path, profiled, monkeypatch):
    """As TensorPlay would use it: its own module replaced."""
    monkeypatch.setattr(exporter, "export_chrome_trace", tptrace.export_chrome_trace)
    path = tmp_path / "t.json.gz"
    profiled.export_chrome_trace(str(path))
    names = {event["name"] for event in load(path)["traceEvents"]}
    assert {"ProfilerStep#0", "ProfilerStep#4"} <= names and any("linear" in name for name in names)


@pytest.mark.parametrize("seed", range(40))
def test_generated_events_are_exported_alike(tmp_path, seed, way, monkeypatch):
    rng = random.Random(seed)
    if seed % 4 == 1:
        monkeypatch.setenv(rng.choice(["RANK", "TP_RANK"]), rng.choice(["0", " 7 ", "x", "1_0", "-1"]))
        monkeypatch.setenv(rng.choice(["WORLD_SIZE", "TP_WORLD_SIZE"]), rng.choice(["8", "+4", ""]))
    base = rng.choice([0, 10**9, 1_700_000_000_000_000_000, -5])
    spread = rng.choice([10**4, 10**9, 10**15, 10**18])
    text = lambda: rng.choice(["", "add", 'quo"te', "back\\slash", "é日😀", "new\nline\t\x01", f"name {rng.random()}"])  # noqa: E731

    def when():
        return base + rng.randrange(-spread if seed % 5 == 0 else 0, spread)

    def span():
        start = when()
        return start, start + rng.choice([0, 1, -7, 999, 1000, rng.randrange(spread)])

    def op():
        start, end = span()
        whole = (
            text(), rng.choice("oubx"), start, end, rng.choice([1, 2, 2**64 - 1, 140_000_000_000_001]),
            rng.choice([None, [], [[2, 3]], [[2], [], [4, 5, 6]]]),
            rng.choice([None, [8], list(range(15)), [19, 20, 21]]),
            rng.choice([None, "", "a.py:1"]), rng.choice([None, -1.0, 0.0, rng.random() * 100, 3, 1e-9, 0.00005, 2.00005]),
            rng.choice([None, -1, 0, 4096]), rng.choice([None, [], ["a", "b"]]), rng.choice([0, 1, 12]), 0,
        )  # fmt: skip
        return whole[: rng.choice([13, 13, 13, rng.randrange(3, 13)])]

    def gpu():
        start, end = span()
        return (
            text(), rng.choice("kkkmsrdz"), start, end, rng.choice([-1, 0, 1, 3]), rng.randrange(4), rng.randrange(40),
            rng.choice([None, 2**64 - 1, rng.randrange(60)]), rng.choice([5, 6]), 1, rng.choice([0, 64]), rng.randrange(8), 0,
        )  # fmt: skip

    events = EventList(
        [op() for _ in range(rng.randrange(50))],
        base,
        [gpu() for _ in range(rng.randrange(50))],
        [(when(), 1, rng.randrange(-99, 99), rng.random() < 0.5, rng.random() < 0.5, 0, 0, 1) for _ in range(rng.randrange(9))],
        [(when(), 5, rng.choice([[], ["a"], ["a", text()]])) for _ in range(rng.randrange(9))],
    )
    compare(tmp_path, events)
