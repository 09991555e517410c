#!/usr/bin/env python3
"""Checks the sources with clang-tidy: check_tidy.py [--jobs N] BUILD_FOLDER [FILE...]

Checks the translation units of BUILD_FOLDER, N at a time (default: number of cores), or only those that
compile the given files. A unit that passed is not checked again until its sources, headers, flags,
.clang-tidy or clang-tidy itself change: BUILD_FOLDER/tidy-passed has an empty file named by the hash of
all of them. Exit code 77 (skipped) without clang-tidy 21 or later, which ignores system headers:
scripts/setup test installs one into build/clang-tidy.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ("model", "parallel", "data", "checkpoint", "trainer")
LEAST_VERSION = 21
INCLUDED = re.compile(r'^#include "(/.+\.cpp)"$', re.M)
# Folder of omp.h, which the clang-tidy wheel does not include.
GCC_HEADERS = subprocess.run(
    ["g++", "-print-file-name=include"], capture_output=True, text=True
).stdout.strip()
# Compiler warnings are checked by the build; unity sources include .cpp files.
ALWAYS = (
    "--quiet",
    "--extra-arg=-w",
    f"--extra-arg=-idirafter{GCC_HEADERS}",
    "--checks=-bugprone-suspicious-include",
)

# Kernels are compiled for several instruction sets from one source, which is read once, as for
# AVX-512: what stands in branches for others alone is not checked.
ONE_TARGET = ("--extra-arg=-DHWY_COMPILE_ONLY_STATIC", "--extra-arg=-march=skylake-avx512")


def clang_tidy():
    """Path and version text of clang-tidy; None if no recent version is installed."""
    own = ROOT / "build/clang-tidy/clang_tidy/data/bin/clang-tidy"
    for program in (own, shutil.which("clang-tidy")):
        if program and pathlib.Path(program).exists():
            said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
            version = re.search(r"version (\d+)", said)
            if version and int(version[1]) >= LEAST_VERSION:
                return str(program), said
    return None


class Unit:
    """A translation unit: one source, or several in a unity build."""

    def __init__(self, build, entry):
        self.file = pathlib.Path(entry["directory"], entry["file"]).resolve()
        self.command = entry["command"]
        self.output = re.search(r" -o (\S+) ", self.command)[1]
        self.sources = (self.file,)
        text = self.file.read_text() if self.file.exists() else ""
        if build in self.file.parents and text:
            self.sources = tuple(map(pathlib.Path, INCLUDED.findall(text)))
        is_kernel = "define HWY_TARGET_INCLUDE" in text
        self.flags = (*ALWAYS, *ONE_TARGET) if is_kernel else ALWAYS

    def is_ours(self):
        # Skips sources that the tests compile again for their GPU emulator.
        return self.output.split("/")[0] in ROOMS and all(
            ROOT in source.parents and source.suffix == ".cpp" for source in self.sources
        )

    def names(self):
        return ", ".join(str(source.relative_to(ROOT)) for source in self.sources)


def units_of(build):
    """Translation units; sources compiled for several instruction sets are listed once."""
    entries = json.loads((build / "compile_commands.json").read_text())
    units = [unit for unit in (Unit(build, entry) for entry in entries) if unit.is_ours()]
    return list({unit.sources: unit for unit in units}.values())


def headers_of(build):
    """Object -> the files read to compile it, from ninja's dependency log; empty before a build."""
    said = subprocess.run(["ninja", "-C", str(build), "-t", "deps"], capture_output=True, text=True)
    found, reading = {}, []
    for line in said.stdout.splitlines():
        if line.startswith("    "):
            reading.append(build / line.strip())
        elif ": #deps" in line:
            reading = found.setdefault(line.partition(": #deps")[0], [])
            if not line.endswith("(VALID)"):
                reading = []
    return found


def main(jobs, build, files):
    program = clang_tidy()
    if program is None:
        print(f"skipped: needs clang-tidy {LEAST_VERSION} or later (scripts/setup test installs one)")
        return 77
    program, version = program
    wanted = {pathlib.Path(file).resolve() for file in files}
    units = [unit for unit in units_of(build) if not files or wanted & set(unit.sources)]
    headers = headers_of(build)
    passed = build / "tidy-passed"
    passed.mkdir(exist_ok=True)
    config = (ROOT / ".clang-tidy").read_text()
    contents = {}  # path -> hash: most headers are read by most units

    def content(path):
        if path not in contents:
            contents[path] = hashlib.sha256(path.read_bytes()).digest() if path.exists() else b""
        return contents[path]

    def stamp_of(unit):
        """None before a build, when the headers of the unit are unknown."""
        if not headers.get(unit.output):
            return None
        key = hashlib.sha256("\0".join((version, config, *unit.flags, unit.command)).encode())
        for path in headers[unit.output]:
            key.update(content(path))
        return passed / key.hexdigest()

    def check(unit):
        done = subprocess.run(
            [program, *unit.flags, f"--config-file={ROOT / '.clang-tidy'}", "-p", str(build), str(unit.file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if done.returncode == 0:
            if stamp := stamp_of(unit):
                stamp.touch()
            return ""
        return f"{unit.names()}:\n{done.stdout or done.stderr}"

    open_ones = [unit for unit in units if not ((stamp := stamp_of(unit)) and stamp.exists())]
    # Longest first, to balance the cores.
    open_ones.sort(key=lambda unit: -sum(source.stat().st_size for source in unit.sources))
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for complaint in pool.map(check, open_ones):
            if complaint:
                bad += 1
                print(complaint, flush=True)
    print(f"{sum(len(unit.sources) for unit in units)} sources in {len(units)} units: "
          f"{len(open_ones)} checked, {bad} with warnings")
    return 1 if bad else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("files", nargs="*")
    given = parser.parse_args()
    sys.exit(main(given.jobs, given.build.resolve(), given.files))
