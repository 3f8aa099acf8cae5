#!/usr/bin/env python3
"""Fetches NVIDIA's CUPTI and runtime wheels into a folder, for the tests that want the real headers and libraries.

    wheels.py FOLDER [VERSION...]

Nothing of them is ever committed. Each version that is there is printed as `VERSION INCLUDE LIB`; one that cannot be
had is named on standard error, and the exit status is 1 if there is none at all.
"""

import pathlib
import shutil
import subprocess
import sys
import zipfile

# Of each minor that the tests ask for: the wheels of CUPTI and of the runtime.
VERSIONS = {
    "11.8": (("nvidia-cuda-cupti-cu11", "11.8.87"), ("nvidia-cuda-runtime-cu11", "11.8.89")),
    "12.4": (("nvidia-cuda-cupti-cu12", "12.4.127"), ("nvidia-cuda-runtime-cu12", "12.4.127")),
    "12.9": (("nvidia-cuda-cupti-cu12", "12.9.79"), ("nvidia-cuda-runtime-cu12", "12.9.79")),
    "13.0": (("nvidia-cuda-cupti", "13.0.85"), ("nvidia-cuda-runtime", "13.0.96")),
    "13.2": (("nvidia-cuda-cupti", "13.2.86"), ("nvidia-cuda-runtime", "13.2.86")),
    "13.5": (("nvidia-cuda-cupti", "13.5.25"), ("nvidia-cuda-runtime", "13.5.37")),
}
PLATFORMS = ["manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_25_x86_64", "manylinux1_x86_64"]


def fetch(package: str, version: str, folder: pathlib.Path) -> None:
    """One wheel, unpacked into `folder`, without what no test looks at."""
    scratch = folder.with_name(folder.name + f".{package}.part")
    shutil.rmtree(scratch, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "-d", str(scratch)]
    command += [part for name in PLATFORMS for part in ("--platform", name)]
    subprocess.run([*command, f"{package}=={version}"], check=True, stdout=sys.stderr, timeout=300)
    for wheel in scratch.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if "/include/" in name or pathlib.PurePath(name).name.startswith(("libcupti.so", "libcudart.so")):
                    archive.extract(name, folder)
    shutil.rmtree(scratch)


def places(folder: pathlib.Path) -> tuple[str, str]:
    """Where the headers are, as compiler flags, and where the libraries are, both joined by colons."""
    includes = sorted({str(path.parent) for name in ("cupti.h", "cuda.h") for path in folder.rglob(name)})
    libraries = sorted({str(path.parent) for name in ("libcupti.so*", "libcudart.so*") for path in folder.rglob(name)})
    return ":".join(includes), ":".join(libraries)


def main() -> int:
    target = pathlib.Path(sys.argv[1])
    there = 0
    for version in sys.argv[2:] or VERSIONS:
        folder = target / version
        done = folder / "complete"
        try:
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                for package, release in VERSIONS[version]:
                    fetch(package, release, folder)
                done.touch()
        except (OSError, subprocess.SubprocessError) as error:
            print(f"skipped: the wheels of CUDA {version} could not be had: {error}", file=sys.stderr)
            continue
        includes, libraries = places(folder)
        print(version, includes, libraries)
        there += 1
    return 0 if there else 1


if __name__ == "__main__":
    sys.exit(main())
