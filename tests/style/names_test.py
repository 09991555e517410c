#!/usr/bin/env python3
"""scripts/check_names.py finds what it is for, and nothing else: names_test.py ROOT"""

import pathlib
import subprocess
import sys
import tempfile

CASES = [  # two files' texts, and whether they are at odds
    ("namespace a {\nstruct Seat {\n};\n}  // namespace a\n",
     "namespace a {\nclass Seat final : public Base {\n};\n}  // namespace a\n", True),
    ("namespace a {\nstruct Seat {};\n}  // namespace a\n",
     "namespace b {\nstruct Seat {};\n}  // namespace b\n", False),
    ("namespace a {\nnamespace {\nstruct Seat {\n};\n}  // namespace\n}  // namespace a\n",
     "namespace a {\nstruct Seat {\n};\n}  // namespace a\n", False),
    ("namespace a {\nstruct Seat;\n}  // namespace a\n",
     "namespace a {\nstruct Seat {\n};\n}  // namespace a\n", False),
]  # fmt: skip


def main():
    script = pathlib.Path(sys.argv[1]) / "scripts" / "check_names.py"
    for one, other, at_odds in CASES:
        with tempfile.TemporaryDirectory() as folder:
            room = pathlib.Path(folder) / "model"
            room.mkdir()
            (room / "one.h").write_text(one)
            (room / "other.cpp").write_text(other)
            done = subprocess.run([sys.executable, script, folder], capture_output=True, text=True)
        expected = "a::Seat is defined in model/one.h and in model/other.cpp" if at_odds else ""
        if done.returncode != int(at_odds) or not done.stdout.startswith(expected) or done.stderr:
            sys.exit(f"{one}{other}gave {done.returncode}: {done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
