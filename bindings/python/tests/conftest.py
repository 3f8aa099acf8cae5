"""Shared by all tests, which run against the installed package."""

from __future__ import annotations

import gzip
import json
import os
import pathlib
from typing import Any

import pytest

import tptrace


class EventList(list):
    """What TensorPlay hands to its exporter."""

    def __init__(self, events=(), base_ns=0, gpu_activities=(), mem_events=(), samples=()):
        super().__init__(events)
        self.base_ns = base_ns
        self.gpu_activities = list(gpu_activities)
        self.mem_events = list(mem_events)
        self.samples = list(samples)


def load(path: Any) -> Any:
    """A document, strictly parsed: no NaN, no duplicate keys."""

    def unique(pairs):
        keys = [key for key, _ in pairs]
        assert len(keys) == len(set(keys)), f"duplicate keys in {keys}"
        return dict(pairs)

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    data = pathlib.Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return json.loads(data.decode("utf-8"), object_pairs_hook=unique, parse_constant=refuse)


def named(document: Any, name: str) -> Any:
    """The first event of that name."""
    return next(event for event in document["traceEvents"] if event["name"] == name)


@pytest.fixture(autouse=True)
def no_rank(monkeypatch):
    """Ranks of the machine that runs the tests must not show."""
    for key in ("RANK", "TP_RANK", "WORLD_SIZE", "TP_WORLD_SIZE"):
        monkeypatch.delenv(key, raising=False)


@pytest.fixture(params=["walked", "handed over"])
def way(request, monkeypatch):
    """Both ways of taking tuples: in place, and one by one as on other Pythons."""
    if request.param == "handed over":
        monkeypatch.setattr(tptrace._library, "walker", None)
    else:
        assert tptrace._library.walker is not None or os.environ.get("TPTRACE_NO_WALKER")
    return request.param
