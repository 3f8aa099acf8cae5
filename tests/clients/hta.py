#!/usr/bin/env python3
"""Loads a folder of rank traces into Holistic Trace Analysis (HTA) and prints what it saw as JSON.

usage: hta.py DIR [--last-step]
    DIR          one .json or .json.gz per rank, each with "distributedInfo": {"rank": N}
    --last-step  count the last ProfilerStep too (HTA drops it when there are two or more)

exit 0  loaded, and every analysis ran
     1  loaded, but an analysis raised
     2  usage
     3  HTA could not load the folder
     4  HTA is not installed (run setup.sh)
"""
import collections
import json
import logging
import os
import sys
import warnings

from lib import env


class Notes(logging.Handler):
    """Keeps HTA's own log, without the lines that only say how long something took."""

    def __init__(self):
        super().__init__()
        self.seen = collections.Counter()

    def emit(self, record):
        text = record.getMessage()
        if not text.startswith(("Parsed ", "Overall parsing", "leaving ", "finish ")):
            self.seen[f"{record.levelname}: {text[:200]}"] += 1


def records(frame):
    """A pandas frame as plain rows, rounded so that the JSON stays readable."""
    return json.loads(frame.to_json(orient="records", double_precision=3))


def rank_summary(frame, symbols, path):
    gpu = frame[frame["stream"] >= 0]
    kernels = gpu[gpu["cat"].map(lambda c: symbols[c]) == "kernel"]
    cpu = frame[frame["stream"] < 0]
    return {
        "file": os.path.basename(path),
        "events": len(frame),
        "gpu_events": len(gpu),
        "kernels": len(kernels),
        "streams": sorted(int(s) for s in gpu["stream"].unique()),
        # What HTA needs to walk between a launch and its kernel, in each direction.
        "launches_linked": int((cpu["index_correlation"] > 0).sum()),
        "kernels_linked": int((kernels["index_correlation"] > 0).sum()),
        "iterations": sorted(int(i) for i in frame["iteration"].dropna().unique() if i >= 0),
        "gpu_iterations": sorted(int(i) for i in gpu["iteration"].dropna().unique() if i >= 0),
        "categories": {symbols[c]: int(n) for c, n in sorted(frame["cat"].value_counts().items())},
    }


def analyses(analysis):
    """Each analysis by name, as a call that gives plain JSON."""
    def breakdown():
        by_type, by_kernel = analysis.get_gpu_kernel_breakdown(visualize=False, include_memory_kernels=True)
        return {"by_type": records(by_type), "by_kernel": records(by_kernel)}

    def launches():
        stats = analysis.get_cuda_kernel_launch_stats(ranks=sorted(analysis.t.traces), include_memory_events=True, visualize=False)
        return {str(rank): {"launches": len(f), "negative_delay": int((f["launch_delay"] < 0).sum()), "first": records(f.head(3))} for rank, f in stats.items()}

    return {
        "temporal_breakdown": lambda: records(analysis.get_temporal_breakdown(visualize=False)),
        "gpu_kernel_breakdown": breakdown,
        "comm_comp_overlap": lambda: records(analysis.get_comm_comp_overlap(visualize=False)),
        "cuda_kernel_launch_stats": launches,
    }


def main(argv):
    last_step = "--last-step" in argv
    folders = [a for a in argv if a != "--last-step"]
    if len(folders) != 1 or not os.path.isdir(folders[0]):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    env.use("HTA")
    warnings.simplefilter("ignore")
    notes = Notes()
    log = logging.getLogger("hta")
    log.handlers, log.propagate = [notes], False
    from hta.trace_analysis import TraceAnalysis

    out = {"reader": "hta", "ok": False, "dir": folders[0]}
    try:
        analysis = TraceAnalysis(trace_dir=folders[0], include_last_profiler_step=last_step)
        symbols = analysis.t.symbol_table.get_sym_table()
        out["ranks"] = {str(r): rank_summary(f, symbols, analysis.t.trace_files[r]) for r, f in sorted(analysis.t.traces.items())}
    except Exception as e:  # whatever it is, the folder did not open: report it
        print(json.dumps({**out, "error": f"{type(e).__name__}: {e}"[:600], "notes": dict(notes.seen)}, indent=1))
        return 3
    out["errors"] = {}
    for name, run in analyses(analysis).items():
        try:
            out[name] = run()
        except Exception as e:
            out["errors"][name] = f"{type(e).__name__}: {e}"[:400]
    out["ok"] = not out["errors"]
    out["notes"] = dict(notes.seen)
    print(json.dumps(out, indent=1))
    return 0 if out["ok"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
