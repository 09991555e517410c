#!/usr/bin/env python3
"""Checks that no two files define a type of the same name in the same namespace: check_names.py [ROOT]

Such types violate the one-definition rule without a compiler error: the linker may call the wrong
constructor or destructor. Ignores types in unnamed namespaces, specializations, and alternatives of
an #if in one file.
"""

import collections
import pathlib
import re
import sys

LAYERS = ("model", "parallel", "data", "checkpoint", "trainer")
# clang-format starts declarations in a namespace at the beginning of a line.
OPENS = re.compile(r"^namespace (?:([\w:]+) )?\{$")
CLOSES = re.compile(r"^\}  // namespace")
DEFINES = re.compile(r"^(?:struct|class|union|enum(?: class)?) (?:alignas\([^)]*\) )?(\w+)(?: final)?(?: :.*)?(?: \{.*)?$")


def types_in(path):
    spaces = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if opened := OPENS.match(line):
            spaces.append(opened[1])
        elif CLOSES.match(line):
            spaces.pop()
        elif (defined := DEFINES.match(line)) and None not in spaces:
            yield "::".join([*spaces, defined[1]])


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    files = collections.defaultdict(set)
    for layer in LAYERS:
        for path in sorted((root / layer).rglob("*")):
            if path.suffix in (".h", ".cpp", ".cu", ".cuh"):
                for name in types_in(path):
                    files[name].add(str(path.relative_to(root)))
    twice = {name: sorted(where) for name, where in files.items() if len(where) > 1}
    for name, where in sorted(twice.items()):
        print(f"{name} is defined in {' and in '.join(where)}: rename one of them")
    return 1 if twice else 0


if __name__ == "__main__":
    sys.exit(main())
