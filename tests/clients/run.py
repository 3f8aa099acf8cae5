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
import shutil
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
        run = command("convert", path, "-o", own)
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
        check("they are converted", command("convert", folder / "kept" / "kept.json", "-o", own).returncode == 0)
        status, seen = reader("perfetto.mjs", own)
        check("and not lost in Perfetto's own format", status == 0 and seen["slices"]["total"] >= 401, seen)


def collected(folder: pathlib.Path) -> None:
    """A run whose GPU work was collected through CUPTI: a fake one, of the tests."""
    folder.mkdir()
    test = "ops::a_training_run_for_the_readers"
    run = subprocess.run(
        ["cargo", "test", "--quiet", "--locked", "--features", "tracing", "--test", "gpu", test, "--", "--exact"],
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


ROWS = """SELECT s.track_id AS track, t.name AS row, s.name AS name, s.depth AS depth FROM slice s
    JOIN track t ON t.id = s.track_id WHERE s.category = 'user_annotation' AND t.id NOT IN (SELECT id FROM thread_track)
    ORDER BY s.track_id, s.ts, s.depth"""
THREADS = """SELECT s.name AS name, p.name AS parent FROM slice s JOIN thread_track t ON t.id = s.track_id
    LEFT JOIN slice p ON p.id = s.parent_id WHERE s.category = 'user_annotation' ORDER BY s.ts"""


def recorded(folder: pathlib.Path) -> None:
    """Async code, a schedule and a sampler in Python."""
    python = {**os.environ, "TPTRACE_LIBRARY": str(BUILT / "libtptrace.so"), "PYTHONPATH": str(ROOT / "bindings" / "python" / "src")}
    script = ROOT / "examples" / "python" / "async_steps.py"
    run = subprocess.run([sys.executable, script, folder], env=python, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    check("the example runs", run.returncode == 0, run.stderr)
    paths = sorted(folder.iterdir())
    check("each cycle made a trace", len(paths) == 2, paths)
    for path, steps in zip(paths, (["2", "3"], ["6", "7"])):
        status, seen = reader("perfetto.mjs", path, "--sql", ROWS, "--sql", THREADS)
        check("Perfetto imports it with no error", status == 0, seen.get("problems") or seen.get("error"))
        rows, threads = (answer["rows"] for answer in seen["sql"])
        nested = {name: {r["depth"] for r in rows if r["name"] == name} for name in ("request", "fetch", "answer")}
        check("what a request awaits is nested in its row", nested == {"request": {0}, "fetch": {1}, "answer": {1}}, nested)
        tracks = [[r["name"] for r in rows if r["track"] == track] for track in {r["track"] for r in rows}]
        whole = all(names == ["request", "fetch", "answer"] * (len(names) // 3) for names in tracks)
        check("requests do not share a row while they overlap", whole and len(rows) == 2 * 4 * 3, tracks)
        inside = {name: {r["parent"] for r in threads if r["name"] == name} for name in ("request", "fetch", "decode", "load")}
        step = {f"ProfilerStep#{number}" for number in steps}
        check("on the thread all nest in the code that ran them", inside["fetch"] == inside["decode"] == {"request"}, inside)
        check("and in their steps", inside["request"] == inside["load"] == step, inside)
        check("stacks were sampled", seen["categories"].get("python_function", 0) > 0, seen["categories"])
        status, seen = reader("tensorboard.py", path)
        check("TensorBoard's plugin lists the steps", status == 0 and seen["steps"] == steps, seen)


# Slices by name, as the summary has them: the children of a slice are those that Perfetto nests in it.
BY_NAME = """WITH kids AS (SELECT parent_id, sum(dur) AS dur FROM slice GROUP BY 1)
    SELECT ifnull(category, '') AS category, s.name AS name, count(*) AS count, sum(s.dur) AS total_ns,
        sum(s.dur - ifnull(kids.dur, 0)) AS self_ns, min(s.dur) AS min_ns, max(s.dur) AS max_ns
    FROM slice s LEFT JOIN kids ON kids.parent_id = s.id GROUP BY 1, 2"""


def same_names(path: pathlib.Path, summary: Any, what: str) -> None:
    """Counts and times of each name, as Perfetto's engine has them."""
    keys = ("count", "total_ns", "self_ns", "min_ns", "max_ns")
    rows = reader("perfetto.mjs", path, "--sql", BY_NAME)[1]["sql"][0]["rows"]
    theirs = {(row["category"], row["name"]): [int(row[key]) for key in keys] for row in rows}
    ours = {(row["category"], row["name"]): [row[key] for key in keys] for row in summary["names"]}
    differ = {name: (row, theirs.get(name)) for name, row in ours.items() if theirs.get(name) != row}
    check(f"{what}: Perfetto has the same numbers of each name", ours and not differ, list(differ.items())[:4])


def same_gpu(ranks: list[Any], seen: Any, what: str) -> None:
    """Where the GPU's time goes, as HTA has it, in us."""
    theirs = {row["rank"]: row for row in seen["temporal_breakdown"]}
    overlap = {row["rank"]: row["comp_comm_overlap_pctg"] for row in seen["comm_comp_overlap"]}
    for rank in ranks:
        gpu, row = rank["gpu"], theirs[rank["rank"]]
        ours = [
            gpu["idle_ns"],
            gpu["compute_ns"],
            gpu["busy_ns"] - gpu["compute_ns"],
            rank["gpu_span_ns"],
        ]
        names = ("idle_time(us)", "compute_time(us)", "non_compute_time(us)", "kernel_time(us)")
        check(f"{what}: HTA has the same times", all(abs(a / 1000 - row[n]) < 0.05 for a, n in zip(ours, names)), (ours, row))
        if gpu["communication_ns"]:
            percent = round(100 * gpu["overlap_ns"] / gpu["communication_ns"], 2)
            check(f"{what}: and the same overlap", abs(percent - overlap[rank["rank"]]) < 0.011, (percent, overlap))


def summed(folder: pathlib.Path) -> None:
    """The numbers of `tptrace summary` are those of the readers."""
    paths = sorted(folder.glob("rank*.pt.trace.json.gz"))
    summaries = [json.loads(command("summary", "--json", path).stdout) for path in paths]
    for path, summary in zip(paths, summaries):
        same_names(path, summary, path.name)
    # HTA rounds times to whole us otherwise, and takes every file of a folder for a rank.
    os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
    with tempfile.TemporaryDirectory() as alone:
        for path in paths:
            shutil.copy(path, alone)
        seen = reader("hta.py", alone, "--last-step")[1]
    del os.environ["HTA_DISABLE_NS_ROUNDING"]
    same_gpu([summary["ranks"][0] for summary in summaries], seen, "both ranks")
    found = command("check", "--strict", *paths, folder / "plain" / "rank0.json", folder / "merged.json.gz")
    check("a check finds nothing in what we write", found.returncode == 0, found.stdout)
    whole = json.loads(command("summary", "--json", folder / "merged.json.gz").stdout)
    same_gpu(whole["ranks"], seen, "merged")
    same_names(folder / "merged.json.gz", whole, "merged")


DEPTHS = """SELECT s.name, s.depth, t.name AS thread, COUNT(*) AS count FROM slice s JOIN thread_track k ON s.track_id = k.id
    JOIN thread t USING (utid) WHERE s.category IN ('train', 'io', 'cpu_op', 'user_annotation') GROUP BY 1, 2, 3 ORDER BY 3, 2"""


def recovered(folder: pathlib.Path) -> None:
    """What a program had recorded when it was aborted."""
    folder.mkdir()
    journal, path = folder / "journal", folder / "recovered.json.gz"
    run = subprocess.run([BUILT / "examples" / "crash", journal], cwd=ROOT, capture_output=True, stdin=subprocess.DEVNULL)
    check("the program is aborted", run.returncode != 0 and journal.exists(), run.returncode)
    run = command("recover", journal, "-o", path)
    check("its journal is recovered", run.returncode == 0 and "unfinished" in run.stderr, run.stderr)
    perfetto(path, "recovered")
    _, seen = reader("perfetto.mjs", path, "--sql", DEPTHS)
    rows = {(row["thread"], row["name"], row["depth"]): row["count"] for row in seen["sql"][0]["rows"]}
    expected = {(thread, "epoch", 0) for thread in ("loader", "trainer")} | {("loader", "load", 1), ("trainer", "step", 1)}
    expected |= {(thread, "aten::mm", 2) for thread in ("loader", "trainer")}
    check("spans are nested on their threads", rows.keys() == expected, rows)
    check("two threads were in the middle of something", document(path)["tptrace"]["recovered"]["unfinished"] >= 4)
    check("a second of it is there", all(rows[key] > 100 for key in expected if key[2] > 0), rows)
    native = folder / "recovered.pftrace"
    run = command("recover", "-q", journal, "-o", native)
    check("it is recovered in Perfetto's format too", run.returncode == 0 and run.stderr == "", run.stderr)
    status, seen = reader("perfetto.mjs", native, "--sql", DEPTHS)
    again = {(row["thread"], row["name"], row["depth"]): row["count"] for row in seen["sql"][0]["rows"]}
    check("with the same spans on the same threads", status == 0 and again == rows, again)


NESTED = """SELECT s.name, p.name AS parent, t.name AS thread, COUNT(*) AS count FROM slice s
    JOIN thread_track k ON s.track_id = k.id JOIN thread t USING (utid) LEFT JOIN slice p ON p.id = s.parent_id
    WHERE s.category IN ('user_annotation', 'linked', 'loaded') AND s.name NOT LIKE 'PyTorch%' GROUP BY 1, 2, 3"""


def parts(folder: pathlib.Path) -> None:
    """A C++ program with a library that links tptrace and one that has the headers only, on three threads."""
    folder.mkdir()
    source = ROOT / "tests" / "cpp" / "parts"
    compile = ["g++", "-std=c++17", "-O1", "-pthread", f"-I{ROOT / 'include'}", f"-I{ROOT / 'bindings' / 'cpp'}"]
    tptrace, here = [f"-L{BUILT}", "-ltptrace", f"-Wl,-rpath,{BUILT}"], [f"-L{folder}", f"-Wl,-rpath,{folder}"]
    for arguments in (
        ["-shared", "-fPIC", source / "linked.cpp", "-o", folder / "liblinked.so", *tptrace],
        ["-shared", "-fPIC", source / "loaded.cpp", "-o", folder / "libloaded.so", "-ldl"],
        [source / "main.cpp", "-o", folder / "main", *here, "-llinked", "-lloaded", *tptrace],
    ):
        subprocess.run([*compile, *map(str, arguments)], check=True, stdin=subprocess.DEVNULL)
    path = folder / "parts.json.gz"
    check("the program runs", subprocess.run([folder / "main", path], stdin=subprocess.DEVNULL).returncode == 0)
    perfetto(path, "parts")
    _, seen = reader("perfetto.mjs", path, "--sql", NESTED)
    rows = {(row["name"], row["parent"], row["thread"]): row["count"] for row in seen["sql"][0]["rows"]}
    expected = {("program", None, "main"): 1, ("both", "program", "main"): 1}
    for part in ("linked", "loaded"):
        expected[f"thread of {part}", None, part] = 1
        for parent, thread, count in ((f"thread of {part}", part, 50), ("both", "main", 1)):
            expected[f"{part} work", parent, thread] = count
            expected[f"{part} detail", f"{part} work", thread] = count
    check("spans are nested and named on the right threads", rows == expected, rows)


BUILT = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"), "release").resolve()


def build() -> None:
    """The library, the command and the examples in one go: one by one, each would build the library again, with other features."""
    subprocess.run(["cargo", "build", "--quiet", "--release", "--locked", "--lib", "--bins", "--examples"], cwd=ROOT, check=True)


def command(*arguments: Any) -> Any:
    """Runs `tptrace`."""
    run = [BUILT / "tptrace", *map(str, arguments)]
    return subprocess.run(run, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def merge(*arguments: Any) -> Any:
    return command("merge", *arguments)


def example(name: str, folder: pathlib.Path, *arguments: str) -> None:
    run = [BUILT / "examples" / name, folder, *arguments]
    subprocess.run(run, cwd=ROOT, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def main() -> int:
    build()
    with tempfile.TemporaryDirectory() as scratch:
        given = len(sys.argv) > 1
        folder = pathlib.Path(sys.argv[1]) if given else pathlib.Path(scratch, "demo")
        if not given:
            example("demo", folder)
        demo(folder)
        with section("two ranks merged"):
            merged(folder, 2)
        with section("summary and check"):
            summed(folder)
        with section("64 ranks merged"):
            example("demo", pathlib.Path(scratch, "many"), "64")
            merged(pathlib.Path(scratch, "many"), 64)
        collected(pathlib.Path(scratch, "collected"))
        example("odd", pathlib.Path(scratch, "odd"))
        odd(pathlib.Path(scratch, "odd"))
        with section("a program of several parts"):
            parts(pathlib.Path(scratch, "parts"))
        with section("recovered"):
            recovered(pathlib.Path(scratch, "crash"))
        with section("recorded in Python"):
            recorded(pathlib.Path(scratch, "recorded"))
    print(f"clients: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.pop("RANK", None)
    sys.exit(main())
