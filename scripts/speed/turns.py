"""Lets two programs run in turn for a fraction of a second each, by SIGSTOP and SIGCONT.

Virtual cores change their speed from second to second; programs that take turns meet the same speeds, so that the
ratio of their times is that of an even machine.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

OWN, OTHERS = 0.4, 0.2  # seconds of a turn


def children_of_all():
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    return children


def descendants(process):
    children, found = children_of_all(), [process]
    for one in found:
        found += children.get(one, [])
    return found


class InTurns:
    """A command whose processes of this program, one of each rank, run in their turns only. Ended with the block."""

    def __init__(self, command, program, ranks, folder):
        self.errors = folder / "errors.txt"
        # In a session of its own: the kernel ends the stopped processes of one that loses its parent.
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(command, cwd=folder, start_new_session=True,
                                            stdout=subprocess.DEVNULL, stderr=errors)  # fmt: skip
        name, self.ranks = pathlib.Path(program).name[:15], []
        while len(self.ranks) < ranks and self.is_running():
            time.sleep(0.01)
            self.ranks = [one for one in descendants(self.process.pid) if self.is_named(one, name)]
        self.turns, self.seconds, self.began = [], 0, time.time()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.send(signal.SIGKILL)
        self.process.wait()

    @staticmethod
    def is_named(process, name):
        try:
            return pathlib.Path(f"/proc/{process}/comm").read_text().strip() == name
        except OSError:
            return False

    def send(self, number):
        for one in self.ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, number)

    def is_running(self):
        return self.process.poll() is None

    def pause(self):
        self.send(signal.SIGSTOP)
        now = time.time()
        self.turns.append((self.began, now, self.seconds))
        self.seconds += now - self.began

    def go_on(self):
        self.began = time.time()
        self.send(signal.SIGCONT)

    def run(self, seconds):
        self.go_on()
        time.sleep(seconds)
        self.pause()

    def seconds_at(self, when):
        """Seconds of its turns until this time."""
        for began, ended, before in reversed(self.turns):
            if when >= began:
                return before + min(when, ended) - began
        return 0

    def fail(self):
        sys.exit(f"{' '.join(map(str, self.process.args))} failed:\n{self.errors.read_text()}")


class Training(InTurns):
    """A run whose config is in the folder, after its first steps, in which libraries select their kernels."""

    def __init__(self, command, program, ranks, folder, warm_up):
        self.metrics = folder / "run" / "metrics.jsonl"
        shutil.rmtree(self.metrics.parent, ignore_errors=True)
        super().__init__(command, program, ranks, folder)
        while self.steps() < warm_up:
            if not self.is_running():
                self.fail()
            time.sleep(0.02)
        self.pause()

    def steps(self):
        return self.metrics.read_bytes().count(b"\n") if self.metrics.exists() else 0

    def progress(self):
        """Steps, and seconds of its turns until the last of them."""
        return self.steps(), self.seconds_at(self.metrics.stat().st_mtime)


class Pace(InTurns):
    """pace.cpp in a dtype."""

    def __init__(self, program, dtype, folder):
        folder = folder / f"pace-{dtype}"
        folder.mkdir(exist_ok=True)
        self.counts = folder / "counts"
        self.counts.unlink(missing_ok=True)
        super().__init__([program, dtype, self.counts], program, 1, folder)
        while not self.steps():
            if not self.is_running():
                self.fail()
            time.sleep(0.02)
        self.pause()

    def steps(self):
        return sum(memoryview(self.counts.read_bytes()).cast("q")) if self.counts.exists() else 0

    def progress(self):
        """Products, and seconds of its turns."""
        return self.steps(), self.seconds


def take_turns(program, paces, is_over, progress=lambda: (0, 0)):
    """The progress of the program and of each pace before each of its turns, and at the end."""
    marks = []

    def mark():
        for pace in paces:
            pace.run(OTHERS)
        marks.append((progress(), *(pace.progress() for pace in paces)))

    mark()
    while program.is_running() and not is_over():
        program.run(OWN)
        mark()
    return marks


def seconds_per_step(marks, which=0):
    """Of the program, or with 1 of the first pace, from the first mark at which it had had a turn."""
    inside = [mark[which] for mark in marks if mark[which][1] > 0]
    (first, begin), (last, end) = inside[0], inside[-1]
    return (end - begin) / (last - first)
