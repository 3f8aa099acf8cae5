#!/usr/bin/env python3
"""Installs tptrace, moves what was installed, and builds and runs programs on it as its users do.

With CMake and with pkg-config, on the shared and on the static library, and on the loader's header alone. Every program
writes a trace, which is checked. usage: run.py [FOLDER]      FOLDER: target/test/package if not given; it is emptied

Needs cmake and pkg-config (or pkgconf), gcc, readelf, and Rust.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
VERSION = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
PROGRAM = HERE / "program.cpp"

HEADERS = {path.name for path in (ROOT / "bindings/cpp").iterdir()} | {"tracer.h"}

LIBRARY = {
    "lib/libtptrace.a",
    "lib/libtptrace.so",
    "lib/libtptrace.so.0",
    f"lib/libtptrace.so.{VERSION}",
    "lib/pkgconfig/tptrace.pc",
    *(f"include/tptrace/{name}" for name in HEADERS),
    "share/cmake/tptrace/tptraceConfig.cmake",
    "share/cmake/tptrace/tptraceConfigVersion.cmake",
}

COMMAND = {
    "bin/tptrace",
    "share/man/man1/tptrace.1",
    "share/man/man1/tptrace-merge.1",
    "share/man/man1/tptrace-gpu.1",
    "share/man/man1/tptrace-demo.1",
    "share/bash-completion/completions/tptrace",
    "share/zsh/site-functions/_tptrace",
    "share/fish/vendor_completions.d/tptrace.fish",
}


def run(*command: object, **environment: str) -> str:
    """The output of a command that succeeds."""
    words = [str(word) for word in command]
    env = {key: value for key, value in os.environ.items() if key not in ("LD_LIBRARY_PATH", "TPTRACE_LIBRARY")}
    done = subprocess.run(words, env={**env, **environment}, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise SystemExit(f"{shlex.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def tree(prefix: pathlib.Path) -> set[str]:
    return {str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir()}


def check(what: str, program: pathlib.Path, libraries: set[str] | None, **environment: str) -> None:
    """Runs a program, and reads what it wrote. `libraries`: those of ours that it must ask for."""
    trace = program.with_suffix(".json")
    assert run(program, trace, **environment) == f"tptrace {VERSION}\n", what
    events = {event["name"]: event for event in json.loads(trace.read_text())["traceEvents"]}
    assert events["an op"]["args"]["made with"] == "the package", what
    assert events["a span"]["ph"] == "X", what
    if libraries is not None:
        needed = set(re.findall(r"\(NEEDED\).*\[(libtptrace[^]]*)\]", run("readelf", "-dW", program)))
        assert needed == libraries, f"{what}: needs {needed}"
    print(f"package: {what}")


def with_cmake(scratch: pathlib.Path, prefix: pathlib.Path, kinds: tuple[str, ...]) -> None:
    build = scratch / "cmake"
    shutil.rmtree(build, ignore_errors=True)
    run("cmake", "-G", "Unix Makefiles", "-S", HERE, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", build, "--target", *[f"with_{kind}" for kind in kinds])
    for kind in kinds:
        shared = next(iter(prefix.rglob("libtptrace.so.0")))
        environment = {"TPTRACE_LIBRARY": str(shared)} if kind == "loader" else {}
        needs = {"libtptrace.so.0"} if kind == "tptrace" else set()
        check(f"CMake, tptrace::{kind}", build / f"with_{kind}", needs, **environment)
    if "loader" in kinds:
        without = run(build / "with_loader", scratch / "none.json", TPTRACE_LIBRARY="/no/such/library.so")
        assert without == "without the library\n", without


def with_pkg_config(scratch: pathlib.Path, prefix: pathlib.Path) -> None:
    tool = next((found for found in map(shutil.which, ("pkg-config", "pkgconf")) if found), None)
    if tool is None:
        raise SystemExit("neither pkg-config nor pkgconf is installed; `pip install pkgconf` brings one")
    path = {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig"), "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1"}
    flags = lambda *options: shlex.split(run(tool, *options, "tptrace", **path))
    assert flags("--modversion") == [VERSION]
    compiler = [os.environ.get("CXX", "c++"), "-std=c++17", "-Wall", "-Wextra", "-Werror", PROGRAM]
    shared = scratch / "shared"
    run(*compiler, *flags("--cflags", "--libs"), f"-Wl,-rpath,{prefix}/lib", "-pthread", "-o", shared)
    check("pkg-config", shared, {"libtptrace.so.0"})
    # Everything static, glibc too, which warns that what the library opens at run time must be of its version.
    static = scratch / "static"
    run(*compiler, "-static", *flags("--cflags", "--libs", "--static"), "-o", static)
    check("pkg-config --static", static, set())
    # Only tptrace static.
    partly = scratch / "partly"
    ours = [word for word in flags("--cflags", "--libs", "--static") if word != "-ltptrace"]
    run(*compiler, prefix / "lib/libtptrace.a", *ours, "-o", partly)
    check("pkg-config, libtptrace.a", partly, set())


def with_a_header(scratch: pathlib.Path, prefix: pathlib.Path) -> None:
    """Copies of the headers, and the library beside the program."""
    folder = scratch / "vendored"
    folder.mkdir()
    for header in HEADERS:
        shutil.copy(prefix / "include/tptrace" / header, folder)
    program = folder / "program"
    flags = ["-std=c++17", "-DLOADED", "-Wall", "-Wextra", "-Werror", f"-I{folder}"]
    run(os.environ.get("CXX", "c++"), *flags, PROGRAM, "-ldl", "-o", program)
    shutil.copy(prefix / "lib/libtptrace.so.0", folder)
    check("the loader's header", program, set())


def main() -> int:
    scratch = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/test/package").resolve()
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    install = ["sh", ROOT / "scripts/install.sh", "--destdir", scratch / "stage"]
    run(*install, "--prefix=/opt/tptrace", "--library-only")
    staged = scratch / "stage/opt/tptrace"
    assert tree(staged) == LIBRARY, tree(staged) ^ LIBRARY
    for link, target in (("libtptrace.so", "libtptrace.so.0"), ("libtptrace.so.0", f"libtptrace.so.{VERSION}")):
        assert os.readlink(staged / "lib" / link) == target
    assert f"[{'libtptrace.so.0'}]" in run("readelf", "-dW", staged / "lib/libtptrace.so")

    prefix = scratch / "moved" / "somewhere else"
    prefix.parent.mkdir()
    staged.rename(prefix)
    with_cmake(scratch, prefix, ("tptrace", "static", "loader"))
    # Files of pkg-config cannot be in folders with spaces.
    plain = scratch / "moved" / "again"
    prefix.rename(plain)
    with_pkg_config(scratch, plain)
    with_a_header(scratch, plain)

    run(*install, "--prefix", "/usr", "--libdir", "lib/x86_64-linux-gnu", "--library-only")
    usr = scratch / "stage/usr"
    assert tree(usr) == {path.replace("lib/", "lib/x86_64-linux-gnu/", 1) if path.startswith("lib/") else path for path in LIBRARY}
    with_cmake(scratch, usr, ("tptrace",))
    said = run("pkg-config", "--variable=libdir", "tptrace", PKG_CONFIG_PATH=str(usr / "lib/x86_64-linux-gnu/pkgconfig")).strip()
    assert pathlib.Path(said).resolve() == (usr / "lib/x86_64-linux-gnu").resolve(), said

    # All of it, where make would put it.
    run("sh", ROOT / "scripts/install.sh", "--prefix", scratch / "all", "--strip")
    everything = tree(scratch / "all")
    # A page for each subcommand, and one for each of theirs.
    pages = {path for path in everything if path.startswith("share/man/man1/tptrace-")}
    assert everything == LIBRARY | COMMAND | pages, everything ^ (LIBRARY | COMMAND)
    assert run(scratch / "all/bin/tptrace", "--version") == f"tptrace {VERSION}\n"
    completes = 'source "$0"; COMP_WORDS=(tptrace merge --min); COMP_CWORD=2; _tptrace tptrace --min merge; echo "${COMPREPLY[*]}"'
    assert run("bash", "-c", completes, scratch / "all/share/bash-completion/completions/tptrace").split() == ["--min-duration"]
    for kind in ("libtptrace.so", "libtptrace.a"):
        size = (scratch / "all/lib" / kind).stat().st_size
        print(f"package: {kind}: {size:,} bytes without what debuggers read")
    with_pkg_config(scratch, scratch / "all")
    shutil.rmtree(scratch / "stage")
    return 0


if __name__ == "__main__":
    sys.exit(main())
