#!/usr/bin/python3
"""keeper.py FOLDER: the parent of a test cluster's daemons, which ends them with the test.

It adopts what its descendants leave behind, so the cluster is all that is below it. Each line of
standard input is a request, {"words": [...], "log": FILE}, to start a daemon, and is answered by
its process id. At the end of the input, which comes however the test ends, it kills everything
below it and removes FOLDER."""
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LIBC = ctypes.CDLL(None, use_errno=True)


def set_for_process(option, value):
    if LIBC.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def die_with_parent():
    """For preexec_fn: the process is killed when the thread that starts it ends."""
    set_for_process(PR_SET_PDEATHSIG, signal.SIGKILL)


def below(root):
    """The processes that descend from `root`, itself left out."""
    children = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text(errors="replace")
        except OSError:  # ended meanwhile
            continue
        state, parent = text.rpartition(") ")[2].split()[:2]
        children.setdefault(int(parent), []).append((int(stat.parent.name), state))
    found, left = [], [root]
    while left:
        for process, state in children.get(left.pop(), []):
            left.append(process)
            if state != "Z":
                found.append(process)
    return found


def name_of(process):
    try:
        return pathlib.Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:  # ended meanwhile
        return ""


def kill(process, number=signal.SIGKILL):
    try:
        os.kill(process, number)
    except ProcessLookupError:
        pass


def reap(*_):
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def start(words, log):
    with open(log, "ab") as out:
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd="/",
                                start_new_session=True, preexec_fn=die_with_parent).pid


def main():
    folder = sys.argv[1]
    set_for_process(PR_SET_CHILD_SUBREAPER, 1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, reap)
    for line in sys.stdin:
        print(start(**json.loads(line)), flush=True)
    end = time.monotonic() + 60
    while (left := below(os.getpid())) and time.monotonic() < end:
        for process in left:
            kill(process)
        time.sleep(0.02)
        reap()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
