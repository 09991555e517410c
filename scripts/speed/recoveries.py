"""Injects faults into a run under `trireme launch` and measures each recovery: from the fault to the
verdict, to the end of all ranks, to restarted ranks with loaded state, and to the first new step."""

import contextlib
import json
import os
import pathlib
import signal
import statistics
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests/end_to_end")]
sys.dont_write_bytecode = True

from checks import check  # noqa: E402
from flight_recorder import Ledger  # noqa: E402
from launched import Fault, Launched, SlurmJob, when  # noqa: E402
from run_folder import events  # noqa: E402
from workshop import slurm_cluster  # noqa: E402

RANKS, FOR_EVER = 4, 1_000_000
PARTS = ["detect", "end", "relaunch", "load", "first_step"]
LIMIT = 600  # seconds; everything here should take a few
BETWEEN = 20  # minimum number of steps from a recovery to the next fault


def newest_step(folder):
    """The step of the last complete line."""
    try:
        with open(folder / "metrics.jsonl", "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            return json.loads(file.read().split(b"\n")[-2])["step"]
    except (FileNotFoundError, IndexError):
        return 0


class Disturbed:
    """An endless run, and the recovery times of its faults."""

    def __init__(self, run, rng):
        self.run, self.rng, self.rows = run, rng, []

    def come_to(self, holds, what):
        # Polling must not use the ranks' cores.
        end, process = time.monotonic() + LIMIT, self.run.process
        while not holds():
            check(process.running(), f"the run ended before {what}:", process.text()[-4000:])
            check(time.monotonic() < end, f"waited {LIMIT} s for {what}:",
                  "\n".join(map(str, events(self.run.folder)[-12:])), process.text()[-1000:])
            time.sleep(0.005)

    def mark(self):
        """Position in events.jsonl; since() returns the events after it."""
        try:
            return (self.run.folder / "events.jsonl").stat().st_size
        except FileNotFoundError:
            return 0

    def since(self, mark, *kinds):
        with open(self.run.folder / "events.jsonl", "rb") as file:
            file.seek(mark)
            lines = file.read().rpartition(b"\n")[0].splitlines()
        return [event for event in map(json.loads, lines) if event["event"] in kinds]

    def come_to_steps(self, count=BETWEEN):
        start = newest_step(self.run.folder)
        self.come_to(lambda: newest_step(self.run.folder) >= start + count, f"{count} new steps")

    def pid_of(self, rank):
        ledger = Ledger(self.run.folder / "flight-recorder" / f"rank-{rank:05}")
        self.run.remember(ledger.pid)
        return ledger.pid

    def inject_signal(self, rank, number):
        self.come_to_steps()
        time.sleep(self.rng.uniform(0, 0.5))
        pid, mark = self.pid_of(rank), self.mark()
        injected_at = time.time()
        os.kill(pid, number)
        self.follow(mark, injected_at, lambda failure: failure["ranks"] == [rank])

    def wait_for_injected(self, fault):
        mark, token = self.mark(), self.run.tokens[id(fault)]
        self.come_to(token.exists, str(fault))
        self.follow(mark, token.stat().st_mtime, lambda failure: failure["ranks"] == [fault.rank])

    def follow(self, mark, injected_at, is_right, verdicts="failure"):
        """Follows a recovery from an injected fault to the first new step."""
        folder = self.run.folder
        self.come_to(lambda: self.since(mark, "ended"), "the end of all ranks")
        step = newest_step(folder)  # no rank is running
        self.come_to(lambda: self.since(mark, "resume"), "new ranks")
        self.come_to(lambda: newest_step(folder) > step, "a new step")
        now = time.time()
        verdict, *_ = self.since(mark, verdicts) or [None]
        check(verdict, f"no {verdicts} event was recorded:", self.run.process.text())
        ended, resume = self.since(mark, "ended")[0], self.since(mark, "resume")[-1]
        load = resume["load_seconds"]
        row = {"named": is_right(verdict), "total": now - injected_at,
               "detect": when(verdict) - injected_at, "told": verdict.get("detect_seconds"),
               "end": when(ended) - when(verdict),
               "relaunch": when(resume) - load - when(ended), "load": load,
               "first_step": now - when(resume), "again": step - resume["step"],
               "starts": len(self.since(mark, "launch"))}
        self.rows.append(row)
        self.run.injected = len(self.rows)
        parts = "  ".join(f"{part} {row[part]:.2f}" for part in [*PARTS, "total"])
        print(f"  {len(self.rows):3} {parts}"
              + ("" if row["named"] else f"  WRONG: {verdict}")
              + ("" if row["starts"] == 1 else f"  {row['starts']} starts"), flush=True)

    def stop(self):
        """Stops the supervisor, which may run in a Slurm job."""
        self.come_to_steps(2)
        lease = json.loads((self.run.folder / "LEASE.json").read_text())
        os.kill(lease["pid"], signal.SIGTERM)
        self.run.end(75)

    def median(self, part):
        values = [row[part] for row in self.rows if row[part] is not None]
        return statistics.median(values) if values else None


def signalled(workshop, name, sections, number, count, rng, cluster=None):
    job = SlurmJob(cluster, RANKS // len(cluster.nodes)) if cluster else None
    with Launched(workshop, name, RANKS, sections, job=job) as run:
        disturbed = Disturbed(run, rng)
        for _ in range(count):
            disturbed.inject_signal(rng.randrange(RANKS), number)
        disturbed.stop()
    return disturbed


def hanging(workshop, name, sections, count, rng):
    faults = [Fault("hang", rng.choice(["data", "forward", "backward", "optimizer"]),
                    rng.randrange(RANKS), 20 + 2 * BETWEEN * nth) for nth in range(count)]
    with Launched(workshop, name, RANKS, sections, faults=faults) as run:
        disturbed = Disturbed(run, rng)
        for fault in faults:
            disturbed.wait_for_injected(fault)
        disturbed.stop()
    return disturbed


class LosingNodes(Disturbed):
    """Repeatedly kills all processes of a node in use, and then brings the node back."""

    def __init__(self, run, rng, cluster):
        super().__init__(run, rng)
        self.cluster = cluster

    def lose(self):
        self.come_to_steps()
        time.sleep(self.rng.uniform(0, 0.5))
        launch, mark = self.since(0, "launch")[-1], self.mark()
        node = self.rng.choice(launch["hosts"][:RANKS])
        for rank in range(launch["ranks"]):
            self.pid_of(rank)
        victims = self.cluster.processes(node)
        injected_at = time.time()
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):  # it has just exited
                os.kill(pid, signal.SIGKILL)
        self.cluster.power_off(node)  # and what was started meanwhile
        self.follow(mark, injected_at, lambda lost: lost["host"] == node, "excluded")
        others = {event["host"] for event in self.since(mark, "excluded")} - {node}
        check(not others, "also excluded:", others)
        self.come_back(mark, node)

    def come_back(self, mark, node):
        try:
            self.cluster.power_on(node, timeout=0)
        except TimeoutError:
            pass  # it does not become idle: the job uses it
        self.come_to(lambda: any(event["host"] == node for event in self.since(mark, "returned")),
                     f"{node} to return")
        self.come_to(lambda: self.since(mark, "launch")[-1]["ranks"] == RANKS, "all ranks")


def losing_nodes(workshop, name, sections, count, rng, spares):
    with slurm_cluster(nodes=RANKS + spares, cpus=1, slurmd_timeout=300) as cluster, \
            Launched(workshop, name, RANKS, sections, job=SlurmJob(cluster, 1)) as run:
        losing = LosingNodes(run, rng, cluster)
        for _ in range(count):
            losing.lose()
        losing.stop()
    return losing
