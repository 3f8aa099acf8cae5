"""Builds the library of the crate into the package: one wheel for every CPython.

The crate is the repository that this folder is part of, or, in a source distribution, the folder `crate`.
"""

import pathlib
import re
import shutil

from elftools.elf.elffile import ELFFile
from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.sdist import sdist
from setuptools_rust import Binding, RustExtension, Strip

HERE = pathlib.Path(__file__).resolve().parent
CRATE = next(folder for folder in (HERE / "crate", HERE.parents[1]) if (folder / "Cargo.toml").is_file())

# What cargo needs to build the library. Its manifest names examples, benchmarks and a test, so they must be there.
CRATE_FILES = ("Cargo.toml", "Cargo.lock", "build.rs", "README.md", "LICENSE-APACHE", "LICENSE-MIT", "src", "include", "examples/*.rs", "benches/*.rs", "benches/workload", "tests/tracing.rs")

# Libraries that every manylinux machine has.
EVERYWHERE = re.compile(r"(libc\.so\.6|libm\.so\.6|libdl\.so\.2|libpthread\.so\.0|librt\.so\.1|libgcc_s\.so\.1|ld-linux-.*)")


def platform_tag(library, plat):
    """The tag of the oldest glibc that the library runs on, as PEP 600 has it; `plat` if it needs more than glibc."""
    with library.open("rb") as file:
        elf = ELFFile(file)
        needed = [tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")]
        versions = [aux.name for _, all in elf.get_section_by_name(".gnu.version_r").iter_versions() for aux in all]
    glibc = [tuple(map(int, name[6:].split("."))) for name in versions if re.fullmatch(r"GLIBC_[\d.]+", name)]
    if not glibc or not all(map(EVERYWHERE.fullmatch, needed)):
        return plat
    # Rust itself needs 2.17.
    major, minor = max((2, 17), *(version[:2] for version in glibc))
    return f"manylinux_{major}_{minor}_{plat.removeprefix('linux_')}"


class AnyPython(bdist_wheel):
    """The library is loaded with ctypes: only the platform matters, and there only the age of its glibc."""

    def get_tag(self):
        plat = super().get_tag()[2]
        built = pathlib.Path(self.get_finalized_command("build").build_lib, "tptrace")
        library = next(built.glob("libtptrace*.so"), None)
        if library is not None and plat.startswith("linux_") and not self.plat_name_supplied:
            plat = platform_tag(library, plat)
        return "py3", "none", plat


class WithCrate(sdist):
    """The source distribution has the crate in it."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        for pattern in CRATE_FILES:
            for found in sorted(CRATE.glob(pattern)):
                to = pathlib.Path(base_dir, "crate", found.relative_to(CRATE))
                to.parent.mkdir(parents=True, exist_ok=True)
                if found.is_dir():
                    shutil.copytree(found, to, dirs_exist_ok=True)
                else:
                    shutil.copyfile(found, to)


# Setuptools takes licences from this folder only.
for licence in CRATE.glob("LICENSE-*"):
    if not (HERE / licence.name).exists():
        shutil.copyfile(licence, HERE / licence.name)

setup(
    version=re.search(r'^version = "(.+)"', (CRATE / "Cargo.toml").read_text(), re.MULTILINE)[1],
    rust_extensions=[
        RustExtension(
            "tptrace.libtptrace",
            path=str(CRATE / "Cargo.toml"),
            binding=Binding.NoBinding,
            py_limited_api=True,
            args=["--locked", "--no-default-features"],
            # `python -m tptrace`.
            features=["embedded-command"],
            # Line tables are for those who build it; they are most of the size.
            strip=Strip.Debug,
        )
    ],
    cmdclass={"bdist_wheel": AnyPython, "sdist": WithCrate},
    zip_safe=False,
)
