"""How the facts of a test program are tried."""
import os
import pathlib
import signal
import sys
import tempfile
import time
import traceback

from checks import PATIENCE, Skip, check, note
from workshop import Workshop

FACTS = []


def fact(function):
    """Marks a function of one argument, a Workshop, whose name says what must hold."""
    FACTS.append(function)
    return function


def main(at_once=1):
    """TRIREME [NAME...]: tries the facts of the program that runs, all or those named; so many of
    them at once, where they neither measure time nor need what only one can have."""
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} PATH_TO_TRIREME [NAME...]\n" +
                 "".join(f"  {f.__name__}\n" for f in FACTS))
    trireme, names = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    unknown = set(names) - {f.__name__ for f in FACTS}
    check(not unknown, "no such fact:", unknown)
    print(f"machine factor {PATIENCE:.1f}: limits are {PATIENCE:.1f} times their usual", flush=True)
    chosen = [f for f in FACTS if not names or f.__name__ in names]
    with tempfile.TemporaryDirectory(prefix="trireme-test-", ignore_cleanup_errors=True) as common:
        common = pathlib.Path(common).resolve()
        if at_once > 1 and len(chosen) > 1:
            results = _try_at_once(chosen, trireme, common, at_once)
        else:
            results = [_try(f, trireme, common) for f in chosen]
    failed, skipped = results.count("FAILED"), results.count("skipped")
    print(f"{results.count('ok')} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 77 if skipped else 0)


def _try(function, trireme, common):
    print(f"{function.__name__}", flush=True)
    start = time.monotonic()
    outcome = "ok"
    with Workshop(trireme, common=common) as workshop:
        try:
            function(workshop)
        except Skip as why:
            note(f"skipped: {why}")
            outcome = "skipped"
        except Exception:  # every other fact is still worth trying
            traceback.print_exc(file=sys.stdout)
            outcome = "FAILED"
    print(f"  {outcome} ({time.monotonic() - start:.1f} s)", flush=True)
    return outcome


OUTCOMES = ["ok", "FAILED", "skipped"]  # as exit codes of a fact's process


def _try_at_once(functions, trireme, common, count):
    """Each in a process of its own, whose output is shown as a whole when it ends."""
    left, running, outcomes = list(functions), {}, []
    try:
        while left or running:
            while left and len(running) < count:
                output = tempfile.TemporaryFile()
                sys.stdout.flush()
                process = os.fork()
                if not process:
                    os.dup2(output.fileno(), 1)
                    os.dup2(output.fileno(), 2)
                    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # cleans up
                    code = OUTCOMES.index("FAILED")
                    try:
                        code = OUTCOMES.index(_try(left[0], trireme, common))
                    finally:
                        sys.stdout.flush()
                        os._exit(code)
                running[process] = output
                left.pop(0)
            process, status = os.wait()
            with running.pop(process) as output:
                size = os.fstat(output.fileno()).st_size
                print(os.pread(output.fileno(), size, 0).decode(errors="replace"), end="",
                      flush=True)
            code = os.waitstatus_to_exitcode(status)
            if code not in range(len(OUTCOMES)):
                print(f"  FAILED: its process ended with {code}", flush=True)
                code = OUTCOMES.index("FAILED")
            outcomes.append(OUTCOMES[code])
    finally:
        for process in running:  # where this one is interrupted
            os.kill(process, signal.SIGTERM)
    return outcomes
