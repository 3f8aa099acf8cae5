#!/usr/bin/env python3
"""Parses one trace with TensorBoard's PyTorch profiler plugin (no server) and prints what it saw as JSON.

usage: tensorboard.py TRACE      (.json or .json.gz)

exit 0  parsed, and each of the plugin's pages could be made
     2  usage
     3  the plugin could not parse the trace or make a page
     4  the plugin is not installed (run setup.sh)
"""
import collections
import json
import logging
import os
import re
import sys
import tempfile
import warnings

from lib import env


class Notes(logging.Handler):
    """Counts the plugin's warnings by what they say, the numbers in them left out."""

    def __init__(self):
        super().__init__()
        self.seen = collections.Counter()

    def emit(self, record):
        self.seen[re.sub(r"'?-?\d+(\.\d+)?'?", "N", record.getMessage())[:200]] += 1


def summary(data, profile, roles):
    ops = data.op_list_groupby_name or []
    kernels = data.kernel_stat
    gpus = data.gpu_metrics_parser
    attached = [k for k in data.kernel_list_groupby_name_op or [] if k.op_name not in ("N/A", "CallTreeRoot")]
    return {
        "events": dict(collections.Counter(e.type for e in data.events)),
        "steps": data.steps_names,
        "op_threads": len(data.tid2tree),
        "operators": {
            "calls": sum(o.calls for o in ops),
            "with_device_time": sum(o.device_duration > 0 for o in ops),
            "by_name": {o.name[:100]: {"calls": o.calls, "host_us": round(o.host_duration, 3), "device_us": round(o.device_duration, 3)} for o in ops},
        },
        "kernels": 0 if kernels is None else int(kernels["count"].sum()),
        "kernels_by_name": {} if kernels is None else {str(n)[:100]: int(r["count"]) for n, r in kernels.iterrows()},
        "kernels_attached_to_ops": sum(k.calls for k in attached),
        "kernels_by_op": {k.op_name[:100]: k.calls for k in attached},
        "gpus": sorted(gpus.gpu_ids),
        "used_devices": data.used_devices,
        "gpu_utilization": {str(g): round(gpus.gpu_utilization[g], 4) for g in sorted(gpus.gpu_ids)},
        "sm_efficiency": {str(g): gpus.avg_approximated_sm_efficiency_per_device[g] for g in sorted(gpus.gpu_ids)},
        "occupancy": {str(g): gpus.avg_occupancy_per_device[g] for g in sorted(gpus.gpu_ids)},
        "mean_step_us": {role.name: round(cost, 3) for role, cost in zip(roles, data.avg_costs.costs)},
        "memory": data.memory_snapshot is not None,
        "pages": [v.display_name for v in profile.views],
    }


def main(argv):
    if len(argv) != 1 or not os.path.isfile(argv[0]):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    env.use("TensorBoard's plugin")
    warnings.simplefilter("ignore")
    from torch_tb_profiler import consts, utils
    from torch_tb_profiler.profiler.data import RunProfileData
    from torch_tb_profiler.profiler.event_parser import ProfileRole
    from torch_tb_profiler.profiler.run_generator import RunGenerator

    notes = Notes()
    log = utils.get_logger()
    log.handlers, log.propagate = [notes], False
    out = {"reader": "tensorboard", "ok": False, "file": argv[0], "name_found": bool(consts.WORKER_PATTERN.match(os.path.basename(argv[0])))}
    try:
        with tempfile.TemporaryDirectory() as cache:
            data = RunProfileData.parse("worker0", None, argv[0], cache)
            profile = RunGenerator("worker0", None, data).generate_run_profile()
        out.update(summary(data, profile, ProfileRole), ok=True)
    except Exception as e:  # whatever it is, the trace did not open: report it and where
        at = e.__traceback__
        while at.tb_next:
            at = at.tb_next
        code = at.tb_frame.f_code
        out.update(error=f"{type(e).__name__}: {e}"[:400], at=f"{os.path.basename(code.co_filename)}:{at.tb_lineno} {code.co_name}")
    out["notes"] = dict(notes.seen)
    print(json.dumps(out, indent=1, default=str))
    return 0 if out["ok"] else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
