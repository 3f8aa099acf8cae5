#!/usr/bin/env python3
"""Runs the examples of the README and of the guides (docs/guide-*.md) as a reader would, in a scratch folder for each document:
the fenced blocks after these comments.

    <!-- run -->            in a shell, with the repository's root as $TPTRACE (and `python` from the environment that runs this)
    <!-- file NAME -->      written to a file of that name, for the shell blocks to use
    <!-- from FILE -->      an excerpt: these lines stand in that file of the repository

What the program of a guide leaves in `run`, and in other folders whose names start so, is checked event by event (guides.py). Shell blocks write into the scratch folder
alone.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

import guides

ROOT = pathlib.Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"<!-- (run|file|from)(?: (\S+))? -->\n```[\w,]*\n(.*?)```", re.DOTALL)


def is_in(excerpt: str, file: pathlib.Path) -> bool:
    """Whether the lines of an excerpt stand in a file, one after the other, however deep they are indented there."""
    lines = file.read_text().splitlines()
    count = len(excerpt.splitlines())
    windows = ("\n".join(lines[at : at + count]) + "\n" for at in range(len(lines) - count + 1))
    return any(textwrap.dedent(window) == excerpt for window in windows)


def run(document: pathlib.Path, scratch: pathlib.Path) -> tuple[int, int]:
    """Runs a document's blocks; how many there were of them, and of excerpts."""
    environment = {
        **os.environ,
        "TPTRACE": str(ROOT),
        "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    ran = excerpts = 0
    for what, name, text in BLOCK.findall(document.read_text()):
        if what == "file":
            (scratch / name).write_text(text)
        elif what == "from":
            if not is_in(text, ROOT / name):
                raise SystemExit(f"{document.name}: this is not in {name}:\n{text}")
            excerpts += 1
        else:
            done = subprocess.run(["bash", "-eu", "-c", text], cwd=scratch, env=environment, stdin=subprocess.DEVNULL)
            if done.returncode:
                raise SystemExit(f"this block of {document.name} failed with {done.returncode}:\n{text}")
            ran += 1
    return ran, excerpts


def main() -> int:
    """usage: readme.py [DOCUMENT]...     all of them if none is named"""
    written = [ROOT / "README.md", *sorted(ROOT.glob("docs/guide-*.md"))]
    documents = [pathlib.Path(name).resolve() for name in sys.argv[1:]] or written
    assert len(written) == 5, "a guide for each language"
    for document in documents:
        with tempfile.TemporaryDirectory() as folder:
            scratch = pathlib.Path(folder)
            ran, excerpts = run(document, scratch)
            traces = sorted(path.name for path in scratch.rglob("*.json*"))
            if document.name == "README.md":
                assert ran >= 4 and len(traces) >= 4
                print(f"readme: {ran} blocks ran and left {', '.join(traces)}", flush=True)
                continue
            runs = sorted(scratch.glob("run*"))
            assert scratch / "run" in runs, "its program leaves its traces there"
            for traces_of_run in runs:
                try:
                    guides.check(traces_of_run, ROOT / "target/release/tptrace")
                except Exception:
                    print(f"{document.name}: its program's traces in {traces_of_run.name} are not what it promises:", file=sys.stderr)
                    raise
        checked = f"{ran} blocks ran, {excerpts} excerpts and the traces of {len(runs)} runs are right"
        print(f"readme: {document.name}: {checked}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
