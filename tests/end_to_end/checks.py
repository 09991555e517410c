"""What a fact asks of the program, how long it may take on this machine, and what is drawn by lot."""
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# Seconds that a machine with two cores and nothing else to do takes for what machine_factor() times.
QUIET_WORK, QUIET_SYNC = 0.1, 0.02


def machine_factor():
    """How many times slower than a quiet one the machine is just now, at least 1: it is to start two
    processes that compute at once, and to put a small file on disk."""
    work = "n = 0\nfor i in range(400000): n += i * i"
    start = time.monotonic()
    both = [subprocess.Popen([sys.executable, "-S", "-E", "-c", work]) for _ in range(2)]
    for process in both:
        process.wait()
    computed = time.monotonic() - start
    with tempfile.TemporaryFile() as file:
        start = time.monotonic()
        file.write(bytes(1 << 18))
        file.flush()
        os.fsync(file.fileno())
        synced = time.monotonic() - start
    factor = max(1.0, computed / QUIET_WORK, synced / QUIET_SYNC)
    return min(20.0, math.ceil(10 * factor) / 10)


# Limits are multiplied by it, and the trainer's timeouts where a rank that got no core for a while
# is not to be taken for lost. They only end what hangs: no test waits for one to pass.
PATIENCE = machine_factor()


TIMEOUT = 200 * PATIENCE  # seconds for one command


class Skip(Exception):
    """The machine lacks what the fact needs."""


def check(holds, *what):
    if not holds:
        raise AssertionError(" ".join(str(part) for part in what))


def note(*parts):
    print("   ", *parts, flush=True)


def pause(begun):
    """Sleeps between two polls of a wait that began at `begun` (monotonic seconds). Polls get rarer
    with the wait, so that they leave the cores to the processes under test."""
    time.sleep(min(0.01, max(0.0003, (time.monotonic() - begun) / 100)))


THOROUGH = os.environ.get("TRIREME_THOROUGH") == "1"


def _seed():
    """TRIREME_SEED; else with TRIREME_THOROUGH=1 a new one each time; else that of the commit, so
    that a red run is red again."""
    if "TRIREME_SEED" in os.environ:
        return int(os.environ["TRIREME_SEED"])
    if THOROUGH:
        return time.time_ns() % 1_000_000
    try:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True,
                                text=True, check=True).stdout
        return int(commit[:8], 16) % 1_000_000
    except (OSError, subprocess.CalledProcessError, ValueError):  # an unpacked archive
        return 0


SEED = _seed()


def random_of(*what):
    """A generator for `what`, which draws the same again with the same TRIREME_SEED, as it tells."""
    note(f"TRIREME_SEED={SEED}")
    return random.Random(" ".join(map(str, (SEED, *what))))


def some_of(things, count):
    """So many of them in their order, drawn by TRIREME_SEED; all with TRIREME_THOROUGH=1."""
    things = list(things)
    if THOROUGH or count >= len(things):
        return things
    note(f"{count} of {len(things)} cases: TRIREME_SEED={SEED}")
    chosen = random.Random(f"{SEED} {things}").sample(range(len(things)), count)
    return [things[at] for at in sorted(chosen)]
