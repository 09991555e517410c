#!/usr/bin/python3
"""What a run shows: a live line in a terminal, and plain lines of at most 80 columns elsewhere."""
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time

from checks import check, note
from commands import Process
from facts import fact, main
from run_folder import metrics
from workshop import MPI, inject_fault

FAST = {"training": {"steps": 200}, "checkpoint": {"interval": 0}, "metrics": {"log_freq": 10}}
COLUMNS = 80  # where the output is no terminal
REDRAWN_AFTER = 0.1  # seconds after which another step writes the live line again (console.cpp)
ERASE = "\x1b[K"


class Terminal(Process):
    """A command in a terminal of so many columns."""

    def __init__(self, workshop, columns, *words, env=None):
        self.words, self.written = words, b""
        self.master, terminal = pty.openpty()
        self.resize(columns)
        self.log = open(os.devnull, "rb")  # for Process, which closes it
        self.popen = subprocess.Popen(
            [workshop.trireme, *words], cwd=workshop.folder, stdin=terminal, stdout=terminal,
            stderr=terminal, env={**workshop.env, "TERM": "xterm", **(env or {})})
        os.close(terminal)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def resize(self, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def read(self):
        while True:
            try:
                part = os.read(self.master, 65536)
            except OSError:  # the last writer has closed it
                return
            self.written += part

    def hold(self, token, what):
        """Once it has stopped itself there, for longer than a live line is left as it is."""
        self.wait_to_stand(token, what)
        time.sleep(1.5 * REDRAWN_AFTER)

    def text(self):
        return self.written.decode().replace("\r\n", "\n")

    def done(self):
        code = self.popen.wait()
        self.reader.join()
        self.log.close()
        os.close(self.master)
        check(code == 0, f"exit {code}:", self.text())
        return self.text()


def screen(text):
    """The lines as they stand in the terminal at the end; a longer one than the window scrolls on."""
    lines, column = [""], 0
    for part in re.findall(r"\x1b\[K|\x1b\[[0-9;]*m|\r|\n|[^\x1b\r\n]+", text):
        line = lines[-1]
        if part == "\n":
            lines.append("")
            column = 0
        elif part == "\r":
            column = 0
        elif part == ERASE:
            lines[-1] = line[:column]
        elif not part.startswith("\x1b"):
            lines[-1] = line[:column].ljust(column) + part + line[column + len(part):]
            column += len(part)
    return lines


def live_lines(text):
    return [line for line in re.findall(r"\r([^\r\n\x1b]*)\x1b\[K", text) if line]


def told_steps(lines):
    return [int(line.split()[1].split("/")[0]) for line in lines if line.startswith("step ")]


WANTED = [1, *range(10, 201, 10)]


@fact
def a_terminal_has_a_live_line_below_the_log_that_fits_it(workshop):
    workshop.corpus()
    for columns in (40, 79, 160):
        name = f"wide-{columns}"
        held = {step: workshop / f"{name}-{step}" for step in (50, 100, 150)}
        injections = [inject_fault("stop", step, once=token)["TRIREME_INJECT_FAULT"]
                      for step, token in held.items()]
        with Terminal(workshop, columns, "train", workshop.config(name, FAST),
                      env={"TRIREME_INJECT_FAULT": ";".join(injections)}) as process:
            for step, token in held.items():
                process.hold(token, f"step {step}")
                process.send(signal.SIGCONT)
            text = process.done()
        live, lines = live_lines(text), screen(text)
        note(f"{columns} columns: {len(live)} live lines, the longest of {max(map(len, live))}: {live[-1]}")
        check(len(set(live)) > len(held), "it is not written again:", live)
        check(all(len(line) < columns for line in live), "wider than the window:", live)
        check(all("%" in line for line in live), live)
        check(columns < 79 or re.search(r"loss \d\.\d{4}  ETA .*  .* tok/s", live[-1]), live[-1])
        check(told_steps(lines) == WANTED, "the log lines are not intact:", lines)
        check(not any("%" in line and "/200  " in line for line in lines), "left behind:", lines)
        check(lines[-2:] == ["done at step 200 of 200", ""], lines[-3:])
        check(columns < 79 or all(len(line) <= columns for line in lines if line.startswith("step ")),
              lines)
        check("ETA" not in lines[-4] and "ETA 0" not in text, lines[-4])


@fact
def it_follows_the_window(workshop):
    workshop.corpus()
    token = workshop / "held"
    with Terminal(workshop, 100, "train", workshop.config("run", FAST),
                  env=inject_fault("stop", 30, once=token)) as process:
        process.hold(token, "step 30")
        process.resize(50)
        process.send(signal.SIGCONT)
        live = live_lines(process.done())
    first = [line for line in live if int(re.search(r"(\d+)/200", line)[1]) < 30]
    then = [line for line in live if line not in first]
    note(f"{max(map(len, first))} columns, then {max(map(len, then))}")
    check(50 < max(map(len, first)) < 100, first)
    check(then and max(map(len, then)) < 50, then)


@fact
def a_dumb_terminal_and_no_color_are_respected(workshop):
    workshop.corpus()
    # what is to be injected is told by a warning, which has a color
    env = inject_fault("stop", 1000)
    text = Terminal(workshop, 100, "train", workshop.config("color", FAST), env=env).done()
    check("\x1b[33m" in text, "no color to forbid:", text)
    env["NO_COLOR"] = "1"
    text = Terminal(workshop, 100, "train", workshop.config("plain", FAST), env=env).done()
    check(not re.search(r"\x1b\[[0-9;]*m", text), "colors:", text)
    check(live_lines(text), "NO_COLOR is of colors alone:", text)
    env = {**inject_fault("stop", 1000), "TERM": "dumb"}
    text = Terminal(workshop, 100, "train", workshop.config("dumb", FAST), env=env).done()
    check(not re.search(r"[\x1b\r]", text), "control characters:", text)
    check(told_steps(text.splitlines()) == WANTED, text)


@fact
def elsewhere_there_are_plain_lines_of_eighty_columns(workshop):
    workshop.corpus()
    done = workshop.run("train", workshop.config("pipe", FAST)).done()
    ranks = workshop.run_ranks(2, "train", workshop.config("ranks", {
        **FAST, "training": {"steps": 200, "local_batch_size": 2}})).done()
    launched = workshop.run("launch", "-n", "2", workshop.config("launched", {
        **FAST, "training": {"steps": 200, "local_batch_size": 2}}), env=MPI).done()
    for result in (done, ranks, launched):
        text = result.out + result.err
        check(not re.search(r"[\x1b\r]", text), "control characters:", result)
        check(told_steps(text.splitlines()) == WANTED, result)
        wide = [line for line in text.splitlines() if len(line) > COLUMNS and not re.search(r"/\S+/", line)]
        note(f"widest: {max(len(line) for line in text.splitlines() if line.startswith('step '))}")
        check(not wide, "wider than 80 columns:", *wide)
        check("ETA 0" not in text and " 1 micro-batches" not in text and " 1 threads" not in text, result)
    for name in ("pipe", "ranks", "launched"):
        check(len(metrics(workshop / name)) == 200, name)


if __name__ == "__main__":
    main()
