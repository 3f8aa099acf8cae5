#!/usr/bin/env python3
"""Runs the README's examples as a reader would: each fenced block after a `<!-- run -->` comment, in one scratch folder.

Shell blocks run in a shell with the repository's root as $TPTRACE (and `python` from the environment that runs this); the
others are written to the file that their comment names, for the shell blocks to use. A shell block that would write into
the repository runs in a copy of nothing: keep them to the scratch folder.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"<!-- (run|file (\S+)) -->\n```\w*\n(.*?)```", re.DOTALL)


def main() -> int:
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    ran = 0
    with tempfile.TemporaryDirectory() as scratch:
        environment = {
            **os.environ,
            "TPTRACE": str(ROOT),
            "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        for what, file, text in blocks:
            if file:
                pathlib.Path(scratch, file).write_text(text)
                continue
            run = subprocess.run(["bash", "-eu", "-c", text], cwd=scratch, env=environment, stdin=subprocess.DEVNULL)
            if run.returncode:
                print(f"this block of README.md failed with {run.returncode}:\n{text}")
                return 1
            ran += 1
        traces = sorted(path.name for path in pathlib.Path(scratch).rglob("*.json*"))
    print(f"readme: {ran} blocks ran and left {', '.join(traces)}")
    return 0 if ran >= 4 and len(traces) >= 4 else 1


if __name__ == "__main__":
    sys.exit(main())
