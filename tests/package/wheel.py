#!/usr/bin/env python3
"""Checks the wheel and the source distribution as those who get them from an index meet them.

- the wheel's tag is true: auditwheel finds that it runs where the tag says, and its name is the one that is to be expected
- the library in it exports what tests/abi lists and no more, and needs no library that is not everywhere
- it is installed and tested on the oldest and the newest Python of this machine, from 3.9 on
- the source distribution holds the crate, and builds and works where nothing of the repository is

usage: wheel.py WHEEL [FOLDER]      FOLDER: target/test/wheels if not given; it is emptied

Needs auditwheel and build beside the Python that runs this, binutils, and Rust.
"""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / "bindings/python"
VERSION = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]


def run(*command: object, **options: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)
    if done.returncode:
        raise SystemExit(f"{shlex.join(words)}: {done.returncode}\n{done.stdout[-6000:]}{done.stderr[-6000:]}")
    return done.stdout


def pythons() -> dict[tuple[int, ...], str]:
    """The CPythons from 3.9 on that there are, by version."""
    versions = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"), "versions")
    names = [str(path) for path in versions.glob("*/bin/python")]
    names += [found for minor in range(9, 30) if (found := shutil.which(f"python3.{minor}"))]
    found = {}
    for name in [*names, sys.executable]:
        ask = "import sys; print(*sys.version_info[:2], sys.implementation.name); import venv, ctypes"
        done = subprocess.run([name, "-c", ask], capture_output=True, text=True)
        major, minor, kind = (done.stdout.split() + ["0"] * 3)[:3]
        if done.returncode == 0 and kind == "cpython" and (int(major), int(minor)) >= (3, 9):
            found.setdefault((int(major), int(minor)), name)
    return found


def check_tag(wheel: pathlib.Path) -> None:
    said = re.search(r'platform tag:\s*"(\w+)"', run(sys.executable, "-m", "auditwheel", "show", wheel))
    tag = wheel.stem.split("-", 2)[2]
    assert re.fullmatch(r"py3-none-manylinux_2_\d+_\w+", tag), tag
    assert said and tag == f"py3-none-{said[1]}", f"the wheel says {tag}, auditwheel says {said and said[1]}"
    print(f"package: {wheel.name}: {wheel.stat().st_size:,} bytes")


def check_library(wheel: pathlib.Path, scratch: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert {"tptrace/__main__.py", "tptrace/py.typed"} <= set(names), names
        assert sum(name.endswith(("LICENSE-MIT", "LICENSE-APACHE")) for name in names) == 2, names
        libraries = [name for name in names if ".so" in name]
        assert len(libraries) == 1, libraries
        library = pathlib.Path(archive.extract(libraries[0], scratch))
    symbols = {line.split()[0] for line in run("nm", "-D", "--defined-only", "--format=posix", library).splitlines()}
    expected = {*(ROOT / "tests/abi/symbols.txt").read_text().split(), "tp_py_command"}
    assert symbols == expected, symbols ^ expected
    dynamic = run("readelf", "-dW", library)
    assert "[libtptrace.so.0]" in dynamic and "NODELETE" in dynamic, dynamic
    assert "RUNPATH" not in dynamic and "RPATH" not in dynamic, dynamic


def environment(python: str, folder: pathlib.Path, *packages: object) -> pathlib.Path:
    run(python, "-m", "venv", folder)
    own = folder / "bin/python"
    run(own, "-m", "pip", "-q", "install", "--disable-pip-version-check", *packages)
    return own


def check_use(python: pathlib.Path, folder: pathlib.Path) -> None:
    """The package's own tests of what it consists of, away from the repository."""
    tests = folder / "tests"
    tests.mkdir()
    names = ("conftest.py", "test_command.py", "test_trace.py")
    for name in names:
        shutil.copy(PYTHON / "tests" / name, tests)
    clean = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "TPTRACE_LIBRARY")}
    run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *names[1:], cwd=tests, env=clean)
    assert run(folder / "bin/tptrace", "--version", cwd=tests, env=clean) == f"tptrace {VERSION}\n"


def main() -> int:
    wheel = pathlib.Path(sys.argv[1]).resolve()
    scratch = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "target/test/wheels").resolve()
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    check_tag(wheel)
    check_library(wheel, scratch)

    found = pythons()
    for version in dict.fromkeys((min(found), max(found))):
        folder = scratch / ".".join(map(str, version))
        check_use(environment(found[version], folder, wheel, "pytest>=8", "numpy"), folder)
        print(f"package: the wheel on Python {'.'.join(map(str, version))}")

    run(sys.executable, "-m", "build", "--sdist", "--outdir", scratch, PYTHON)
    source = scratch / f"tptrace-{VERSION}.tar.gz"
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("setup.py", "LICENSE-MIT", "src/tptrace/__init__.py", "crate/Cargo.toml", "crate/Cargo.lock", "crate/src/lib.rs"):
        assert name in names, f"{name} is not in {source.name}"
    assert not any(re.search(r"\.so$|__pycache__|/target/", name) for name in names), sorted(names)
    folder = scratch / "from source"
    # What was compiled for the tests serves here too: that it builds is the question, not how fast it is.
    os.environ.update(CARGO_TARGET_DIR=str(ROOT / "target"), SETUPTOOLS_RUST_CARGO_PROFILE="dev")
    check_use(environment(sys.executable, folder, source, "pytest>=8", "numpy"), folder)
    print(f"package: {source.name}: {source.stat().st_size:,} bytes, built and tested")
    return 0


if __name__ == "__main__":
    sys.exit(main())
