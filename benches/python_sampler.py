#!/usr/bin/env python3
"""What sampling costs a program: tptrace.Sampler, and TensorPlay's sampler where it is installed.

usage: python_sampler.py [--seconds S] [--rounds N] [--period MS] [--threads N]

A thread computes while others wait, some thirty calls deep. Every round runs all contestants one after the other; medians
of what is computed in a second, as a ratio to that without a sampler, and of the processor time for one stack.
"""

import argparse
import os
import statistics
import threading
import time

import tptrace


def compute(until):
    """Small calls, as Python programs make them."""
    done = 0
    while time.perf_counter() < until:
        for number in range(100):
            done += len(str(number * number)) > 0
    return done


def deep(depth, function, *given):
    return deep(depth - 1, function, *given) if depth else function(*given)


class Nothing:
    def __init__(self):
        self.taken = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Ours(Nothing):
    def __init__(self, period):
        super().__init__()
        self.trace = tptrace.Trace()
        self.sampler = tptrace.Sampler(self.trace, period)

    def __enter__(self):
        self.sampler.start()
        return self

    def __exit__(self, *_):
        self.sampler.stop()
        self.taken = self.sampler.counts().samples
        self.trace.close()


class Theirs(Nothing):
    def __init__(self, period):
        from tensorplay.profiler.python_tracer import PySampler

        super().__init__()
        os.environ["TP_PROFILER_SAMPLE_MS"] = str(period)
        self.sampler = PySampler(lambda: True)

    def __enter__(self):
        self.sampler.start()
        return self

    def __exit__(self, *_):
        self.sampler.stop()
        self.taken = len(self.sampler.samples)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--period", type=float, default=5.0)
    parser.add_argument("--threads", type=int, default=8)
    given = parser.parse_args()
    go_on = threading.Event()
    waiting = [threading.Thread(target=deep, args=(30, go_on.wait), daemon=True) for _ in range(given.threads)]
    for thread in waiting:
        thread.start()
    contests = {"no sampler": Nothing, "tptrace.Sampler": lambda: Ours(given.period)}
    try:
        import tensorplay.profiler.python_tracer  # noqa: F401
    except ImportError:
        print("skipped: TensorPlay is not installed")
    else:
        contests["TensorPlay's sampler"] = lambda: Theirs(given.period)
    speeds, costs, taken = ({name: [] for name in contests} for _ in range(3))
    for _ in range(given.rounds):
        for name, make in contests.items():
            with make() as sampler:
                own, whole = time.thread_time(), time.process_time()
                done = deep(30, compute, time.perf_counter() + given.seconds)
                own, whole = time.thread_time() - own, time.process_time() - whole
            speeds[name].append(done / given.seconds)
            costs[name].append((whole - own) / max(sampler.taken, 1))
            taken[name].append(sampler.taken)
    go_on.set()
    base = statistics.median(speeds["no sampler"])
    for name in contests:
        print(
            f"{name:22} {statistics.median(speeds[name]) / base:6.3f} of the speed   {statistics.median(taken[name]):6.0f} stacks"
            f"   {statistics.median(costs[name]) * 1e6:7.2f} µs of processor time each"
        )


if __name__ == "__main__":
    main()
