#!/usr/bin/env python3
"""Checks what tptrace depends on, from Cargo.lock and `cargo metadata` alone: no network beyond what a build needs.

- every crate, those of tests and the command too, has a licence that deny.toml allows
- none of those that deny.toml denies is among them, and all come from crates.io with a checksum
- the shared library has no crate in two versions, and no more of them than LIMIT
- each dependency in Cargo.toml says in a comment why it is there

Advisories need the database of RustSec: `cargo deny check advisories`, where there is a network.
"""

from __future__ import annotations

import collections
import json
import pathlib
import re
import subprocess
import sys
import tomllib
from typing import Any, Iterator

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Crates whose code is in the shared library. A new one is a decision: raise this with it.
LIMIT = 31
TARGET = "x86_64-unknown-linux-gnu"


def metadata(*options: str) -> Any:
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", TARGET, *options]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def allowed(expression: str, licences: set[str]) -> bool:
    """Whether an SPDX expression can be met with these licences."""
    tokens = re.findall(r"\(|\)|[^\s()/]+|/", expression)
    place = 0

    def either() -> bool:
        nonlocal place
        result = both()
        while place < len(tokens) and tokens[place] in ("OR", "/"):
            place += 1
            result = both() or result
        return result

    def both() -> bool:
        nonlocal place
        result = one()
        while place < len(tokens) and tokens[place] == "AND":
            place += 1
            result = one() and result
        return result

    def one() -> bool:
        nonlocal place
        token = tokens[place]
        place += 1
        if token == "(":
            result = either()
            place += 1
            return result
        if place + 1 < len(tokens) and tokens[place] == "WITH":
            token = f"{token} WITH {tokens[place + 1]}"
            place += 2
        return token in licences

    return either() and place == len(tokens)


def shipped(document: Any) -> set[str]:
    """The ids of the crates whose code is in the library: normal dependencies, but those that only run in the compiler."""
    packages = {package["id"]: package for package in document["packages"]}
    nodes = {node["id"]: node for node in document["resolve"]["nodes"]}
    seen: set[str] = set()
    waiting = [document["resolve"]["root"]]
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            one = dependency["pkg"]
            macro = any("proc-macro" in target["kind"] for target in packages[one]["targets"])
            if one not in seen and not macro and any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                seen.add(one)
                waiting.append(one)
    return seen


def unexplained(manifest: str) -> Iterator[str]:
    """The dependencies that no comment stands above."""
    inside, before = False, ""
    for line in manifest.splitlines():
        if line.startswith("["):
            inside = line.rstrip("]").endswith("dependencies")
        elif inside and "=" in line and not line.startswith("#") and not before.startswith("#"):
            yield line.split("=")[0].strip()
        before = line


def main() -> int:
    rules = tomllib.loads((ROOT / "deny.toml").read_text())
    licences = set(rules["licenses"]["allow"])
    exceptions = {one["crate"]: set(one["allow"]) for one in rules["licenses"]["exceptions"]}
    wrong: list[str] = []

    everything = metadata("--all-features")
    crates = [package for package in everything["packages"] if package["id"] != everything["resolve"]["root"]]
    for package in crates:
        name, licence = package["name"], package["license"]
        if not licence or not allowed(licence, licences | exceptions.get(name, set())):
            wrong.append(f"{name} {package['version']}: its licence, {licence}, is not among those that deny.toml allows")

    library = metadata("--no-default-features")
    packages = {package["id"]: package for package in library["packages"]}
    ours = sorted((packages[one]["name"], packages[one]["version"]) for one in shipped(library))
    for name, count in collections.Counter(name for name, _ in ours).items():
        if count > 1:
            wrong.append(f"{name}: in {count} versions in the library: `cargo tree -d --no-default-features -e normal`")
        if name in exceptions:
            wrong.append(f"{name}: in the library, and its licence is allowed for building and testing only")
    if len(ours) > LIMIT:
        wrong.append(f"{len(ours)} crates are in the library, {LIMIT} are allowed (LIMIT in {pathlib.Path(__file__).name})")

    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    banned = {one["crate"] for one in rules["bans"]["deny"]}
    for package in lock["package"]:
        # Some crates are locked for platforms or features that are never built.
        if package["name"] in banned and any(package["name"] == one["name"] for one in crates):
            wrong.append(f"{package['name']}: denied by deny.toml")
        if package["name"] != "tptrace" and not ("checksum" in package and package["source"].startswith("registry+")):
            wrong.append(f"{package['name']} {package['version']}: not from the registry, or without a checksum")

    wrong += [f"{name}: Cargo.toml does not say why it is there" for name in unexplained((ROOT / "Cargo.toml").read_text())]
    for line in wrong:
        print(f"dependencies: {line}")
    if not wrong:
        print(f"dependencies: {len(ours)} crates in the library, {len(crates)} with the command and the tests, all with known licences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
