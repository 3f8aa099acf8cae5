"""What the package consists of."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import pathlib
import subprocess
import sys

import tptrace
from tptrace import _library

HEADER = pathlib.Path(__file__).resolve().parents[3] / "include" / "tracer.h"
LAYOUT = pathlib.Path(__file__).resolve().parents[3] / "tests" / "abi" / "layout.txt"

STRUCTS = {
    "tp_str": _library.Str,
    "tp_arg": _library.Arg,
    "tp_trace_options": _library.TraceOptions,
    "tp_op": _library.Op,
    "tp_gpu_activity": _library.GpuActivity,
    "tp_memory_event": _library.MemoryEvent,
    "tp_sample": _library.Sample,
    "tp_counter": _library.Counter,
    "tp_instant": _library.Instant,
    "tp_progress": _library.Progress,
    "tp_write_options": _library.WriteOptions,
    "tp_counts": _library.Counts,
    "tp_merge_options": _library.MergeOptions,
    "tp_merge_report": _library.MergeReport,
}


def test_the_structs_are_laid_out_as_in_c():
    ours = []
    theirs = [line for line in LAYOUT.read_text().splitlines() if line.split()[0].split(".")[0] in STRUCTS]
    for name in dict.fromkeys(line.split()[0].split(".")[0] for line in theirs):
        struct = STRUCTS[name]
        ours.append(f"{name} {ctypes.sizeof(struct)}")
        for field, _ in struct._fields_:
            place = getattr(struct, field)
            ours.append(f"{name}.{field} {place.offset} {place.size}")
    assert ours == theirs


def test_every_function_is_declared_as_the_header_has_it():
    lines = HEADER.read_text().splitlines()
    header = "\n".join(line for line in lines if not line.lstrip().startswith("//"))
    # The package's own stand for those that they call.
    recorders = {name.replace("tp_py_", "tp_"): known for name, known in _library.RECORDERS.items()}
    for own in ("tp_thread_seen", "tp_recorded"):
        del recorders[own]
    for name, (_, arguments) in {**_library.PROTOTYPES, **recorders}.items():
        start = header.index(f" {name}(") if f" {name}(" in header else header.index(f"*{name}(")
        parameters = header[header.index("(", start) + 1 : header.index(")", start)]
        count = 0 if parameters.strip() == "void" else parameters.count(",") + 1
        assert count == len(arguments), name


def test_the_version_is_the_librarys():
    assert tptrace.__version__ == importlib.metadata.version("tptrace")


def test_the_library_is_in_the_package():
    if "TPTRACE_LIBRARY" not in os.environ:
        assert pathlib.Path(_library.path).parent == pathlib.Path(tptrace.__file__).parent


def test_a_missing_library_is_explained():
    run = subprocess.run(
        [sys.executable, "-c", "import tptrace"],
        env={**os.environ, "TPTRACE_LIBRARY": "/nowhere/libtptrace.so"},
        capture_output=True,
        text=True,
    )
    assert run.returncode != 0
    assert "/nowhere/libtptrace.so" in run.stderr and "TPTRACE_LIBRARY" in run.stderr
