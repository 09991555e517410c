"""Runs as jobs of a test's Slurm: their configs and scripts, and how one is followed."""
import pathlib
import subprocess
import time
import uuid

from checks import TIMEOUT, Skip, check
from commands import Result
from run_folder import checkpoints, curve, events, steps_done
from workshop import inject_fault, slurm_cluster

# Two ranks, whose steps have the bits of a single rank's. No checkpoint unless asked for. A rank
# that is stopped for a while is not to be missed.
SHARED = {"job": {"reproducible": True},
          "training": {"seq_len": 64, "global_batch_size": 64, "steps": 30},
          "lr_scheduler": {"name": "constant"},
          "parallelism": {"data_shard": 2},
          "checkpoint": {"interval": 0},
          "elastic": {"heartbeat_timeout_s": 600}}
ENDLESS = {**SHARED, "training": {**SHARED["training"], "steps": 1000000}}
# Environment of jobs that train until they are stopped: each step takes 50 ms longer, so that few
# are done while Slurm starts and stops jobs (each is compared with a reference run).
SLOW_STEPS = inject_fault("delay", 1, "optimizer")

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def script(workshop, name, config, *words):
    """trireme slurm's, as a file NAME.sbatch."""
    text = workshop.run("slurm", config, *words).done().out
    (workshop / f"{name}.sbatch").write_text(text)
    return f"{name}.sbatch"


def options(text):
    """What the #SBATCH lines of a script ask for."""
    return [line.split(" ", 1)[1] for line in text.splitlines() if line.startswith("#SBATCH ")]


def cluster_for(workshop, **options):
    cluster = slurm_cluster(**options)
    # Which library multiplies is chosen by timings, and has its own bits.
    cluster.env["XDG_CACHE_HOME"] = workshop.env["XDG_CACHE_HOME"]
    return cluster


# States of a job that is over.
ENDED = ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
         "TIMEOUT")


def told(log):
    """The end of a job's log, of the lines on steps only the last."""
    lines = log.read_text(errors="replace").splitlines(keepends=True)
    return "".join(line for number, line in enumerate(lines)
                   if number > len(lines) - 10 or not line.startswith("step "))[-6000:]


class Node:
    """Words that start a command on a machine of that name, newly booted as far as one can see."""

    def __init__(self, folder, name):
        self.name, self.boot = name, pathlib.Path(folder) / f"boot-id-of-{name}"
        self.boot.write_text(f"{uuid.uuid4()}\n")
        hosts = pathlib.Path(folder) / f"hosts-of-{name}"
        hosts.write_text(pathlib.Path("/etc/hosts").read_text() + f"\n127.0.0.1 {name}\n")
        self.words = ["unshare", "--uts", "--mount", "sh", "-c",
                      f"hostname {name} && mount --bind {self.boot} {BOOT_ID} && "
                      f'mount --bind {hosts} /etc/hosts && exec "$@"', name]
        tried = subprocess.run([*self.words, "cat", BOOT_ID], capture_output=True, text=True,
                               check=False)
        if tried.stdout != self.boot.read_text():
            raise Skip(f"namespaces are not allowed here: {tried.stderr.strip()}")

    def run(self, workshop, *words, env=None):
        words = [*self.words, str(workshop.trireme), *words]
        done = subprocess.run(words, cwd=workshop.folder, env={**workshop.env, **(env or {})},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        return Result(words, done.returncode, done.stdout, done.stderr)


class Job:
    """One of a cluster's whose run is in the folder `run`."""

    def __init__(self, slurm, run, number):
        self.slurm, self.run, self.number = slurm, run, number

    def state(self):
        return self.slurm.job(self.number)["JobState"]

    def wait_until(self, holds, what):
        """Fails at once, with the job's log, if the job ends first."""
        end = time.monotonic() + TIMEOUT
        while not holds():
            state = self.state()
            if state in ENDED and holds():
                return
            check(state not in ENDED and time.monotonic() < end, f"{what()}; the job is {state}:",
                  "".join(told(log) for log in self.run.parent.glob(f"{self.run.name}*.out")))
            time.sleep(0.05)

    def wait_for_steps(self, steps):
        self.wait_until(lambda: steps_done(self.run) >= steps,
                        lambda: f"{steps_done(self.run)} steps instead of {steps}")

    def wait_for_stops(self, count):
        self.wait_until(lambda: len(stops(self.run)) >= count,
                        lambda: f"stopped by {stops(self.run)} only, after "
                                f"{steps_done(self.run)} steps")
        return stops(self.run)

    def start_again(self):
        self.slurm.start_again(self.number)

    def cancel(self):
        """When it has begun to go on: it commits what it did and does not come back."""
        run, before = self.run, len(stops(self.run))
        self.slurm.ask("scancel", self.number)
        self.slurm.wait_for(self.number, "CANCELLED")
        check(len(stops(run)) == before + 1, stops(run))
        check(checkpoints(run)[-1] == steps_done(run), checkpoints(run), steps_done(run), "steps")


def stops(run):
    return [event["reason"] for event in events(run, "stop")]


def shared_files(processes):
    """What the processes have of /dev/shm."""
    found = set()
    for process in processes:
        try:
            maps = pathlib.Path(f"/proc/{process}/maps").read_text(errors="replace")
        except OSError:  # ended meanwhile
            continue
        found.update(word for word in maps.split() if word.startswith("/dev/shm/"))
    return found


def train_alone(workshop, steps):
    """The curve of so many steps, by one rank that nothing disturbs."""
    config = workshop.config("alone", {**SHARED, "parallelism": {"data_shard": 1}})
    workshop.run("train", config, f"--training.steps={steps}").done()
    return curve(workshop / "alone")
