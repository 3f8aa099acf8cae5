"""What the package says of GPUs, with fake libraries where it is to find some."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import tptrace
from conftest import load

FAKES = pathlib.Path(__file__).resolve().parents[3] / "tests" / "gpu" / "fake"


@pytest.fixture(scope="session")
def fakes(tmp_path_factory):
    """Fake libraries of CUDA's, by their names."""
    compiler = os.environ.get("CC") or shutil.which("cc")
    if compiler is None or not FAKES.is_dir():
        pytest.skip("no C compiler, or not in the repository")
    folder = tmp_path_factory.mktemp("fakes")
    made = {}
    for name, source, flags in (
        ("libcuda", "cuda.c", []),
        ("libcudart", "cudart.c", []),
        ("libcupti", "cupti.c", ["-DA=28", "-fvisibility=hidden"]),
    ):
        made[name] = folder / f"{name}.so"
        subprocess.run([compiler, "-shared", "-fPIC", *flags, FAKES / source, "-o", made[name], "-pthread"], check=True)
    return made


def in_child(code: str, fakes=None, **environment: str) -> str:
    """Runs code in a process of its own: what is loaded and started stays."""
    named = {} if fakes is None else {f"TP_{name.upper()}": str(path) for name, path in fakes.items()}
    done = subprocess.run(
        [sys.executable, "-c", "import tptrace\n" + code],
        env={**os.environ, **named, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_without_a_driver_it_says_so():
    info = tptrace.gpu_info(libcuda="/nowhere/libcuda.so.1")
    assert not info.ready and info.state == "no driver" and info.devices == ()
    assert "/nowhere/libcuda.so.1" in info.reason
    assert info.driver is info.runtime is info.cupti is info.driver_code is None


def test_devices_and_libraries_are_told(fakes):
    out = in_child(
        "info = tptrace.gpu_info()\n"
        "print(info.ready, info.state, info.driver.version, info.runtime.version, info.cupti.version)\n"
        "print([(d.id, d.name, d.properties['numSms'], d.properties['uuid'][:4]) for d in info.devices])\n"
        "print(info.cupti.path)\n",
        fakes,
    ).splitlines()
    assert out[0] == "True ready 13050 12090 28"
    assert out[1] == """[(0, 'Fake "GPU" 0', 132, 'a0a0'), (1, 'Fake "GPU" 1', 132, 'a1a1')]"""
    assert out[2] == str(fakes["libcupti"])


def test_a_trace_tells_of_the_devices(fakes, tmp_path):
    path = tmp_path / "trace.json"
    in_child(
        f"with tptrace.Trace() as trace:\n    trace.set_gpu_info()\n    trace.write({str(path)!r}, format='torch')\n", fakes
    )
    document = load(path)
    assert [device["name"] for device in document["deviceProperties"]] == ['Fake "GPU" 0', 'Fake "GPU" 1']
    assert document["deviceProperties"][0]["sharedMemPerBlockOptin"] == 232448
    versions = ("cuda_driver_version", "cuda_runtime_version", "cupti_version")
    assert [document[key] for key in versions] == [13050, 12090, 28]


def test_importing_and_tracing_load_nothing(fakes, tmp_path):
    out = in_child(
        "trace = tptrace.Trace()\n"
        "trace.add_op('op', 1, 2)\n"
        f"trace.write({str(tmp_path / 'trace.json')!r}, format='torch')\n"
        "print(any('libcu' in line for line in open('/proc/self/maps')))\n"
        "tptrace.gpu_info()\n"
        "print(all(any(name in line for line in open('/proc/self/maps')) for name in ('libcuda', 'libcupti')))\n",
        fakes,
    )
    assert out.split() == ["False", "True"]


def test_a_forked_child_is_told(fakes):
    out = in_child(
        "import os\n"
        "for _ in range(2):\n"
        "    if os.fork() == 0:\n"
        "        print(tptrace.gpu_info().state, flush=True)\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
        "    tptrace.gpu_info()\n",
        fakes,
    )
    assert out.split("\n")[:2] == ["ready", "forked"]


def test_wheels_on_the_path_are_found(fakes, tmp_path):
    folder = tmp_path / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True)
    shutil.copy(fakes["libcupti"], folder / "libcupti.so.13")
    only = {name: path for name, path in fakes.items() if name != "libcupti"}
    out = in_child(f"import sys\nsys.path.append({str(tmp_path)!r})\nprint(tptrace.gpu_info().cupti.path)", only)
    assert out.strip() == str(folder / "libcupti.so.13")


def test_gpu_work_is_collected(fakes, tmp_path):
    path = tmp_path / "trace.json"
    out = in_child(
        "import ctypes, os, threading, time, warnings\n"
        "warnings.simplefilter('error')\n"
        "cupti = ctypes.CDLL(os.environ['TP_LIBCUPTI'])\n"
        "name = ctypes.create_string_buffer(b'_Z4gemmIfiEvPT_')\n"
        "with tptrace.Trace() as trace:\n"
        "    trace.gpu_start(buffer_bytes=1 << 16)\n"
        "    start = tptrace.now_ns()\n"
        "    with trace.gpu_op(7):\n"
        "        cupti.fake_launch(name, 1, 7, 0)\n"
        "    cupti.fake_launch(name, 1, 7, 1)\n"
        "    trace.add_op('linear', start, tptrace.now_ns(), id=7, thread_id=threading.get_native_id())\n"
        "    report = trace.gpu_stop()\n"
        "    print(report.kernels, report.runtime_calls, report.links, report.no_times, len(report.warnings))\n"
        f"    trace.write({str(path)!r}, format='torch')\n",
        fakes,
    )
    assert out.split() == ["1", "2", "1", "1", "1"]
    document = load(path)
    kernel = next(event for event in document["traceEvents"] if event.get("cat") == "kernel")
    assert kernel["name"] == "void gemm<float, int>(float*)" and kernel["args"]["External id"] == 7
    flow = {event["ph"]: event for event in document["traceEvents"] if event.get("cat") == "ac2g"}
    op = next(event for event in document["traceEvents"] if event.get("name") == "linear")
    assert sorted(flow) == ["f", "s", "t"] and flow["s"]["tid"] == op["tid"]
    assert document["tptrace"]["gpu"]["no_times"] == 1
    assert len(document["deviceProperties"]) == 2


def test_what_stands_against_it_is_raised(fakes):
    with tptrace.Trace() as trace:
        with pytest.raises(tptrace.GpuUnavailableError, match="no driver"):
            trace.gpu_start(libcuda="/nowhere/libcuda.so.1")
        with pytest.raises(tptrace.InvalidArgumentError, match="start it first"):
            trace.gpu_stop()
        with pytest.raises(ValueError, match="kind"):
            trace.gpu_start(["kernels"])
        with pytest.raises(TypeError):
            trace.gpu_start("kernel")
        with trace.gpu_op(3):
            pass
    out = in_child(
        "for _ in range(1):\n"
        "    with tptrace.Trace() as trace:\n"
        "        try:\n"
        "            trace.gpu_start(['kernel', 'memcpy'])\n"
        "        except tptrace.GpuError as error:\n"
        "            print(type(error).__name__, isinstance(error, PermissionError), 'SYS_ADMIN' in str(error))\n",
        fakes,
        FAKE_CUPTI_RC_ENABLE_10="35",
    )
    assert out.split() == ["GpuPermissionError", "True", "True"]
    out = in_child(
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as said, tptrace.Trace() as trace:\n"
        "    warnings.simplefilter('always')\n"
        "    trace.gpu_start()\n"
        "    print([(one.category.__name__, 'SYNCHRONIZATION' in str(one.message)) for one in said])\n",
        fakes,
        FAKE_CUPTI_RC_ENABLE_38="27",
    )
    assert out.strip() == "[('GpuWarning', True)]"
