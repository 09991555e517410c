"""Ranks that run, as their ledgers show them (parallel/comm/flight_recorder_layout.h)."""
import mmap
import os
import pathlib
import signal
import struct
import time

from checks import check, pause

PHASES = ["start", "load", "data", "forward", "backward", "reduction", "gradient norm",
          "optimizer", "publishing", "report", "validation", "save", "end", "snapshot"]
OPERATIONS = ["nothing", "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast",
              "barrier", "send", "receive", "split"]
HEADER, PROGRESS = struct.Struct("<8x8sIiii16x64s"), struct.Struct("<8xQqqiiIIiiQQq")
PROGRESS_AT, PHASE_AT, OPERATION_AT = 256, 256 + 40, 256 + 44


class Page:
    """Where a rank is."""

    def __init__(self, ledger):
        (_, _, self.step, self.micro_batch, self.layer, phase, operation, _, _,
         self.sequence, _, self.waits_since) = PROGRESS.unpack_from(ledger, PROGRESS_AT)
        self.phase, self.operation = PHASES[phase], OPERATIONS[operation]

    def place(self):
        text = f"step {self.step}, {self.phase}" if self.step else self.phase
        text += f" of micro-batch {self.micro_batch}" if self.micro_batch >= 0 else ""
        text += f", layer {self.layer}" if self.layer >= 0 else ""
        return text + (f", {self.operation} {self.sequence}" if self.operation != "nothing" else "")


class Ledger:
    """Of one process; it can be read when that is gone."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        magic, version, _, _, self.pid, host = HEADER.unpack_from(self.bytes, 0)
        self.host = host.rstrip(b"\0").decode()
        check((magic, version) == (b"TRILEDGR", 1), magic, version)

    def page(self):
        return Page(self.bytes)

    def is_in(self, where, least_step=0, at_work=False):
        """In that phase or call, and `at_work`: in no call."""
        names, at = (PHASES, PHASE_AT) if where in PHASES else (OPERATIONS, OPERATION_AT)
        if struct.unpack_from("<I", self.bytes, at)[0] != names.index(where):
            return False
        page = self.page()
        return (not page.step or page.step >= least_step) and (
            not at_work or page.operation == "nothing")

    def stop_in(self, where, running, least_step=2, at_work=False, by_itself=lambda: False):
        """Stops the process there, however short that is: what it has left again goes on.
        `running`: whether there is still something to wait for, which tells if not. `by_itself`:
        whether the process has stopped itself there."""
        begun = time.monotonic()
        while (where not in ("start", "load") and self.page().step < least_step - 1 and
               not by_itself()):
            running(f"never came to step {least_step - 1}")
            pause(begun)
        tries = 0
        while True:
            # Whoever seldom has a core to watch from stops it anywhere, and looks where it is.
            until = time.monotonic() + 0.005
            while not self.is_in(where, least_step, at_work) and not by_itself() and (
                    time.monotonic() < until or self.page().step < least_step):
                running(f"never stopped in {where}, {tries} tries")
            os.kill(self.pid, signal.SIGSTOP)
            while state_of(self.pid) != "T":
                running(f"it ended before it stopped in {where}, {tries} tries")
                time.sleep(0.0001)
            if self.is_in(where, least_step, at_work) or by_itself():
                return self.page()
            tries += 1
            os.kill(self.pid, signal.SIGCONT)


def state_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def held_rank(run, token, rank=0):
    """The process of a rank that has made the file and stopped itself (workshop.inject_fault), or
    None."""
    path = pathlib.Path(run) / "flight-recorder" / f"rank-{rank:05}"
    if not token.exists() or not path.exists():
        return None
    pid = Ledger(path).pid
    return pid if state_of(pid) == "T" else None


def is_marked(pid, mark):
    """Whether the process has this in its environment."""
    try:
        return mark.encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def marked_processes(mark):
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and is_marked(name, mark)]
