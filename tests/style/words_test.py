#!/usr/bin/env python3
"""scripts/check_words.py finds planted words, and nothing else: words_test.py ROOT"""

import pathlib
import subprocess
import sys
import tempfile

CASES = [  # a file, its text, and the words found in it with their lines
    ("model/one.h", "// Loads a microbatch.\nint behaviour;\n", ["1: microbatch"]),
    ("model/one.h", "int x;  // the run goes\n        // on with its neighbours\n",
     ["1: goes on", "2: neighbours"]),
    ("data/one.cpp", 'throw Error("the state is "\n            "told to nobody");\n',
     ["1: is told", "2: nobody"]),
    ("checkpoint/one.cpp", "const char quote = '\"';  // optimise it\n/* for\n   people */\n",
     ["1: optimise", "2: for people"]),
    ("parallel/one.cpp", "struct Told {\n  enum class Ended { kNot };\n};\n",
     ["1: struct Told", "2: enum class Ended"]),
    ("README.md", "It is made\nanew.\n", ["2: anew"]),
    ("configs/one.toml", "# the fullest\n# node\n", ["1: the fullest"]),
    ("scripts/one", "#!/bin/bash\n# what goes\n# on here\n", ["2: goes on"]),
    ("trainer/one.cpp", '#include "parallel/comm/host_peers.h"\nint nobody = behaviour(beside);\n',
     []),
    ("trainer/one.h", "// `neighbours` and neighbours_of of a MicroBatch\nstruct ToldTwice {};\n", []),
    ("trainer/one.cpp", "int goes;  // ended\nint on;  // on\n", []),
    ("tests/one.h", "// Elsewhere anew is no violation.\n", []),
]  # fmt: skip


def main():
    script = pathlib.Path(sys.argv[1]) / "scripts" / "check_words.py"
    for name, text, expected in CASES:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            done = subprocess.run([sys.executable, script, folder], capture_output=True, text=True)
        found = [line.split(" -> ")[0] for line in done.stdout.splitlines()]
        wanted = [f"{name}:{word}" for word in expected]
        if found != wanted or done.returncode != int(bool(expected)) or done.stderr:
            sys.exit(f"{text}gave {done.returncode}: {done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
