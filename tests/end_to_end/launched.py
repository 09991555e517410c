"""Runs under `trireme launch` whose ranks are made to fail, and what must come of them: the curve
of a run that was left alone, the right verdicts, and nothing else."""
import contextlib
import ctypes
import dataclasses
import datetime
import os
import pathlib
import re
import shutil
import signal
import socket
import stat
import time
import uuid

from checks import PATIENCE, TIMEOUT, Skip, check, note
from commands import Process
from flight_recorder import OPERATIONS, Ledger, marked_processes, state_of
from run_folder import curve, events, leftovers, same_checkpoint, same_curve
from workshop import MPI

TGKILL = {"x86_64": 234, "aarch64": 131}[os.uname().machine]
SHM = pathlib.Path("/dev/shm")
# What is injected from outside by a signal; the rest the rank does itself.
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "abort": signal.SIGABRT}
VERDICTS = {
    "kill": r"was killed or crashed \(connection lost\)",
    "abort": r"was killed or crashed \(connection lost\)",
    "exit": r"was killed or crashed \(connection lost\)",
    "stop": r"sent no heartbeat for \d+\.\d s \(stopped, or its node is unreachable\)",
    "throw": "failed",
    "hang": r"made no progress for \d+\.\d s"}


# Steps for which one who watches from outside may miss a rank in a phase.
MISSED = 10


@dataclasses.dataclass
class Fault:
    """From this step on, the first time that the rank is in that phase or call, or `by_signal` is
    seen there from outside. Where nobody had a core to see it from, it stops there by itself."""
    action: str
    where: str
    rank: int
    step: int
    by_signal: bool = False
    count: int = 1

    def __str__(self):
        return f"{self.action} of rank {self.rank} in {self.where}"


class SlurmJob:
    """What a command gets of a Slurm (tests/slurm/cluster.py): all nodes, for so many ranks each."""

    def __init__(self, cluster, each):
        self.cluster, self.env = cluster, cluster.env
        self.words = ["salloc", "--quiet", "--no-kill", f"--nodes={len(cluster.nodes)}",
                      f"--ntasks-per-node={each}"]

    def end(self):
        self.cluster.run("scancel", "--partition=normal")


class Launched:
    """A supervised run, by mpirun or as a job of Slurm. Its ranks can be reached; with the block all
    of it ends."""

    def __init__(self, workshop, name, ranks, sections, layout=(), faults=(), words=(),
                 env=None, job=None, patience=TIMEOUT, base=None):
        if not shutil.which("mpirun"):
            raise Skip("mpirun is not installed")
        if not (workshop / "corpus.idx").exists():
            workshop.corpus()
        self.workshop, self.folder, self.ranks = workshop, workshop / name, ranks
        self.temporary = workshop / f"{name}-tmp"
        self.temporary.mkdir(exist_ok=True)
        self.mark, self.tokens = uuid.uuid4().hex, {}
        self.job, self.jobs, self.shared = None, set(), set()
        self.injected = self.reached = 0  # so many faults, the last in that step
        self.patience = patience  # seconds, for what may take long where many want the cores
        self.config, self.layout = workshop.config(name, sections, base), layout
        for number, fault in enumerate(faults):
            self.tokens[id(fault)] = self.folder.parent / f"{name}-injected-{number}"
        injections = "; ".join(self.injection_of(fault) for fault in faults)
        self.changes = {**({"TRIREME_INJECT_FAULT": injections} if injections else {}),
                        **(env or {})}
        self.go_on_by(job, words)

    def go_on_by(self, job, words=()):
        """A supervisor in a job of Slurm's or, where there is none, by mpirun; the one before has
        ended."""
        self.job = job or self.job
        self.command = [*(job.words if job else []), str(self.workshop.trireme), "launch", "-n",
                        str(self.ranks), *map(str, words), self.config, *self.layout]
        self.env = {**self.workshop.env, **MPI, **(job.env if job else {}),
                    "TMPDIR": str(self.temporary), "OMP_NUM_THREADS": "1", **self.changes}
        self.process = self.start()

    def start(self, **changes):
        """The command; once more, it is a second supervisor."""
        return Process(self.command, self.workshop.folder,
                       {**self.env, "TRIREME_TEST_MARK": self.mark, **changes})

    def injection_of(self, fault):
        step, action = fault.step, fault.action
        if fault.by_signal:
            step, action = step + MISSED, "stop"
        return (f"rank={fault.rank} step={step} phase={fault.where.replace(' ', '-')} "
                f"action={action} count={fault.count} once={self.tokens[id(fault)]}")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.__exit__(*error)
        for pid in self.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.job:
            self.job.end()
        for folder in self.snapshots():  # of a run that was given up, or whose test has failed
            shutil.rmtree(folder, ignore_errors=True)

    def left(self):
        return marked_processes(self.mark)

    def count(self, *kinds):
        """Of events, cheaply."""
        try:
            text = (self.folder / "events.jsonl").read_bytes()
        except FileNotFoundError:
            return 0
        return sum(text.count(f'"event":"{kind}"'.encode()) for kind in kinds)

    def verdicts(self):
        """Failures that somebody is blamed for. A start that MPI itself does not stand has none."""
        return [event for event in events(self.folder, "failure") if event["ranks"]]

    def ledger(self, rank):
        """Of the rank in the incarnation that follows the last injected fault."""
        check(self.process.wait_for(lambda: self.count("start", "resume") > self.injected,
                                    f"incarnation {self.injected + 1}", self.patience),
              self.process.text())
        ledger = Ledger(self.folder / "flight-recorder" / f"rank-{rank:05}")
        self.remember(ledger.pid)
        return ledger

    def remember(self, pid):
        """What the rank and others of its incarnation have in /dev/shm."""
        try:
            environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
            maps = pathlib.Path(f"/proc/{pid}/maps").read_text(errors="replace").split()
        except OSError:
            return
        if job := re.search(rb"PMIX_NAMESPACE=(\d+)", environment):
            self.jobs.add(int(job[1]))
        self.shared.update(pathlib.Path(word) for word in maps if word.startswith(f"{SHM}/") and
                           not word.startswith(f"{self.workshop.folder}/"))

    def inject(self, fault):
        """Lets it come, no sooner than two steps after the last, and sees what is told of it. Returns
        how long that took."""
        ledger, failures = self.ledger(fault.rank), self.injected  # each has left one
        token = self.tokens[id(fault)]
        if fault.by_signal:
            least_step = max(fault.step, self.reached + 2)
            page = ledger.stop_in(
                fault.where, self.running_for(self.patience), least_step,
                by_itself=lambda: token.exists() and state_of(ledger.pid) == "T")
            token.touch()
            injected_at, number = time.time(), SIGNALS[fault.action]
            if number == signal.SIGABRT:  # as a failed assertion does, in the thread that works
                ctypes.CDLL(None).syscall(TGKILL, ledger.pid, ledger.pid, number)
                os.kill(ledger.pid, signal.SIGCONT)
            elif number == signal.SIGKILL:
                os.kill(ledger.pid, number)
        else:
            check(self.process.wait_for(token.exists, str(fault), self.patience),
                  f"{fault} never came:", self.process.text())
            page, injected_at = None, token.stat().st_mtime

        def is_judged():
            return self.count("failure") > failures and len(self.verdicts()) > failures

        check(self.process.wait_for(is_judged, f"the verdict of {fault}", self.patience),
              fault, self.process.text())
        failure = self.verdicts()[failures]
        page = page or ledger.page()
        self.names(failure, fault, page)
        detect, told = when(failure) - injected_at, failure["detect_seconds"]
        check(abs(told - detect) < 1.5 * PATIENCE + detect / 2,
              f"{fault}: it says {told:.2f} s, not {detect:.2f} s:", failure)
        self.injected, self.reached = self.injected + 1, page.step
        note(f"{fault}, {detect:.2f} s later: {failure['text']}")
        return detect

    def running_for(self, seconds):
        end = time.monotonic() + seconds

        def running(what):
            if time.monotonic() > end or not self.process.running():
                check(False, what, self.process.text())
        return running

    def names(self, failure, fault, page):
        """The verdict has the right rank, phase and cause."""
        wanted = (rf"rank {fault.rank} \({re.escape(socket.gethostname())}\) "
                  rf"{VERDICTS[fault.action]} in {re.escape(page.place())}\b")
        check(failure["ranks"] == [fault.rank], f"{fault}: blamed are", failure)
        check(re.match(wanted, failure["text"]), f"{fault}:", failure, "should begin with", wanted)
        there = page.operation if fault.where in OPERATIONS else page.phase
        check(there == fault.where and page.step >= fault.step, fault, "came in", page.place())

    def end(self, code=0, timeout=None):
        result = self.process.wait(timeout or self.patience)
        check(result.code == code, f"exit {result.code} instead of {code}:", result)
        self.nothing_left(in_order=code in (0, 75))
        return result

    def like(self, whole):
        """It ended as that run did, to the bit, each step done once."""
        same_curve(self.folder, curve(whole))
        same_checkpoint(self.workshop, self.folder.name, whole)

    def nothing_left(self, in_order):
        """But the snapshots and the lease of a run that was given up, for whoever starts it again."""
        steps = self.job.cluster.steps if self.job else list
        deadline = time.monotonic() + 20 * PATIENCE
        while (self.left() or steps()) and time.monotonic() < deadline:
            time.sleep(0.01)
        check(not self.left(), "processes are left:", self.left())
        check(not steps(), "job steps are left:", steps())
        check(not in_order or not (self.folder / "LEASE.json").exists(), "the lease is left")
        check(not leftovers(self.folder), "left over:", leftovers(self.folder))
        sockets = [path for path in [*self.folder.rglob("*"), *self.temporary.rglob("*")]
                   if stat.S_ISSOCK(path.lstat().st_mode)]
        check(not sockets, "sockets are left:", sockets)
        check(not list(self.temporary.iterdir()), "left in TMPDIR:",
              list(self.temporary.rglob("*")))
        kept = self.snapshots()
        shared = [path for path in self.shared if path.exists() and path not in kept]
        check(not shared and not self.segments(), "left in /dev/shm:", shared, self.segments())
        check(not in_order or not kept, "left in /dev/shm:", kept)

    def segments(self):
        """Open MPI's, of this run."""
        return [path for job in self.jobs for path in SHM.glob(f"vader_segment.*.{job:x}.*")]

    def snapshots(self):
        identity = self.folder / "checkpoints" / "run"
        if not identity.exists():
            return []
        return list(SHM.glob(f"trireme-{os.getuid()}-{identity.read_text().strip()}*"))


def when(event):
    """Seconds since 1970."""
    return datetime.datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()


def tell_recoveries(run):
    """Notes what each took after its verdict. Returns the events."""
    recoveries = events(run.folder, "recovered")
    for event in recoveries:
        note(f"back {event['lost_seconds']:.2f} s after the verdict (all ended in "
             f"{event['end_seconds']:.2f}, relaunched in {event['relaunch_seconds']:.2f}, loaded in "
             f"{event['load_seconds']:.2f}), {event['recomputed_steps']} steps again, from "
             f"{event['resumed_from']}")
    return recoveries
