"""TensorPlay's merge with orjson, and with isal's igzip if it is there, else gzip level 1: what a fast Python can do.

usage: orjson_merge.py OUT INPUT...
"""

import gzip
import sys

import orjson

try:
    from isal import igzip as fast
except ImportError:
    fast = gzip

LEVEL = 1


def read(path):
    data = open(path, "rb").read()
    return orjson.loads(fast.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def merge(out, paths):
    events, ranks = [], []
    for position, path in enumerate(paths):
        document = read(path)
        rank = document.get("distributedInfo", {}).get("rank", position)
        ranks.append(rank)
        for event in document.get("traceEvents", []):
            pid = event.get("pid")
            if isinstance(pid, int):
                event["pid"] = pid + rank * 10_000_000
            events.append(event)
    merged = {"traceEvents": events, "displayTimeUnit": "ns", "distributedInfo": {"merged_ranks": ranks}, "traceName": out}
    data = orjson.dumps(merged)
    open(out, "wb").write(fast.compress(data, LEVEL) if out.endswith(".gz") else data)


merge(sys.argv[1], sys.argv[2:])
