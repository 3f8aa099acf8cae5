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


def test_a_journal_of_a_trace_without_events_goes(tmp_path: Path) -> None:
    for _ in range(2):
        tptrace.Trace(journal=tmp_path / "journal").close()
        assert not list(tmp_path.iterdir())


PROFILER = """
import os, signal, sys
import tptrace
schedule = tptrace.schedule(wait=1, warmup=1, active=2)
profiler = tptrace.Profiler(
    schedule=schedule, on_trace_ready=tptrace.trace_handler(sys.argv[2], "worker", use_gzip=False), journal=sys.argv[1]
)
profiler.start()
for step in range(8):
    with tptrace.span("step", number=step):
        if step == 7:
            if sys.argv[3] == "killed":
                profiler.trace.sync_journal()
                os.kill(os.getpid(), signal.SIGKILL)
    profiler.step()
profiler.stop()
"""


@pytest.mark.parametrize("pattern, second", [("run-%c-%p.journal", "run-1-{}.journal"), ("run-%p.journal", "run-{}.1.journal")])
@pytest.mark.parametrize("how", ["killed", "ends"])
def test_each_cycle_of_a_profiler_has_a_journal(tmp_path: Path, how: str, pattern: str, second: str) -> None:
    traces, journals = tmp_path / "traces", tmp_path / "journals"
    journals.mkdir()
    arguments = [sys.executable, "-W", "error", "-c", PROFILER, os.fspath(journals / pattern), os.fspath(traces), how]
    child = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    _, said = child.communicate(timeout=60)
    if how == "ends":
        assert (child.returncode, said) == (0, "")
        # All were written.
        assert len(list(traces.iterdir())) == 2 and not list(journals.iterdir())
        return
    assert child.returncode == -signal.SIGKILL, said
    assert len(list(traces.iterdir())) == 1
    (kept,) = journals.iterdir()
    assert kept.name == second.format(child.pid)
    out = tmp_path / "out.json"
    assert tptrace.recover(kept, out).unfinished == 1
    events = json.loads(out.read_text())["traceEvents"]
    steps = {event["args"]["number"]: "unfinished" in event["args"] for event in events if event["name"] == "step"}
    assert steps == {6: False, 7: True} and "ProfilerStep#6" in {event["name"] for event in events}


@pytest.mark.filterwarnings("ignore:without warm-up steps")
def test_journals_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(tptrace.IOFailedError, match="absent"):
        tptrace.Profiler(journal=tmp_path / "absent" / "journal")
    with pytest.raises(tptrace.InvalidArgumentError, match="journal"):
        tptrace.Profiler(journal=5)  # type: ignore[arg-type]
    (tmp_path / "j.0.journal").write_text("of another")
    with pytest.raises(tptrace.InvalidArgumentError, match=r"j\.0\.journal.*tptrace recover"):
        tptrace.Profiler(journal=tmp_path / "j.journal")
    # In the middle of the work it goes on.
    ready: list[str] = []
    profiler = tptrace.Profiler(
        schedule=tptrace.schedule(wait=0, warmup=0, active=1, repeat=3),
        on_trace_ready=lambda trace: ready.append(trace.write(tmp_path / f"{len(ready)}.json")),
        journal=tmp_path / "k.journal",
    )
    (tmp_path / "k.1.journal").write_text("of another")
    profiler.start()
    with pytest.warns(RuntimeWarning, match=r"without a journal: .*k\.1\.journal"):
        profiler.step()
    profiler.step()
    profiler.step()
    profiler.stop()
    assert len(ready) == 3
    # It may be started again: the numbers go on.
    with profiler:
        with tptrace.span("again"):
            pass
        assert (tmp_path / "k.3.journal").exists()
    assert (tmp_path / "k.1.journal").read_text() == "of another"
