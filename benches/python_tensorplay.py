#!/usr/bin/env python3
"""What TensorPlay's own calls take before and after `tptrace.integrate.tensorplay()`, on a real run.

    pip install ./bindings/python tensorplay==1.0.0
    python benches/python_tensorplay.py [--steps 400] [--rounds 3]

Trains a small model under TensorPlay's profiler, then exports and merges with its own calls, in turns; prints medians and
ratios.
"""

import argparse
import contextlib
import os
import statistics
import tempfile
import time

import tensorplay
import tensorplay.profiler

import tptrace


def trained(steps):
    nn = tensorplay.nn
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = tensorplay.optim.SGD(model.parameters(), lr=0.01)
    with tensorplay.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True) as profile:
        for _ in range(steps):
            loss = ((model(tensorplay.randn(16, 32)) - tensorplay.randn(16, 1)) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return profile


def timed(function, *given, **named):
    start = time.perf_counter()
    function(*given, **named)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    profile = trained(given.steps)
    ops = len(profile._ensure_events())
    # By what is called: the seconds before and after.
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(given.rounds):
            for after in (0, 1):
                with tptrace.integrate.tensorplay() if after else contextlib.nullcontext():
                    for name, torch_compat in (("plain.json", False), ("torch.json", True), ("torch.json.gz", True)):
                        path = os.path.join(folder, f"{after}.{name}")
                        taken = timed(profile.export_chrome_trace, path, torch_compat=torch_compat)
                        seconds.setdefault(f"export, {name}", ([], []))[after].append(taken)
                    paths = [os.path.join(folder, f"{after}.torch.json")] * 2
                    merged = os.path.join(folder, f"{after}.merged.json")
                    taken = timed(tensorplay.profiler.merge_distributed_traces, paths, merged)
                    seconds.setdefault("merge of two", ([], []))[after].append(taken)
    print(f"{ops} ops, {len(profile.mem_events)} memory events")
    for name, (before, after) in seconds.items():
        one, other = statistics.median(before), statistics.median(after)
        print(f"{name:24} before {one:8.4f} s   after {other:8.4f} s   {one / other:7.1f} times")


if __name__ == "__main__":
    main()
