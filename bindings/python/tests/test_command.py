"""The command that comes with the package."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

import tptrace


def command(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "tptrace", *map(str, arguments)], capture_output=True, text=True, **options)


def test_it_is_the_librarys_version():
    done = command("--version")
    assert (done.returncode, done.stdout) == (0, f"tptrace {tptrace.__version__}\n")


def test_it_works_and_answers_as_the_program_does(tmp_path):
    assert command("demo", "-o", tmp_path / "run").returncode == 0
    files = sorted((tmp_path / "run").iterdir())
    done = command("merge", *files, "-o", tmp_path / "merged.json")
    assert done.returncode == 0 and "events of 2 files" in done.stderr
    assert json.loads((tmp_path / "merged.json").read_text())["distributedInfo"]["merged_ranks"] == [0, 1]
    # The standard output, to its last byte.
    done = command("merge", *files, "-o", "-")
    assert json.loads(done.stdout)["traceEvents"] == json.loads((tmp_path / "merged.json").read_text())["traceEvents"]
    assert command("merge", "none.json", "-o", tmp_path / "x.json").returncode == 1
    assert command("frob").returncode == 2
    # Names that are no UTF-8.
    name = os.fsdecode(b"\xff.json")
    (tmp_path / name).write_bytes((tmp_path / "merged.json").read_bytes())
    assert command("merge", tmp_path / name, "-o", tmp_path / "again.json").returncode == 0


def test_the_script_is_installed(tmp_path):
    script = pathlib.Path(sys.executable).parent / "tptrace"
    if not script.exists():
        pytest.skip(f"{script} is not there: the package is not installed")
    done = subprocess.run([script, "completions", "bash"], capture_output=True, text=True)
    assert done.returncode == 0 and "--min-duration" in done.stdout


def test_an_interrupt_ends_it_at_once(tmp_path):
    running = subprocess.Popen(
        [sys.executable, "-m", "tptrace", "merge", "-", "-o", str(tmp_path / "x.json")],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    # More than a pipe holds: once it is written, the command has begun to read, and waits for the rest.
    event = b'{"ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 1},\n'
    running.stdin.write(b'{"traceEvents": [' + event * (4_000_000 // len(event)))
    running.stdin.flush()
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == -signal.SIGINT
    assert list(tmp_path.iterdir()) == []
