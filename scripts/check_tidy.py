#!/usr/bin/env python3
"""Fails when clang-tidy complains: check_tidy.py BUILD_FOLDER [FILE...]

Without files it takes every source of the rooms in BUILD_FOLDER/compile_commands.json, a
core each at a time. A source that passed is not looked at again until it, a header of ours
or .clang-tidy changes. Exit code 77 (skipped) without clang-tidy 14, Debian 12's version.

Most of the time goes into headers, so sources that compile alike are looked at together, as
one source that includes them. Those of a group that does not pass are looked at alone.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ("model", "parallel", "data", "checkpoint", "trainer")
MOST_TOGETHER = 12
# What a source keeps to itself: names at the start of a line, the only place where our
# formatter puts a namespace's members.
UNNAMED = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.M | re.S)
MEMBER = re.compile(r"^(?:[A-Za-z].*?[ &*])?~?(\w+)(?= =|\(|\{|\[|;| \{| final)", re.M)
NO_MEMBER = re.compile(r"^(using (?!\w+ =)|friend|template|public:|private:|\}|//|#| ).*", re.M)


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


def flags_of(command):
    """What decides how a source is read, and what more of it does no harm: the folders of the
    system's headers, and how its libraries were built. Warnings are the compiler's, and what code
    it makes is nobody's here."""
    deciding, harmless = [], []
    words = iter(shlex.split(command))
    for word in words:
        if word == "-isystem":
            harmless.append(f"-isystem{next(words)}")
        elif word == "-fopenmp" or (word.startswith("-D") and not word.startswith("-DTRIREME")):
            harmless.append(word)
        elif word.startswith(("-D", "-I", "-m", "-std")):
            deciding.append(word)
    return tuple(sorted(deciding)), harmless


def own_names(path):
    """The members of the source's unnamed namespaces and its macros."""
    text = path.read_text()
    names = set(re.findall(r"^#define (\w+)", text, re.M))
    for body in UNNAMED.findall(text):
        names.update(MEMBER.findall(NO_MEMBER.sub("", body)))
    return names


def groups(paths, known):
    """Sources that one including them all could compile, with the flags for it: alike but for
    the system's headers, with no name of their own in common."""
    made = []  # (deciding flags, harmless ones, names, sources)
    for path in paths:
        flags, harmless = flags_of(known[path])
        names = own_names(path)
        for group in made:
            if group[0] == flags and len(group[3]) < MOST_TOGETHER and not group[2] & names:
                break
        else:
            group = (flags, {}, set(), [])
            made.append(group)
        group[1].update(dict.fromkeys(harmless))  # in order
        group[2].update(names)
        group[3].append(path)
    return [([*flags, *harmless], members) for flags, harmless, _, members in made]


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

    def stamp_of(path):
        key = headers.copy()
        key.update(known.get(path, "").encode() + b"\0" + path.read_bytes())
        return passed / key.hexdigest()

    def run(*arguments):
        return subprocess.run(
            [program, "--quiet", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def alone(path):
        done = run("-p", str(build), str(path))
        if done.returncode == 0:
            stamp_of(path).touch()
        return path, done.returncode, done.stdout

    def together(group):
        """The complaints about a group, a source each."""
        flags, members = group
        if len(members) > 1:
            text = "".join(f'#include "{path}"\n' for path in members)
            whole = passed / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.cpp"
            whole.write_text(text)
            done = run(
                "--checks=-bugprone-suspicious-include",
                f"--config-file={ROOT / '.clang-tidy'}",
                str(whole),
                "--",
                *flags,
            )
            whole.unlink()
            if done.returncode == 0:
                for path in members:
                    stamp_of(path).touch()
                return []
        return [alone(path) for path in members]

    open_ones = [path for path in wanted if not stamp_of(path).exists()]
    unknown = [path for path in open_ones if path not in known]
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        # The longest first, so that no core is left with one at the end.
        work = groups([path for path in open_ones if path in known], known)
        work.sort(key=lambda group: -len(group[1]))
        results = [pool.submit(together, group) for group in work]
        results += [pool.submit(lambda path: [alone(path)], path) for path in unknown]
        for result in results:
            for path, code, printed in result.result():
                if code != 0:
                    bad += 1
                    print(f"{path.relative_to(ROOT)}:\n{printed or '  clang-tidy failed'}", flush=True)
    print(f"{len(wanted)} sources, {bad} with complaints")
    return 1 if bad else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: check_tidy.py BUILD_FOLDER [FILE...]")
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]))
