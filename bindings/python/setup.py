"""Builds the library of the crate above into the package: one wheel for every CPython."""

import pathlib
import re

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools_rust import Binding, RustExtension

CRATE = pathlib.Path(__file__).resolve().parents[2] / "Cargo.toml"


class AnyPython(bdist_wheel):
    """The library is loaded with ctypes: only the platform matters."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(
    version=re.search(r'^version = "(.+)"', CRATE.read_text(), re.MULTILINE)[1],
    rust_extensions=[
        RustExtension("tptrace.libtptrace", path=str(CRATE), binding=Binding.NoBinding, py_limited_api=True, args=["--locked", "--no-default-features"])
    ],
    cmdclass={"bdist_wheel": AnyPython},
    zip_safe=False,
)
