#!/usr/bin/env python3
"""How long C++ programs that include tracer.hpp take to compile, beside one that includes <string> and <chrono>.

usage: cpp_compile.py [--rounds N] [--compiler CXX]...

Every round compiles each program once, in turn. The time is that of the processors (user and system) of the compiler and what
it starts; the ratios are those of the medians, with the quartiles of the ratios of one round.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]

STANDARD = "#include <chrono>\n#include <cstdio>\n#include <string>\n"
OURS = '#include "tracer.hpp"\n'
WORK = """
int main() {
    const auto start = std::chrono::steady_clock::now();
    std::string text = "step ";
    for (int i = 0; i < 100; i++) text += std::to_string(i);
    const auto took = std::chrono::steady_clock::now() - start;
    std::printf("%s %lld\\n", text.c_str(), static_cast<long long>(std::chrono::duration_cast<std::chrono::nanoseconds>(took).count()));
}
"""
# Spans, an op, and the file: what a program that is traced does in most of its files at most.
TRACED = """
void traced(tp::Trace &trace, const char *path) {
    for (int i = 0; i < 100; i++) {
        TP_SPAN_ARGS(trace, "step", {"i", i});
    }
    trace.add(tp::Op("op", tp::now_ns(), tp::now_ns() + 10).thread(1).input({64, 128}, tp::TP_FLOAT32).arg("step", 3));
    trace.write(path);
}
"""
SPANS = """
void traced(tp::Trace &trace) {
    for (int i = 0; i < 100; i++) {
        TP_SPAN(trace, "step");
    }
}
"""
PROGRAMS = {
    "<string> and <chrono>": STANDARD + WORK,
    "the same and tracer.hpp, not used": STANDARD + OURS + WORK,
    "the same and a span": STANDARD + OURS + WORK + SPANS,
    "the same and spans, an op and a file": STANDARD + OURS + WORK + TRACED,
    "<string> and <chrono>, not used": "#include <chrono>\n#include <string>\nint main() {}\n",
    "tracer.hpp instead, not used": OURS + "int main() {}\n",
    "an empty file": "int main() {}\n",
}


def seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(compiler: str, level: str, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        files = {}
        for number, (name, text) in enumerate(PROGRAMS.items()):
            files[name] = pathlib.Path(scratch, f"{number}.cpp")
            files[name].write_text(text)
        include = [f"-I{ROOT / 'include'}", f"-I{ROOT / 'bindings/cpp'}"]
        command = lambda file: [compiler, "-std=c++17", level, *include, "-c", str(file), "-o", f"{scratch}/out.o"]
        took: dict[str, list[float]] = {name: [] for name in PROGRAMS}
        for number in range(rounds + 1):
            for name, file in files.items():
                # The first round reads the headers from the disk.
                spent = seconds(command(file))
                if number:
                    took[name].append(spent)
    beside = next(iter(PROGRAMS))
    for name, times in took.items():
        if "instead" not in name:
            beside = name if name.startswith("<") else beside
        ratios = sorted(time / other for time, other in zip(times, took[beside]))
        middle = statistics.median(times) / statistics.median(took[beside])
        low, high = ratios[len(ratios) // 4], ratios[(3 * len(ratios)) // 4]
        print(f"{compiler} {level}  {name:38} {middle:5.2f}  ({low:.2f} to {high:.2f})")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--compiler", action="append", help="may be given several times; $CXX or c++ if not")
    given = arguments.parse_args()
    for compiler in given.compiler or [os.environ.get("CXX", "c++")]:
        if shutil.which(compiler) is None:
            raise SystemExit(f"{compiler}: not found; --compiler names another")
        for level in ("-O0", "-O2"):
            measure(compiler, level, given.rounds)


if __name__ == "__main__":
    main()
