#!/usr/bin/env python3
"""Fails when clang-tidy complains: check_tidy.py BUILD_FOLDER [FILE...]

Without files it takes every source of the rooms in BUILD_FOLDER/compile_commands.json, a
core each at a time. A source that passed is not looked at again until it, a header of ours
or .clang-tidy changes. Exit code 77 (skipped) without clang-tidy 14, Debian 12's version.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ("model", "parallel", "data", "checkpoint", "trainer")


def sources(build):
    """Source -> its compile command, of everything in the rooms."""
    commands = json.loads((build / "compile_commands.json").read_text())
    found = {}
    for entry in commands:
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if path.suffix == ".cu":  # C++ only by the grace of the tests' emulator
            continue
        if ROOT in path.parents and path.relative_to(ROOT).parts[0] in ROOMS and path.exists():
            found[path] = entry["command"]
    return found


def digest_of_headers():
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for room in ROOMS:
        for header in sorted((ROOT / room).rglob("*.h")):
            digest.update(str(header.relative_to(ROOT)).encode() + b"\0" + header.read_bytes())
    return digest


def main(build, files):
    program = shutil.which("clang-tidy-14")
    if program is None:
        print("skipped: needs clang-tidy-14 (Debian: clang-tidy)")
        return 77
    known = sources(build)
    wanted = [pathlib.Path(f).resolve() for f in files] if files else sorted(known)
    passed = build / "tidy-passed"
    passed.mkdir(exist_ok=True)
    headers = digest_of_headers()

    def check(path):
        key = headers.copy()
        key.update(known.get(path, "").encode() + b"\0" + path.read_bytes())
        stamp = passed / key.hexdigest()
        if stamp.exists():
            return path, 0, ""
        done = subprocess.run(
            [program, "--quiet", "-p", str(build), str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        if done.returncode == 0:
            stamp.touch()
        return path, done.returncode, done.stdout

    bad = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for path, code, printed in pool.map(check, wanted):
            if code != 0:
                bad += 1
                print(f"{path.relative_to(ROOT)}:\n{printed or '  clang-tidy failed'}", flush=True)
    print(f"{len(wanted)} sources, {bad} with complaints")
    return 1 if bad else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: check_tidy.py BUILD_FOLDER [FILE...]")
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]))
