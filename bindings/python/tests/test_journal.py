"""A trace survives its process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tptrace

CHILD = """
import os, signal, sys, time
import tptrace
trace = tptrace.Trace(journal=sys.argv[1])
tptrace.set_current_trace(trace)
with tptrace.span("run", batch=3):
    for step in range(100):
        with tptrace.span("step", number=step):
            pass
    if sys.argv[2] == "killed":
        trace.sync_journal()
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[2] == "exit":
        sys.exit(3)
    if sys.argv[2] == "_exit":
        # What a second growth brings has all that was there at the first.
        for _ in range(2):
            told = trace.counts().journal_bytes
            trace.instant("growing")
            while trace.counts().journal_bytes == told:
                time.sleep(0.01)
        os._exit(3)
"""


@pytest.mark.parametrize("how", ["killed", "exit", "_exit"])
def test_what_was_recorded_survives(tmp_path: Path, how: str) -> None:
    journal = tmp_path / "run-%p.journal"
    child = subprocess.run([sys.executable, "-c", CHILD, os.fspath(journal), how], timeout=60)
    assert child.returncode == (-signal.SIGKILL if how == "killed" else 3)
    (kept,) = tmp_path.iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    out = tmp_path / "out.json"
    report = tptrace.recover(kept, out)
    events = json.loads(out.read_text())["traceEvents"]
    steps = [event["args"]["number"] for event in events if event.get("name") == "step"]
    assert steps == list(range(100)) and report.cut_bytes == 0
    (run,) = [event for event in events if event.get("name") == "run"]
    assert run["args"]["batch"] == 3
    # An exit unwinds, and closes the span.
    assert (report.unfinished, "unfinished" in run["args"]) == ((0, False) if how == "exit" else (1, True))


def test_a_journal_goes_with_a_trace_that_was_written(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with tptrace.Trace(journal=journal) as trace:
        trace.add_op("op", 1, 2)
        trace.sync_journal()
        assert trace.counts().journal_bytes == journal.stat().st_size
        with pytest.raises(tptrace.InvalidArgumentError, match="tptrace recover"):
            tptrace.Trace(journal=journal)
        trace.write(tmp_path / "out.json")
    assert not journal.exists()


FULL = """
import resource, sys
import tptrace
journal, out = sys.argv[1:]
trace = tptrace.Trace(journal=journal)
# As on a full disk, but for the number of the error: Python ignores the signal that goes with it.
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, most))
for number in range(5000):
    with trace.span("step"):
        pass
    trace.add_instant("added", number)
try:
    trace.sync_journal()
except tptrace.IOFailedError as error:
    assert journal in str(error), error
else:
    sys.exit("the journal was written")
assert trace.counts().journal_failures > 0
with trace.span("after"):
    pass
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
trace.sync_journal()
report = tptrace.recover(journal, out)
assert (report.events, report.cut_bytes) == (10_001, 0), report
"""


def test_a_full_disk_is_told_and_waited_for(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", FULL, os.fspath(tmp_path / "journal"), os.fspath(tmp_path / "out.json")]
    child = subprocess.run(arguments, timeout=60, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr


def test_what_is_no_journal_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    out.write_text("old")
    for text in ["", "{}", "tptrace journal 1\n"]:
        (tmp_path / "journal").write_text(text)
        with pytest.raises(tptrace.MalformedError, match="journal"):
            tptrace.recover(tmp_path / "journal", out)
    with pytest.raises(tptrace.IOFailedError, match="absent"):
        tptrace.recover(tmp_path / "absent", out)
    assert out.read_text() == "old"
