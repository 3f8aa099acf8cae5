#!/usr/bin/env python3
"""Builds the fuzz targets without cargo-fuzz, and runs each for a fixed time, as many at once as there are cores.

usage: python3 scripts/fuzz.py [--seconds N] [--jobs N] [TARGET]...

Each starts from fuzz/seeds/TARGET and fuzz/corpus/TARGET. What a run finds new is kept in target/fuzz/corpus/TARGET, where
the next one goes on. An input that fails is left in target/fuzz/found, and shown in base64 when it is small.
"""

from __future__ import annotations

import argparse
import base64
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "target" / "fuzz"
FOUND = OUT / "found"
# What one input may take, on a slow machine too.
LIMITS = ["-rss_limit_mb=2048", "-timeout=25"]
# Bytes of an input; the seeds are shorter. Of `gzip` up to a thousand times as many are compressed.
LENGTHS = {"gzip": 1024, "options": 2048, "parts": 2048, "command": 1024}
LENGTH = 8192
# Threads that just ended look like leaks.
LEAKS = ["-detect_leaks=0"]
# What cargo-fuzz builds with.
FLAGS = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-sanitizer-coverage-stack-depth",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "-Zsanitizer=address",
    "-Cdebug-assertions",
    "--cfg=fuzzing",
]
# Inputs that are shown where they are found.
SHOWN = 2048


@dataclass
class Run:
    target: str
    seconds: float
    code: int
    output: str
    found: list[Path]

    def number(self, name: str) -> int:
        found = re.search(rf"^stat::{name}:\s+(\d+)", self.output, re.MULTILINE)
        return int(found.group(1)) if found else 0

    def coverage(self) -> str:
        found = re.findall(r"cov: (\d+)", self.output)
        return found[-1] if found else "?"


def targets() -> list[str]:
    manifest = tomllib.loads((ROOT / "fuzz" / "Cargo.toml").read_text())
    return sorted(target["name"] for target in manifest["bin"])


def host() -> str:
    told = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    return next(line.removeprefix("host: ") for line in told.splitlines() if line.startswith("host: "))


def build(triple: str) -> Path:
    environment = dict(os.environ, RUSTC_BOOTSTRAP="1", RUSTFLAGS=" ".join(FLAGS))
    # Seconds of speed are not worth minutes of building; a run that takes hours can ask for more.
    environment.setdefault("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
    subprocess.run(
        ["cargo", "build", "--locked", "--release", "--target", triple, "--target-dir", str(OUT)],
        cwd=ROOT / "fuzz", env=environment, check=True,
    )
    return OUT / triple / "release"


def run(binary: Path, seconds: int) -> Run:
    target = binary.name
    corpus = OUT / "corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    before = set(FOUND.iterdir())
    given = [folder for kind in ("seeds", "corpus") if (folder := ROOT / "fuzz" / kind / target).is_dir()]
    # What a target leaves when it is ended goes with the folder.
    scratch = tempfile.mkdtemp(prefix=f"fuzz-{target}-")
    command = [
        str(binary), f"-max_total_time={seconds}", f"-artifact_prefix={FOUND}/{target}-", "-print_final_stats=1",
        f"-max_len={LENGTHS.get(target, LENGTH)}", *LIMITS, *LEAKS, str(corpus), *map(str, given),
    ]
    start = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=scratch, env=dict(os.environ, TMPDIR=scratch), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
            # It ends by itself; if it does not, that is a fault too.
            timeout=seconds + 120,
        )
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        said = late.stdout or b""
        code, output = -1, (said.decode(errors="replace") if isinstance(said, bytes) else said) + "\nit did not end"
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    found = sorted(path for path in set(FOUND.iterdir()) - before if path.name.startswith(f"{target}-"))
    return Run(target, time.monotonic() - start, code, output, found)


def tell(done: Run, binaries: Path) -> None:
    """What was found, and how to see it again."""
    lines = done.output.splitlines()
    first = next((at for at, line in enumerate(lines) if "panicked at" in line or "ERROR: " in line), max(0, len(lines) - 40))
    print(f"\n== {done.target} failed with {done.code}")
    print("\n".join(lines[first : first + 40]))
    for path in done.found:
        content = path.read_bytes()
        print(f"\ninput: {path.relative_to(ROOT)}, {len(content)} bytes")
        if len(content) <= SHOWN:
            print(f"base64: {base64.b64encode(content).decode()}")
            print(f"again without the file: echo BASE64 | base64 -d >{path.relative_to(ROOT)}")
        print(f"again: {(binaries / done.target).relative_to(ROOT)} {path.relative_to(ROOT)}")
        print(f"smaller: add -minimize_crash=1 -max_total_time=60 -exact_artifact_path=smaller")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=int, default=15, help="how long each target runs")
    arguments.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="targets that run at once")
    arguments.add_argument("targets", nargs="*", metavar="TARGET", help="these targets; all if none")
    given = arguments.parse_args()
    known = targets()
    if wrong := [name for name in given.targets if name not in known]:
        arguments.error(f"no target {', '.join(wrong)}: there are {', '.join(known)}")
    start = time.monotonic()
    binaries = build(host())
    built = time.monotonic() - start
    FOUND.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(max_workers=max(1, given.jobs)) as pool:
        runs = list(pool.map(lambda name: run(binaries / name, given.seconds), given.targets or known))
    for done in runs:
        print(
            f"{done.target:10} {done.number('number_of_executed_units'):8} runs in {done.seconds:4.0f} s, "
            f"{done.coverage():>6} edges, {done.number('peak_rss_mb'):4} MB, {'FAILED' if done.code else 'nothing found'}"
        )
    failed = [done for done in runs if done.code]
    for done in failed:
        tell(done, binaries)
    # A target that has not run has not found anything either.
    idle = [done.target for done in runs if not done.code and done.number("number_of_executed_units") == 0]
    if idle:
        print(f"did not run: {', '.join(idle)}")
    told = ", ".join(f"{done.target} {done.number('number_of_executed_units')}" for done in runs)
    print(f"fuzz: {len(runs)} targets for {given.seconds} s each, {len(failed)} failed; runs: {told}; built in {built:.0f} s")
    return 1 if failed or idle else 0


if __name__ == "__main__":
    sys.exit(main())
