#!/usr/bin/env python3
"""Makes the seeds of the fuzz targets.

usage: TPTRACE_LIBRARY=target/release/libtptrace.so PYTHONPATH=bindings/python/src python3 fuzz/seeds.py
       python3 fuzz/seeds.py TARGET...

Without targets: of those that read documents and journals, with the library itself. Run it when the formats get something
new, and commit what it leaves. For targets: a few of the inputs that they found themselves (target/fuzz/corpus, after a run
of scripts/fuzz.py), those that together reach the most places of the program.
"""

import gzip
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tptrace

SEEDS = Path(__file__).resolve().parent / "seeds"
OUT = SEEDS.parent.parent / "target" / "fuzz"
# Of what a target found: inputs that are kept, and bytes of all of them.
KEPT = 40
KEPT_BYTES = 20_000

# What others write: spans as begin and end, async spans, objects, flows, text ids, times with fractions.
CHROME = b"""{"displayTimeUnit":"ms","traceEvents":[
{"ph":"M","name":"process_name","pid":"main","tid":0,"args":{"name":"caf\\u00e9"}},
{"ph":"B","name":"outer","cat":"a","pid":"main","tid":1,"ts":10.5,"args":{"x":[1,2.5e3,null,{"y":"z"}]}},
{"ph":"B","name":"inner","cat":"b","pid":"main","tid":1,"ts":11},{"ph":"E","pid":"main","tid":1,"ts":12},
{"ph":"s","name":"f","cat":"c","id":"0x1f","pid":"main","tid":1,"ts":13},{"ph":"E","pid":"main","tid":1,"ts":14.25},
{"ph":"f","bp":"e","name":"f","cat":"c","id":"0x1f","pid":2,"tid":7,"ts":20},
{"ph":"X","name":"kernel","cat":"kernel","pid":2,"tid":7,"ts":19,"dur":5.125,"args":{"stream":7,"correlation":4}},
{"ph":"b","name":"work","cat":"async","id":3,"pid":2,"tid":1,"ts":21},{"ph":"n","name":"work","cat":"async","id":3,"pid":2,"ts":22},
{"ph":"e","name":"work","cat":"async","id2":{"local":"q"},"pid":2,"tid":1,"ts":23},{"ph":"C","name":"mem","pid":2,"ts":24,"args":{"used":7,"free":-1}},
{"ph":"i","s":"g","name":"mark","pid":2,"tid":1,"ts":25},{"ph":"N","name":"o","id":1,"pid":2,"tid":1,"ts":26},{"ph":"D","name":"o","id":1,"pid":2,"tid":1,"ts":27}
],"otherData":{"version":"1"}}
"""
# What a killed writer leaves.
TORN = b'[{"name":"a","ph":"X","ts":1,"dur":3,"pid":1,"tid":1},\n{"name":"b","ph":"X","ts":2,"dur":1,"pid":1,"tid":1},\n{"name":"c'

# Arguments of the command, one a line.
COMMANDS = [
    ["merge", "a.json", "b.json.gz", "-o", "out.json.gz", "--rank", "0,2-3", "--align", "force", "--level", "6"],
    ["merge", "-", "-o", "-", "--offset-ns", "-5,7", "--salvage", "--max-size", "2KiB", "--threads", "2"],
    ["cut", "a.json", "-o", "b.json", "--window", "1us..2.5ms", "--name", "gemm|nccl.*", "--exclude-name", "^a[t-z]"],
    ["cut", "a.json", "-o", "b.json", "--min-duration", "5us", "--category", "kernel,cpu_op", "--rank", "-1-1", "--gzip"],
    ["convert", "a.json", "-o", "b.pftrace.gz", "--to", "perfetto", "--fsync"],
    ["summary", "a.json", "--compare", "b.json", "--top", "3", "--json"],
    ["recover", "journal", "-o", "x.perfetto-trace", "--format", "torch"],
    ["check", "--codes", "--strict"],
    ["view", "a.json", "--no-open", "--port", "0"],
    ["demo", "--ranks", "4", "-o", "run"],
    ["1_000", "+7", " -3 "],
]


def fill(trace: "tptrace.Trace", rank: int) -> None:
    trace.set_rank(rank, 2)
    trace.set_backend("nccl")
    trace.set_process_name("trainer")
    trace.set_thread_name(7, "main")
    trace.set_metadata("note", {"a": [1, "\u00e9", None, 0.5]})
    base = 1_000_000
    trace.add_op("ProfilerStep#1", base, base + 90_000, thread_id=7, kind="user_annotation")
    op = trace.add_op("aten::mm", base + 1_001, base + 9_000, thread_id=7, args={"k": 1, "f": 0.1, "t": "x", "b": True})
    trace.add_gpu("runtime", "cudaLaunchKernel", base + 2_000, base + 3_000, correlation_id=5, external_id=op, os_thread=9)
    trace.add_gpu(
        "kernel", "void gemm<float>(int)", base + 4_000, base + 8_000, stream=7, correlation_id=5, external_id=op,
        grid=(1, 2, 3), block=(32, 1, 1),
    )
    trace.add_gpu("memcpy", "Memcpy HtoD", base + 5_000, base + 9_000, stream=7, correlation_id=6, bytes=64, copy_kind=1)
    trace.add_gpu("kernel", "ncclAllReduce", base + 6_000, base + 12_500, stream=20, correlation_id=7)
    trace.add_memory(base + 2_500, 4096, 512, thread_id=7, allocated=True)
    trace.add_sample(base + 2_600, 9, ["leaf", "root"])
    trace.add_counter("loss", base + 9_500, {"train": 1.5, "test": 2})
    trace.add_instant("mark", base + 9_600, thread_id=7)
    with trace.span("live", category="train", step=1):
        trace.record_flow("start", "f", 3)
    trace.record_counter("queue", 4)
    trace.record_async("begin", "request", 11)
    trace.record_async("end", "request", 11)


def choose(target: str) -> None:
    """A few inputs of a corpus, each of which adds the most places for its size."""
    binary = next(OUT.glob(f"*/release/{target}"))
    with tempfile.TemporaryDirectory() as folder:
        # libFuzzer runs each, and writes down what it reached.
        control = Path(folder) / "control"
        merge = [binary, "-merge=1", f"-merge_control_file={control}", "-detect_leaks=0", folder, OUT / "corpus" / target]
        subprocess.run(merge, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lines = control.read_text().splitlines()
    # Two numbers, the names, and for each name: STARTED, FT and its features, COV and its places.
    files = [Path(line) for line in lines[2 : 2 + int(lines[0])]]
    reached = {files[int(words[1])]: set(words[2:]) for line in lines if (words := line.split())[0] == "COV"}
    seen: set[str] = set()
    places: set[str] = set().union(*reached.values())
    kept, room = [], KEPT_BYTES
    while reached and len(kept) < KEPT:
        best = max(reached, key=lambda file: len(reached[file] - seen) / (1000 + file.stat().st_size))
        new = reached.pop(best) - seen
        if new and best.stat().st_size <= room:
            seen |= new
            room -= best.stat().st_size
            kept.append(best)
    shutil.rmtree(SEEDS / target, ignore_errors=True)
    for number, file in enumerate(kept):
        put(target, f"{number:02}", file.read_bytes())
    print(f"{target}: {len(kept)} of {len(files)} inputs, {KEPT_BYTES - room} bytes, {len(seen)} of {len(places)} places")


def documents() -> dict[str, bytes]:
    import tptrace

    made = {}
    for rank in (0, 1):
        with tptrace.Trace(base_ns=0) as trace:
            fill(trace, rank)
            for format in ("plain", "torch"):
                trace.write(f"{format}{rank}.json", format=format)
    made["plain"] = Path("plain0.json").read_bytes()
    made["torch"] = Path("torch0.json").read_bytes()
    tptrace.merge_traces(["torch0.json", "torch1.json"], "merged.json", names=["aten", "nccl", "live"])
    made["merged"] = Path("merged.json").read_bytes()
    made["chrome"] = CHROME
    made["torn"] = TORN
    half = len(CHROME) // 2
    made["members.gz"] = b"".join(gzip.compress(part, mtime=0) for part in (CHROME[:half], CHROME[half:]))
    return {name: anonymous(document) for name, document in made.items()}


def anonymous(content: bytes) -> bytes:
    """Without the name of this machine."""
    return content.replace(f'"{socket.gethostname()}"'.encode(), b'"host"')


def journal() -> bytes:
    """The blocks of a journal as the target takes them: kind, length in two bytes, contents. It adds the checksums."""
    import tptrace

    # A trace that ends without being written leaves its journal.
    with tptrace.Trace(base_ns=0, journal="journal") as trace:
        fill(trace, 0)
        trace.sync_journal()
        trace.add_op("later", 5_000_000, 6_000_000)
        trace.sync_journal()
    rest = Path("journal").read_bytes().removeprefix(b"tptrace journal 1\n")
    blocks = b""
    while rest:
        kind, length = rest[0], int.from_bytes(rest[4:8], "little")
        contents, rest = anonymous(rest[12 : 12 + length]), rest[12 + length :]
        blocks += bytes([kind]) + len(contents).to_bytes(2, "little") + contents
    return blocks


def put(target: str, name: str, content: bytes) -> None:
    folder = SEEDS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def main() -> None:
    if len(sys.argv) > 1:
        for target in sys.argv[1:]:
            choose(target)
        return
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    try:
        for name, document in documents().items():
            for target in ("read", "merge", "convert"):
                put(target, name, document)
            # Which selection, and its numbers; how the stream is damaged.
            put("select", name, bytes([0b0010_0110, 1, 60, 200]) + document)
            if not name.endswith(".gz"):
                put("inflate", name, bytes([2, 0, 0, 0, 0, 0]) + document)
        put("journal", "real", b"\0" + journal())
    finally:
        shutil.rmtree(folder)
    for number, command in enumerate(COMMANDS):
        put("command", f"{number:02}", "\n".join(command).encode())
    put("gzip", "text", b"\x07" + b"one two three two one " * 8 + bytes(range(64)))


if __name__ == "__main__":
    main()
