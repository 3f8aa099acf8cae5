#!/usr/bin/env python3
"""What a span costs in Python, beside VizTracer's log_event and torch.profiler.record_function where they are installed.

usage: python_spans.py [--spans N] [--rounds N]

Every round runs all contestants one after the other; medians in nanoseconds for one span, less the loop around it.
"""

import argparse
import contextlib
import statistics
import time

import tptrace


def timed(make, spans):
    start = time.perf_counter_ns()
    for _ in range(spans):
        with make():
            pass
    return (time.perf_counter_ns() - start) / spans


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spans", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    trace = tptrace.Trace(record_bytes=64 << 20, keep_recent=True)
    tptrace.set_current_trace(trace)
    made = trace.span("span")
    contests = {
        "a context manager that does nothing": contextlib.nullcontext,
        "tptrace.span, made once": lambda: made,
        "tptrace.span": lambda: tptrace.span("span"),
        "tptrace.span with an argument": lambda: tptrace.span("span", n=3),
    }
    try:
        from viztracer import VizTracer
    except ImportError:
        print("skipped: VizTracer is not installed")
    else:
        tracer = VizTracer(tracer_entries=1_000_000, verbose=0, max_stack_depth=0)
        tracer.start()
        contests["VizTracer log_event"] = lambda: tracer.log_event("span")
    try:
        from torch.profiler import record_function
    except ImportError:
        print("skipped: PyTorch is not installed")
    else:
        contests["torch.profiler.record_function, no profiler"] = lambda: record_function("span")
    seconds = {name: [] for name in contests}
    for _ in range(given.rounds):
        for name, make in contests.items():
            seconds[name].append(timed(make, given.spans))
    nothing = statistics.median(seconds["a context manager that does nothing"])
    for name, times in seconds.items():
        print(f"{name:44} {statistics.median(times):8.0f} ns   {statistics.median(times) - nothing:8.0f} ns more than nothing")


if __name__ == "__main__":
    main()
