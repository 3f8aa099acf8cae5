"""TensorPlay's exporter and tptrace's drop-in for it, side by side on the same lists of tuples.

    pip install ./bindings/python tensorplay==1.0.0
    python benches/python_export.py [--ops 1000000] [--rounds 5] [--reference-rounds 1]

Prints medians, the spread between the quartiles, and the ratio. The events are those of benches/workload/mod.rs.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import statistics
import tempfile
import time

import tptrace

BASE = 1_000_000_000


class EventList(list):
    """What TensorPlay hands to its exporter."""

    base_ns = BASE
    gpu_activities: list = []
    mem_events: list = []
    samples: list = []


def events(ops: int) -> EventList:
    names = [f"aten::operation_{i}" for i in range(200)]
    kernels = [f"void at::native::vectorized_elementwise_kernel<4, functor_{i}>(int, float*)" for i in range(50)]
    sites = [f"/home/user/project/model/layers.py:{10 + i}" for i in range(100)]
    sizes = [32, 1024, 1024, 4096, 7]
    result = EventList()
    activities = result.gpu_activities = []
    for i in range(ops):
        start = BASE + i * 2_000 + i * 7_919 % 997
        end = start + 500 + i * 104_729 % 1_400
        a, b, c, d = sizes[i % 2 : i % 2 + 4]
        result.append(
            (
                names[i * 31 % 200], "o", start, end, 140_000_000_000_000 + i % 4 * 4_096,
                # New objects for each event, as a C++ profiler makes them.
                [[a, b], [c, d]], [8, 8], sites[i * 17 % 100], -1.0, -1, None, 0, 0,
            )  # fmt: skip
        )
        if i % 2 == 0:
            n = i // 2
            activities.append(
                (
                    kernels[n * 13 % 50], "k", end + 3_000, end + 3_300 + n * 7_907 % 900, 0, 7 + n % 2 * 13, n + 1, i,
                    0, 0, 0, 0, 0,
                )  # fmt: skip
            )
    return result


def timed(export, data: EventList, path: str) -> float:
    if os.path.exists(path):
        os.unlink(path)
    start = time.perf_counter()
    export(data, path)
    return time.perf_counter() - start


def show(name: str, seconds: list[float], size: int, reference: float | None) -> None:
    low, middle, high = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else seconds * 3
    ratio = f"{reference / middle:8.1f} times" if reference else ""
    print(f"{name:28} {middle:8.3f} s  {low:.3f} - {high:.3f}  {size / 1e6:7.1f} MB {ratio}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ops", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--reference-rounds", type=int, default=1, help="0 leaves it out: it takes two minutes")
    options = parser.parse_args()
    data = events(options.ops)
    gc.collect()
    gc.freeze()
    reference = None
    if options.reference_rounds:
        from tensorplay.profiler._chrome_trace_export import export_chrome_trace as reference
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".json", ".json.gz"):
            path = os.path.join(folder, "trace" + suffix)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            ours = [timed(tptrace.export_chrome_trace, data, path) for _ in range(options.rounds)]
            added = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            size = os.path.getsize(path)
            middle = None
            if reference is not None:
                theirs = [timed(reference, data, path) for _ in range(options.reference_rounds)]
                middle = statistics.median(theirs)
                show(f"TensorPlay, {suffix}", theirs, os.path.getsize(path), None)
            show(f"tptrace, {suffix}", ours, size, middle)
            print(f"{'':28} peak memory added by tptrace: {added / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
