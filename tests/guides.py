"""What the program of each guide (docs/guide-*.md) promises of the traces that it writes, checked on the documents.

All four record the same made-up run, so that one list of promises holds for them: `check` reads the folder that a program
left. Nothing here depends on how long anything took.
"""

from __future__ import annotations

import collections
import gzip
import json
import pathlib
import subprocess
from typing import Any

STEPS, LAYERS, REQUESTS = 4, ("linear", "gelu"), 40_000
FILES = {
    "rank0.json.gz", "rank0.pt.trace.json.gz", "rank0.pftrace", "rank1.pt.trace.json.gz", "merged.pt.trace.json.gz",
    "recent.json.gz",
}  # fmt: skip

Event = dict[str, Any]


class Document:
    """A trace in Chrome's format, and what is looked up in it. Times are integer nanoseconds."""

    def __init__(self, path: pathlib.Path) -> None:
        text = gzip.decompress(path.read_bytes())
        whole = json.loads(text, parse_float=lambda digits: digits)
        self.head = {key: value for key, value in whole.items() if key != "traceEvents"}
        self.events: list[Event] = whole["traceEvents"]
        for event in self.events:
            for key in ("ts", "dur"):
                if key in event:
                    micros, _, nanos = str(event[key]).partition(".")
                    event[key] = int(micros) * 1000 + int(nanos.ljust(3, "0"))

    def named(self, name: str, ph: str = "X") -> list[Event]:
        found = [event for event in self.events if event["ph"] == ph and event.get("name") == name]
        return sorted(found, key=lambda event: event["ts"])

    def lanes(self, name: str) -> list[tuple[int, int]]:
        """The lanes that are called so."""
        return [lane(event) for event in self.events if event.get("name") == "thread_name" and event["args"]["name"] == name]


def lane(event: Event) -> tuple[int, int]:
    return event["pid"], event["tid"]


def inside(inner: Event, outer: Event) -> bool:
    """Whether a slice, or what happens at a moment, lies in a slice of the same lane, as viewers nest them."""
    begins, ends = outer["ts"], outer["ts"] + outer["dur"]
    return lane(inner) == lane(outer) and begins <= inner["ts"] and inner["ts"] + inner.get("dur", 0) <= ends


def one_around(event: Event, outers: list[Event]) -> Event:
    around = [outer for outer in outers if inside(event, outer)]
    assert len(around) == 1, f"{len(around)} slices are around {event}"
    return around[0]


def check_live(document: Document, whole_steps: int) -> None:
    """Spans on their threads, nested, with their arguments; the flow and the async span between threads."""
    (trainer,), (loader,), (saver,) = (document.lanes(name) for name in ("trainer", "loader", "saver"))
    steps = [document.named(f"ProfilerStep#{number}") for number in range(STEPS)]
    assert [len(found) for found in steps] == [1] * STEPS, "each step is there once"
    steps = [step for (step,) in steps]
    assert all(step["args"]["step"] == number and lane(step) == trainer for number, step in enumerate(steps))
    assert all(step["cat"] == "user_annotation" for step in steps)

    forwards, backwards, loads = (document.named(name) for name in ("forward", "backward", "load batch"))
    assert [one_around(forward, steps)["args"]["step"] for forward in forwards] == list(range(STEPS))
    assert [one_around(backward, steps)["args"]["step"] for backward in backwards] == list(range(whole_steps))
    assert all(event["args"]["rows"] == 32 and event["cat"] == "train" for event in forwards)
    assert [(load["args"]["step"], lane(load), load["cat"]) for load in loads] == [
        (number, loader, "dataloader") for number in range(STEPS)
    ]
    (saved,) = document.named("write checkpoint")
    assert lane(saved) == saver

    begins, ends = ({int(event["id"], 16): event for event in document.named("batch", ph)} for ph in "sf")
    assert sorted(begins) == sorted(ends) == list(range(STEPS))
    for number in range(STEPS):
        assert one_around(begins[number], loads)["args"]["step"] == number
        assert one_around(ends[number], steps)["args"]["step"] == number
    (begin,), (end,) = document.named("checkpoint", "b"), document.named("checkpoint", "e")
    assert (begin["id"], begin["cat"], lane(begin)) == (end["id"], end["cat"], trainer) and lane(end) == saver
    assert begin["ts"] <= saved["ts"] <= saved["ts"] + saved["dur"] <= end["ts"]

    assert [float(event["args"]["value"]) for event in document.named("loss", "C")] == [
        1 / (number + 1) for number in range(whole_steps)
    ]
    assert [event["args"] for event in document.named("memory", "C")] == [
        {"allocated": (number + 1) << 20, "reserved": 8 << 20} for number in range(whole_steps)
    ]


def check_added(document: Document, whole_steps: int) -> None:
    """Ops in the spans that they ran in, with shapes; each with its launch, its kernel and the arrows between them."""
    forwards = document.named("forward")
    flows = {ph: collections.defaultdict(list) for ph in "stf"}
    for event in document.events:
        if event.get("cat") == "ac2g":
            flows[event["ph"]][event["id"]].append(event)
    seen = set()
    for number, name in enumerate(LAYERS):
        ops = document.named(name)
        assert len(ops) == whole_steps and all(op["cat"] == "cpu_op" and op["args"]["layer"] == number for op in ops)
        for op, forward in zip(ops, forwards):
            assert one_around(op, forwards) is forward
            assert op["args"]["Input Dims"] == [[32, 1024], [1024, 1024]] and op["args"]["Input type"] == ["float", "float"]
            linked = [
                event
                for event in document.events
                if event.get("cat") in ("cuda_runtime", "kernel") and event["args"]["External id"] == op["args"]["External id"]
            ]
            (launch,) = [event for event in linked if event["cat"] == "cuda_runtime"]
            (kernel,) = [event for event in linked if event["cat"] == "kernel"]
            assert inside(launch, op) and launch["ts"] + launch["dur"] <= kernel["ts"]
            correlation = kernel["args"]["correlation"]
            assert launch["args"]["correlation"] == correlation
            assert (kernel["args"]["device"], kernel["args"]["stream"]) == (0, 7)
            assert (kernel["args"]["grid"], kernel["args"]["block"]) == ([32, 1, 1], [256, 1, 1])
            assert lane(kernel) in document.lanes("stream 7")
            ids = [id for id, ends in flows["f"].items() if any(inside(end, kernel) for end in ends)]
            assert len(ids) == 1, "an arrow ends at the kernel"
            ((start,), (passed,), (_,)) = (flows[ph][ids[0]] for ph in "stf")
            assert inside(start, op) and inside(passed, launch)
            seen.add((correlation, ids[0]))
    assert len(seen) == len(LAYERS) * whole_steps == len(flows["f"])


def check_recent(document: Document) -> None:
    """The flight recorder has the last requests, none missing between them, and not the first."""
    numbers = [event["args"]["step"] for event in document.named("request")]
    assert numbers[-1] == REQUESTS - 1 and 0 < numbers[0], numbers[:1] + numbers[-1:]
    assert numbers == list(range(numbers[0], REQUESTS))


def fields(data: bytes) -> list[tuple[int, Any]]:
    """The members of a message of protobuf: numbers, and bytes for what has a length."""

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    at, found = 0, []
    while at < len(data):
        key = varint()
        size = {1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            found.append((key >> 3, varint()))
            continue
        size = varint() if size is None else size
        assert at + size <= len(data), "a member is cut"
        found.append((key >> 3, data[at : at + size]))
        at += size
    return found


def check_perfetto(path: pathlib.Path, torch: Document) -> None:
    """As many slices begin and end in Perfetto's format as the torch document has."""
    kinds: collections.Counter[int] = collections.Counter()
    for number, packet in fields(path.read_bytes()):
        assert number == 1, "a trace is packets"
        for event in (value for member, value in fields(packet) if member == 11):  # track_event
            kinds.update(value for member, value in fields(event) if member == 9)  # type
    slices = sum(event["ph"] == "X" for event in torch.events)
    assert kinds[1] == kinds[2] == slices, f"{kinds} for {slices} slices"  # TYPE_SLICE_BEGIN, TYPE_SLICE_END


def check(folder: pathlib.Path, command: pathlib.Path) -> None:
    """Reads what a program left in a folder. `command`: the built `tptrace`."""
    assert {path.name for path in folder.iterdir()} == FILES, "these files, and no journal"
    documents = {name: Document(folder / name) for name in FILES if name.endswith(".gz")}
    torch, recovered, merged = (documents[f"{name}.pt.trace.json.gz"] for name in ("rank0", "rank1", "merged"))

    check_live(torch, STEPS)
    check_added(torch, STEPS)
    assert torch.head["distributedInfo"]["rank"] == 0 and torch.head["distributedInfo"]["world_size"] == 2
    plain = collections.Counter(event["name"] for event in documents["rank0.json.gz"].events if event["ph"] == "X")
    assert plain == collections.Counter(event["name"] for event in torch.events if event["ph"] == "X")
    check_perfetto(folder / "rank0.pftrace", torch)

    # Killed in its last step: that is open, and so is what was open in it.
    check_live(recovered, STEPS - 1)
    check_added(recovered, STEPS - 1)
    unfinished = {event["name"] for event in recovered.events if event.get("args", {}).get("unfinished")}
    assert unfinished == {f"ProfilerStep#{STEPS - 1}", "forward"}
    assert recovered.head["distributedInfo"]["rank"] == 1

    names = {event["args"]["name"] for event in merged.events if event.get("name") == "process_name"}
    assert {"rank 0: trainer", "rank 1: trainer"} <= names and all(name[:6] in ("rank 0", "rank 1") for name in names), names
    for name in {event["name"] for event in torch.events if event["ph"] == "X"}:
        assert len(merged.named(name)) == len(torch.named(name)) + len(recovered.named(name)), name
    ids = [{event["id"] for event in one.events if event.get("cat") == "ac2g"} for one in (torch, recovered, merged)]
    assert len(ids[2]) == len(ids[0]) + len(ids[1]), "no arrow runs from one rank to another"

    check_recent(documents["recent.json.gz"])
    subprocess.run(
        [command, "check", "--strict", *sorted(folder.glob("*.json.gz"))], check=True, stdout=subprocess.DEVNULL
    )
