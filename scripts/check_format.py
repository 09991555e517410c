#!/usr/bin/env python3
"""Checks that C++ sources are formatted with clang-format: check_format.py [ROOT]

`scripts/check_format.py --fix` formats the files. Exit code 77 (skipped) without clang-format 14,
the version of Debian 12: other versions format differently.
"""

import pathlib
import shutil
import subprocess
import sys

FOLDERS = ("model", "parallel", "data", "checkpoint", "trainer", "tests", "scripts")
SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".c"}


def main(arguments):
    fix = "--fix" in arguments
    places = [a for a in arguments if a != "--fix"]
    root = pathlib.Path(places[0] if places else ".").resolve()
    program = shutil.which("clang-format-14")
    if program is None:
        print("skipped: needs clang-format-14 (Debian: clang-format)")
        return 77
    sources = sorted(
        str(path)
        for folder in FOLDERS
        for path in (root / folder).rglob("*")
        if path.suffix in SUFFIXES
    )
    mode = ["-i"] if fix else ["--dry-run", "-Werror"]
    done = subprocess.run([program, "--style=file", *mode, *sources])
    if done.returncode != 0:
        print("run scripts/check_format.py --fix to format these files")
    return 1 if done.returncode else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
