#!/usr/bin/env python3
"""Shows what tptrace writes to the real trace readers, and checks what they make of it.

usage: run.py [FOLDER]      FOLDER: what `cargo run --example demo` wrote; made here if not given

Needs setup.sh to have run. Prints a line for each check and ends with `clients: N passed, N failed, N skipped`.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
passed = failed = skipped = 0


def check(what: str, holds: Any, seen: Any = "") -> None:
    """One line, and one more in the count."""
    global passed, failed
    if holds:
        passed += 1
        print(f"ok      {what}")
    else:
        failed += 1
        print(f"FAILED  {what}: {str(seen)[:600]}")


@contextlib.contextmanager
def section(name: str):
    """A defect of one section must not hide the others."""
    print(f"-- {name}")
    try:
        yield
    except Exception as error:
        check(f"{name} ran to its end", False, repr(error))


def reader(script: str, *arguments: Any) -> tuple[int, Any]:
    """Runs one of the scripts here, and answers its exit status and what it saw."""
    command = ["node"] if script.endswith(".mjs") else [sys.executable]
    run = subprocess.run(
        [*command, str(HERE / script), *map(str, arguments)], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if run.returncode in (2, 4):
        raise RuntimeError(run.stderr.strip())
    return run.returncode, json.loads(run.stdout)


def document(path: pathlib.Path) -> Any:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def slices(path: pathlib.Path) -> int:
    """Slices that the document draws; Perfetto makes one of each instant too."""
    return sum(event["ph"] in ("X", "i") for event in document(path)["traceEvents"])


def perfetto(path: pathlib.Path, what: str) -> Any:
    """Opens a file in Perfetto, which must take every event."""
    status, seen = reader("perfetto.mjs", path)
    check(f"{what}: Perfetto imports it with no error", status == 0, seen.get("problems") or seen.get("error"))
    if status in (0, 1):
        check(f"{what}: no slice is lost", seen["slices"]["total"] == slices(path), (seen["slices"], slices(path)))
        check(f"{what}: no flow runs backwards", seen["flows"]["backwards"] == 0, seen["flows"])
    return seen


def demo(folder: pathlib.Path) -> None:
    for rank in range(2):
        path = folder / f"rank{rank}.pt.trace.json.gz"
        with section(f"Perfetto, rank {rank}"):
            seen = perfetto(path, f"rank {rank}")
            gpu = sum(event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") for event in document(path)["traceEvents"])
            joined = sum(n for join, n in seen["flows"]["joins"].items() if join.startswith("cuda_runtime -> "))
            check("a flow joins each kernel, copy and fill to its launch", joined == gpu, (seen["flows"], gpu))
            ops = sum(n for join, n in seen["flows"]["joins"].items() if join.endswith("-> cuda_runtime"))
            check("and each launch to its op", ops == gpu, seen["flows"])
            check("counters arrive", seen["counters"], seen["counters"])
            names = {lane["name"] for lane in seen["lanes"]}
            check("lanes are named", {"main", "autograd", "stream 7", "stream 20"} <= names, names)
            check("crossing slices have a lane beside", any("(overlap 1)" in (name or "") for name in names), names)
            check("processes are named", {p["name"] for p in seen["processes"]} >= {"train.py"}, seen["processes"])
        with section(f"TensorBoard's plugin, rank {rank}"):
            status, seen = reader("tensorboard.py", path)
            check("the plugin parses it and makes its pages", status == 0, seen)
            check("it lists the steps", seen["steps"] == ["0", "1", "2", "3"], seen["steps"])
            check("it lists the kernels", seen["kernels"] == 72 and "Kernel" in seen["pages"], seen)
            check("it sees the GPU of the rank", seen["gpus"] == [rank] and seen["gpu_utilization"][str(rank)] > 0, seen)
            check("it lists the operators", "aten::linear" in seen["operators"]["by_name"], seen["operators"])
    with section("HTA, both ranks"):
        status, seen = reader("hta.py", folder, "--last-step")
        check("HTA loads the run and every analysis runs", status == 0, seen.get("errors") or seen)
        check("it finds both ranks", sorted(seen["ranks"]) == ["0", "1"], seen["ranks"])
        for rank, found in seen["ranks"].items():
            check(f"rank {rank}: kernels on their streams", found["streams"] == [7, 14, 20] and found["kernels"] == 72, found)
            check(f"rank {rank}: launches linked to kernels", found["kernels_linked"] == 72, found)
            check(f"rank {rank}: and kernels to launches", found["launches_linked"] == 80, found)
            check(f"rank {rank}: iterations", found["iterations"] == [0, 1, 2, 3], found)
        breakdown = seen["temporal_breakdown"]
        check("the temporal breakdown has both", len(breakdown) == 2 and all(r["compute_time(us)"] > 0 for r in breakdown), breakdown)
        kinds = {row["kernel_type"] for row in seen["gpu_kernel_breakdown"]["by_type"]}
        check("computation, communication and memory are told apart", len(kinds) >= 3, kinds)
        launches = seen["cuda_kernel_launch_stats"]
        check("launches have statistics", all(stats["launches"] == 80 for stats in launches.values()), launches)
        check("no kernel starts before its launch", all(stats["negative_delay"] == 0 for stats in launches.values()), launches)
    with section("Perfetto, plain format"):
        perfetto(folder / "plain" / "rank0.json", "plain")
    with section("Perfetto's own format"):
        torch = folder / "rank0.pt.trace.json.gz"
        same(torch, folder / "perfetto" / "rank0.pftrace", "written")
        for path in (torch, folder / "plain" / "rank0.json"):
            converted(path, f"converted from {path.parent.name}/{path.name}")


def same(path: pathlib.Path, own: pathlib.Path, what: str) -> None:
    """Compares what Perfetto sees of a document and of the same in its own format."""
    status, seen = reader("compare.mjs", path, own)
    check(f"{what}: Perfetto sees the same in both", status == 0 and seen["seen"] > 0, seen)


def converted(path: pathlib.Path, what: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        own = pathlib.Path(scratch, "converted.pftrace.gz")
        run = tptrace("convert", path, "-o", own)
        check(f"{what}: it is converted", run.returncode == 0, run.stderr)
        same(path, own, what)


# The flows that the engine must find in the odd traces. In the torch format a launch stands between op and kernel.
ODD_FLOWS = {
    "empty": {},
    "huge-ids.plain": {"cpu_op -> kernel": 5},
    "huge-ids.torch": {"cpu_op -> cuda_runtime": 5, "cuda_runtime -> kernel": 5},
    "odd-names": {},
    "odd-times": {"kernel -> cpu_op": 10},
}

# The engine shows escapes of control characters as they are written.
ODD_NAMES = [
    "\U0001f600 emoji",
    'quote " backslash \\ slash /',
    "newline \\n tab \\t return \\r",
    "control \\u0001 \\u001f delete \x7f",
    "nul \\u0000 inside",
    "bad \ufffd\ufffd\ufffd\ufffd\ufffd UTF-8",
    "[No name]",
    "\u65e5\u672c \u2028",
    "Record Window End",
]


def odd(folder: pathlib.Path) -> None:
    """Traces at the edges, as `cargo run --example odd` writes them."""
    for path in sorted(folder.glob("*.json")):
        with section(path.stem):
            seen = perfetto(path, path.stem)
            expected = ODD_FLOWS.get(path.stem, ODD_FLOWS.get(path.stem.split(".")[0]))
            check(f"{path.stem}: its flows are all there", seen["flows"]["joins"] == expected, seen["flows"])
            if path.stem.startswith("odd-names"):
                found = reader("perfetto.mjs", path, "--sql", "SELECT name FROM slice ORDER BY ts")[1]["sql"][0]
                names = [row["name"] for row in found["rows"]]
                check(f"{path.stem}: names are as they were given", names == ODD_NAMES, names)
                check(f"{path.stem}: so are counters", len(seen["counters"]) == 8, seen["counters"])
            own = folder / f"{path.name.split('.')[0]}.pftrace"
            if path.stem.endswith(".torch") and path.stem != "empty.torch":
                same(path, own, own.name)
                converted(path, f"{path.stem}, converted")
    with section("overlapping streams"):
        moved, kept = (reader("perfetto.mjs", folder / "kept" / name)[1] for name in ("moved.json", "kept.json"))
        check("slices that cross are lost where they stay", kept["problems"] != [] or kept["slices"]["total"] < 400, kept["slices"])
        check("and not where they have a lane of their own", moved["problems"] == [] and moved["slices"]["total"] == 401, moved)
        own = folder / "kept" / "kept.pftrace"
        check("they are converted", tptrace("convert", folder / "kept" / "kept.json", "-o", own).returncode == 0)
        status, seen = reader("perfetto.mjs", own)
        check("and not lost in Perfetto's own format", status == 0 and seen["slices"]["total"] >= 401, seen)


def collected(folder: pathlib.Path) -> None:
    """A run whose GPU work was collected through CUPTI: a fake one, of the tests."""
    folder.mkdir()
    test = "ops::a_training_run_for_the_readers"
    run = subprocess.run(
        ["cargo", "test", "--quiet", "--locked", "--test", "gpu", test, "--", "--exact"],
        cwd=ROOT,
        env={**os.environ, "TP_GPU_TRACES": str(folder)},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    check("the run is collected", run.returncode == 0 and "1 passed" in run.stdout, run.stdout + run.stderr)
    for rank in range(2):
        path = folder / f"rank{rank}.pt.trace.json.gz"
        with section(f"Perfetto, collected rank {rank}"):
            seen = perfetto(path, f"collected rank {rank}")
            work = {"kernel": 28, "gpu_memcpy": 4, "gpu_memset": 4}
            joins = seen["flows"]["joins"]
            for kind, count in work.items():
                check(f"each {kind} has a flow from its call", joins.get(f"cuda_runtime -> {kind}") == count, joins)
            check("and each call has one from its op", joins.get("cpu_op -> cuda_runtime") == 36, joins)
            names = {lane["name"] for lane in seen["lanes"]}
            check("lanes are named", {"main", "stream 7", "stream 20", "stream 7 (sync)", "CUPTI overhead"} <= names, names)
        with section(f"TensorBoard's plugin, collected rank {rank}"):
            status, seen = reader("tensorboard.py", path)
            check("the plugin parses it and makes its pages", status == 0, seen)
            check("it lists the kernels", seen["kernels"] == 28 and "Kernel" in seen["pages"], seen)
            check("it lists the operators", "aten::linear" in seen["operators"]["by_name"], seen["operators"])
            check("it sees the GPU of the rank", seen["gpus"] == [rank] and seen["gpu_utilization"][str(rank)] > 0, seen)
    with section("HTA, both collected ranks"):
        status, seen = reader("hta.py", folder, "--last-step")
        check("HTA loads the run and every analysis runs", status == 0, seen.get("errors") or seen)
        for rank, found in sorted(seen["ranks"].items()):
            check(f"rank {rank}: kernels on their streams", found["streams"] == [7, 20] and found["kernels"] == 28, found)
            check(f"rank {rank}: launches linked to kernels", found["kernels_linked"] == 28, found)
            check(f"rank {rank}: iterations", found["iterations"] == [0, 1, 2, 3], found)


def merged(folder: pathlib.Path, ranks: int) -> None:
    """The ranks of a run in one file, each with its flows inside itself."""
    inputs = sorted(folder.glob("rank*.pt.trace.json.gz"), key=lambda path: int(path.name[4:].split(".")[0]))
    check(f"there are {ranks} ranks", len(inputs) == ranks, inputs)
    path = folder / "merged.json.gz"
    run = merge(*inputs, "-o", path)
    check("the command merges them, on one clock", run.returncode == 0 and "on one clock" in run.stderr, run.stderr)
    seen = perfetto(path, f"{ranks} ranks merged")
    alone = [reader("perfetto.mjs", one)[1] for one in inputs[:2]]
    check("every flow of every rank is there", seen["flows"]["total"] == ranks * alone[0]["flows"]["total"], seen["flows"])
    check("and every slice", seen["slices"]["total"] == ranks * alone[0]["slices"]["total"], seen["slices"])
    across = reader(
        "perfetto.mjs",
        path,
        "--sql",
        """SELECT count(*) AS n FROM flow
           JOIN slice a ON a.id = slice_out JOIN thread_track ta ON ta.id = a.track_id JOIN thread USING (utid)
           JOIN process pa ON pa.upid = thread.upid
           JOIN slice b ON b.id = slice_in JOIN thread_track tb ON tb.id = b.track_id JOIN thread th ON th.utid = tb.utid
           JOIN process pb ON pb.upid = th.upid
           WHERE substr(pa.name, 1, instr(pa.name, ':')) != substr(pb.name, 1, instr(pb.name, ':'))""",
    )[1]["sql"]
    check("no flow runs from one rank to another", across[0].get("rows") == [{"n": 0}], across[0])
    names = [process["name"] for process in seen["processes"] if process["slices"]]
    check("processes carry their rank", all(name.startswith("rank ") for name in names), names[:5])
    check("each rank has its CPU and its GPU", len(names) >= 2 * ranks, len(names))
    lowest = min(process["pid"] for process in seen["processes"])
    highest = max(process["pid"] for process in seen["processes"])
    check("pids are 32 bits", lowest >= 0 and highest < 1 << 32, (lowest, highest))
    selected(folder, inputs, seen)


def selected(folder: pathlib.Path, inputs: list[pathlib.Path], whole: Any) -> None:
    """Parts of the merged ranks: no end of a flow without the other."""
    first, last = whole["slices"]["first_ns"], whole["slices"]["last_ns"]
    quarter = (last - first) // 4
    size = len(gzip.decompress((folder / "merged.json.gz").read_bytes()))
    for what, flows, options in [
        ("a window", True, ["--window", f"{quarter}ns..{2 * quarter}ns"]),
        # The launches are short: no flow outlives them.
        ("long slices", False, ["--min-duration", "20us"]),
        ("a size", True, ["--max-size", f"{size * 9 // 10}"]),
        ("two ranks without some ops", True, ["--exclude-name", "^aten::linear", "--rank", "0-1"]),
    ]:
        path = folder / "selected.json"
        run = merge(*inputs, "-o", path, *options)
        check(f"{what}: the command says what it left out", run.returncode == 0 and "left out" in run.stderr, run.stderr)
        seen = perfetto(path, what)
        ends = [event["ph"] for event in document(path)["traceEvents"] if event["ph"] in ("s", "t", "f")]
        check(f"{what}: as many flows start as end", ends.count("s") == ends.count("f") and bool(ends) == flows, len(ends))
        check(f"{what}: each end has its slice", seen["flows"]["total"] == len(ends) - ends.count("s"), seen["flows"])
        check(f"{what}: something is left out", seen["slices"]["total"] < whole["slices"]["total"], seen["slices"])


def merge(*arguments: Any) -> Any:
    """Runs `tptrace merge`."""
    return tptrace("merge", *arguments)


def tptrace(*arguments: Any) -> Any:
    command = ["cargo", "run", "--quiet", "--release", "--locked", "--bin", "tptrace", "--"]
    return subprocess.run(
        [*command, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )


def example(name: str, folder: pathlib.Path, *arguments: str) -> None:
    subprocess.run(
        ["cargo", "run", "--quiet", "--release", "--locked", "--example", name, "--", str(folder), *arguments],
        cwd=ROOT,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        given = len(sys.argv) > 1
        folder = pathlib.Path(sys.argv[1]) if given else pathlib.Path(scratch, "demo")
        if not given:
            example("demo", folder)
        demo(folder)
        with section("two ranks merged"):
            merged(folder, 2)
        with section("64 ranks merged"):
            example("demo", pathlib.Path(scratch, "many"), "64")
            merged(pathlib.Path(scratch, "many"), 64)
        collected(pathlib.Path(scratch, "collected"))
        example("odd", pathlib.Path(scratch, "odd"))
        odd(pathlib.Path(scratch, "odd"))
    print(f"clients: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.pop("RANK", None)
    sys.exit(main())
