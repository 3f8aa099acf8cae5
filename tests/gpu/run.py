#!/usr/bin/env python3
"""Shows that tptrace sees on a real GPU what torch.profiler sees.

usage: run.py [--require]      --require: fail, instead of skipping, where there is no GPU

Needs the packages tptrace and torch (with CUDA) in the Python that runs it, and takes one to three minutes. Each part runs
in a process of its own: one profiler serves a process at a time. Ends with `gpu: N passed, N failed, N skipped`.
"""

from __future__ import annotations

import collections
import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
STEPS = 5
LAUNCHES = 20_000
passed = failed = 0


def check(what: str, holds: Any, seen: Any = "") -> None:
    """One line, and one more in the count."""
    global passed, failed
    if holds:
        passed += 1
        print(f"ok      {what}")
    else:
        failed += 1
        print(f"FAILED  {what}: {str(seen)[:1500]}")


class Workload:
    """A small training run with copies in both directions, fills, two streams, and waits. The same every time."""

    def __init__(self) -> None:
        import torch

        torch.manual_seed(1)
        torch.backends.cudnn.benchmark = False
        self.torch = torch
        self.model = torch.nn.Sequential(
            torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256), torch.nn.Softmax(dim=-1)
        ).cuda()
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.input = torch.randn(64, 512).pin_memory()
        self.side = torch.cuda.Stream()

    def parts(self) -> list[tuple[str, Any]]:
        """The parts of a step, each of which a profiler may name."""
        torch = self.torch
        state: dict[str, Any] = {}

        def copy_in() -> None:
            state["x"] = self.input.to("cuda", non_blocking=True)

        def forward() -> None:
            state["loss"] = self.model(state["x"]).square().mean()

        def backward() -> None:
            self.optimiser.zero_grad(set_to_none=False)
            state["loss"].backward()

        def update() -> None:
            self.optimiser.step()

        def aside() -> None:
            self.side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.side):
                state["sum"] = torch.zeros(1 << 20, device="cuda").add_(1.0).sum()
            torch.cuda.current_stream().wait_stream(self.side)

        def copy_out() -> None:
            state["sum"].cpu()

        return [(call.__name__, call) for call in (copy_in, forward, backward, update, aside, copy_out)]

    def warm(self) -> None:
        """Loads what is loaded lazily, and makes the allocator's pools."""
        for _ in range(3):
            for _, call in self.parts():
                call()
        self.torch.cuda.synchronize()


def seen_in(path: pathlib.Path) -> dict[str, Any]:
    """Counts of what a trace shows, by category and name."""
    events = json.loads(path.read_text())["traceEvents"]
    counts: dict[str, Any] = {}
    for cat in ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime"):
        counts[cat] = collections.Counter(e["name"] for e in events if e.get("ph") == "X" and e.get("cat") == cat)
    copies = [e for e in events if e.get("ph") == "X" and e.get("cat") == "gpu_memcpy"]
    counts["bytes"] = collections.Counter(e["args"]["bytes"] for e in copies)
    kernels = [e for e in events if e.get("ph") == "X" and e.get("cat") == "kernel"]
    counts["details"] = collections.Counter(
        (e["name"], tuple(e["args"]["grid"]), tuple(e["args"]["block"]), e["args"]["registers per thread"]) for e in kernels
    )
    return counts


def with_torch(path: pathlib.Path) -> None:
    """Child: the workload under torch.profiler."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    work = Workload()
    work.warm()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(STEPS):
            for _, call in work.parts():
                call()
        torch.cuda.synchronize()
    profiler.export_chrome_trace(str(path))


def with_tptrace(path: pathlib.Path) -> None:
    """Child: the workload under tptrace. Prints what else a parent needs to know."""
    import threading

    import torch
    import tptrace

    work = Workload()
    work.warm()
    told: dict[str, Any] = {}
    with tptrace.Trace() as trace:
        trace.set_rank(0, 1)
        started = time.perf_counter()
        trace.gpu_start()
        told["start_s"] = time.perf_counter() - started
        number = 0
        for step in range(STEPS):
            step_start = tptrace.now_ns()
            for name, call in work.parts():
                number += 1
                start = tptrace.now_ns()
                with trace.gpu_op(number):
                    call()
                trace.add_op(name, start, tptrace.now_ns(), id=number, thread_id=threading.get_native_id())
            trace.add_op(
                f"ProfilerStep#{step}",
                step_start,
                tptrace.now_ns(),
                id=1_000_000 + step,
                kind="user_annotation",
                thread_id=threading.get_native_id(),
            )
        torch.cuda.synchronize()
        started = time.perf_counter()
        report = trace.gpu_stop()
        told["stop_s"] = time.perf_counter() - started
        told["report"] = report._asdict()
        trace.write(path, format="torch")
        # Again and again, with work between and during.
        again = []
        for _ in range(10):
            trace.gpu_start()
            torch.ones(1024, device="cuda").add_(1)
            again.append(trace.gpu_stop().kernels)
        told["again"] = again
    print(json.dumps(told))


def beside_torch() -> None:
    """Child: what tptrace says while torch.profiler has the GPU."""
    import torch
    import tptrace
    from torch.profiler import ProfilerActivity, profile

    torch.ones(4, device="cuda")
    said = "started"
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler, tptrace.Trace() as trace:
        try:
            trace.gpu_start()
        except tptrace.GpuBusyError as error:
            said = f"busy: {error}"
        torch.ones(4, device="cuda").add_(1)
        torch.cuda.synchronize()
    kernels = sum(event.device_type.name == "CUDA" for event in profiler.events())
    print(json.dumps({"said": said, "kernels": kernels}))


def cost(how: str) -> None:
    """Child: nanoseconds that a launch takes the CPU, without a profiler, under tptrace, or under torch.profiler."""
    import torch
    import tptrace
    from torch.profiler import ProfilerActivity, profile

    x = torch.zeros(16, device="cuda")

    def launches() -> float:
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        for _ in range(LAUNCHES):
            x.add_(1)
        taken = (time.perf_counter_ns() - start) / LAUNCHES
        torch.cuda.synchronize()
        return taken

    launches()
    rounds = []
    for _ in range(5):
        if how == "tptrace":
            with tptrace.Trace() as trace:
                trace.gpu_start()
                rounds.append(launches())
                assert trace.gpu_stop().kernels == LAUNCHES
        elif how == "torch":
            # Kernels and calls, as tptrace: no ops of the CPU's.
            with profile(activities=[ProfilerActivity.CUDA]):
                rounds.append(launches())
        else:
            rounds.append(launches())
    print(json.dumps(statistics.median(rounds)))


def child(*arguments: Any) -> str:
    """Runs a part of this script in a process of its own."""
    run = subprocess.run(
        [sys.executable, str(HERE / "run.py"), "--child", *map(str, arguments)], capture_output=True, text=True, timeout=240
    )
    if run.returncode != 0:
        raise RuntimeError(f"{arguments}: {run.returncode}\n{run.stdout}{run.stderr}")
    return run.stdout.strip().splitlines()[-1] if run.stdout.strip() else ""


def compare(folder: pathlib.Path) -> None:
    """The same work seen by both."""
    child("torch", folder / "torch.json")
    told = json.loads(child("tptrace", folder / "rank0.pt.trace.json"))
    theirs, ours = seen_in(folder / "torch.json"), seen_in(folder / "rank0.pt.trace.json")
    for cat in ("kernel", "gpu_memcpy", "gpu_memset"):
        check(f"{cat}: the same names as often", ours[cat] == theirs[cat] and ours[cat], (ours[cat] - theirs[cat], theirs[cat] - ours[cat]))
    check("copies: the same bytes", ours["bytes"] == theirs["bytes"], (ours["bytes"], theirs["bytes"]))
    check("kernels: the same grids, blocks and registers", ours["details"] == theirs["details"], (ours["details"], theirs["details"]))
    for name in ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync"):
        check(f"{name}: as often", ours["cuda_runtime"][name] == theirs["cuda_runtime"][name], (ours["cuda_runtime"], theirs["cuda_runtime"]))
    report = told["report"]
    check("nothing odd is reported", report["warnings"] == [], report)
    check("nothing is lost", report["dropped"] == report["kept_buffers"] == report["no_times"] == report["out_of_window"] == 0, report)
    check("each later collection sees its kernels", all(count >= 2 for count in told["again"]), told["again"])
    check("a start takes less than a second", told["start_s"] < 1, told["start_s"])
    check("a stop takes less than a second", told["stop_s"] < 1, told["stop_s"])

    document = json.loads((folder / "rank0.pt.trace.json").read_text())
    events = document["traceEvents"]
    check("the devices are described", document["deviceProperties"] and document["cuda_driver_version"] > 0, document["deviceProperties"])
    work = [e for e in events if e.get("ph") == "X" and e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    ops = {e["args"]["External id"]: e for e in events if e.get("cat") == "cpu_op"}
    linked = [e for e in work if e["args"].get("External id") in ops]
    # The backward pass runs on a thread of PyTorch's own, where nobody names an op.
    check("most work knows its op", len(linked) > len(work) / 2, (len(linked), len(work)))
    late = [e for e in linked if e["ts"] < ops[e["args"]["External id"]]["ts"]]
    check("none starts before its op", not late, late[:3])
    calls = {e["args"]["correlation"]: e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")}
    early = [e for e in work if e["args"]["correlation"] in calls and e["ts"] < calls[e["args"]["correlation"]]["ts"]]
    check("none starts before its call", not early, early[:3])
    orphans = [e for e in work if e["args"]["correlation"] not in calls]
    check("each has its call", not orphans, orphans[:3])
    ends = {e["id"] for e in events if e.get("ph") == "f"}
    check("each has a flow", all(e["args"]["correlation"] in ends for e in work), len(ends))
    print(f"        start {told['start_s'] * 1000:.1f} ms, stop {told['stop_s'] * 1000:.1f} ms, clocks within {report['clock_uncertainty_ns']} ns")


def readers(folder: pathlib.Path) -> bool:
    """The real trace readers, where tests/clients/setup.sh has installed them."""
    clients = HERE.parent / "clients"
    if not (clients / ".env").is_dir():
        return False
    path = folder / "rank0.pt.trace.json"
    run = subprocess.run(["node", str(clients / "perfetto.mjs"), str(path)], capture_output=True, text=True)
    seen = json.loads(run.stdout)
    check("Perfetto imports it with no error", run.returncode == 0, seen.get("problems"))
    check("no flow runs backwards", seen["flows"]["backwards"] == 0, seen["flows"])
    run = subprocess.run([sys.executable, str(clients / "hta.py"), str(folder)], capture_output=True, text=True)
    check("HTA loads it and every analysis runs", run.returncode == 0, run.stdout[-1000:] + run.stderr[-1000:])
    return True


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        what, *rest = sys.argv[2:]
        {"torch": with_torch, "tptrace": with_tptrace}.get(what, lambda *_: None)(*map(pathlib.Path, rest))
        if what == "beside":
            beside_torch()
        if what == "cost":
            cost(*rest)
        return 0
    why = ""
    if importlib.util.find_spec("tptrace") is None:
        why = "no package tptrace"
    else:
        import tptrace

        info = tptrace.gpu_info()
        if not info.ready:
            why = f"{info.state}: {info.reason}"
        elif importlib.util.find_spec("torch") is None:
            why = "no package torch"
    if why:
        print(f"skipped: {why}")
        print("gpu: 0 passed, 0 failed, 1 skipped")
        return 1 if "--require" in sys.argv else 0
    print(f"        {[device.name for device in info.devices]}, CUPTI {info.cupti.version if info.cupti else 0}")
    skipped = 0
    with tempfile.TemporaryDirectory() as scratch:
        compare(pathlib.Path(scratch))
        skipped += not readers(pathlib.Path(scratch))
    beside = json.loads(child("beside"))
    check("beside torch.profiler it says who is in the way", beside["said"].startswith("busy"), beside)
    check("and torch.profiler goes on", beside["kernels"] > 0, beside)
    bare, ours, theirs = (json.loads(child("cost", how)) for how in ("bare", "tptrace", "torch"))
    print(f"        a launch: {bare:.0f} ns bare, +{ours - bare:.0f} ns with tptrace, +{theirs - bare:.0f} ns with torch.profiler")
    check("a launch costs no more than with torch.profiler", ours - bare <= (theirs - bare) * 1.1 + 100, (bare, ours, theirs))
    print(f"gpu: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
