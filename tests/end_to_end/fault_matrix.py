"""Every way to fail in every phase of a run under `trireme launch`, who injects it, and what must
come of it. The ranks are started by mpirun, or by srun in a job of a real Slurm: scripts/fault_matrix
goes through all cases either way, tests through all or some."""
import fcntl
import hashlib
import json
import shutil

from checks import PATIENCE, TIMEOUT, check, note
from launched import SIGNALS, Fault, Launched, SlurmJob, tell_recoveries, when
from run_folder import events
from workshop import Workshop, slurm_cluster

RANKS, STEPS, MEMORY, DISK = 4, 120, 2, 6
SECTIONS = {"job": {"threads": 1},
            "data": {"validation": [{"path": "corpus"}]},
            "model": {"flavor": "tiny", "num_hidden_layers": 4},
            "training": {"seq_len": 64, "local_batch_size": 1, "global_batch_size": 4,
                         "steps": STEPS},
            "checkpoint": {"interval": DISK}, "validation": {"freq": 3, "steps": 1},
            "elastic": {"heartbeat_timeout_s": 4 * PATIENCE, "stall_timeout_s": 60 * PATIENCE,
                        "memory_interval": MEMORY, "max_restarts": 100}}
LAYOUTS = {"data": [], "tensor": ["--parallelism.tensor=2"],
           "pipeline": ["--parallelism.pipeline=2"]}
PHASES = ["data", "forward", "backward", "message", "reduction", "optimizer", "snapshot", "save",
          "validation"]
ACTIONS = ["kill", "stop", "abort", "exit", "throw"]
# Every action in every phase, and half of them in a second layout.
CASES = {layout: [] for layout in LAYOUTS}
for number, (phase, action) in enumerate((p, a) for p in PHASES for a in ACTIONS):
    homes = ["pipeline"] if phase == "message" else list(LAYOUTS)
    CASES[homes[number % len(homes)]].append((action, phase))
    if number % 2 and len(homes) > 1:
        CASES[homes[(number + 1) % len(homes)]].append((action, phase))
AT_ONCE = 7  # faults in one run


def slurm():
    """A cluster with two nodes for two ranks each."""
    return slurm_cluster(nodes=2, cpus=RANKS // 2)


def job_of(cluster):
    return SlurmJob(cluster, RANKS // len(cluster.nodes))


def left_alone(workshop, layout=(), sections=None, job=None, ranks=RANKS):
    """The folder of an undisturbed run, which is not restarted either. Facts that compare with the
    same run share it: how the ranks are watched makes no difference to it."""
    sections = sections or SECTIONS
    key = json.dumps([{**sections, "elastic": {}}, layout, ranks], sort_keys=True)
    home = workshop.common / hashlib.sha256(key.encode()).hexdigest()[:16]
    home.mkdir(parents=True, exist_ok=True)
    with open(home / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "complete").exists():
            shutil.rmtree(home / "whole", ignore_errors=True)
            _train_alone(Workshop(workshop.trireme, home), layout, sections, job, ranks)
            (home / "complete").touch()
    return home / "whole"


def _train_alone(workshop, layout, sections, job, ranks):
    with Launched(workshop, "whole", ranks, sections, layout, job=job) as run:
        run.end()
        check([event["why"] for event in events(run.folder, "launch")] == ["start"],
              events(run.folder, "launch"))
        check(not events(run.folder, "failure"), events(run.folder, "failure"))


def patience_after(whole):
    """For what a run takes part of, by what that one took all in all."""
    launched, stopped = events(whole, "launch")[0], events(whole, "stop")[-1]
    return TIMEOUT + 10 * (when(stopped) - when(launched))


def by_signal(action, phase):
    """From outside; but the optimizer's part is too short to be met there."""
    return action in SIGNALS and phase != "optimizer"


def order(case):
    """Those that ranks do themselves come first, some steps apart; last of them in a save, of which
    nobody knows when it ends. Then the signals, each when the one before is over."""
    return 2 if by_signal(*case) else 1 if case[1] == "save" else 0


def planned(cases, rng):
    faults, step = [], 1
    for action, phase in sorted(cases, key=order):
        step += rng.randint(3, 6)
        where = rng.choice(["send", "receive"]) if phase == "message" else phase
        faults.append(Fault(action, where, rng.randrange(RANKS), step, by_signal(action, phase)))
        if phase == "save":  # a rank that was not stopped in it stops itself in the next, before the next fault
            step += DISK
    return faults


def runs_of(cases, rng):
    """All of them, in any order, as the faults of several runs."""
    cases = rng.sample(cases, len(cases))
    cases.sort(key=lambda case: order(case) != 1)  # so that none of the runs gets two of these
    runs = -(-len(cases) // AT_ONCE)
    return [planned(cases[nth::runs], rng) for nth in range(runs)]


def faults_of_one_run(cases, count, rng):
    """So many of the cases."""
    chosen = []
    for case in rng.sample(cases, len(cases)):
        if order(case) != 1 or all(order(other) != 1 for other in chosen):
            chosen.append(case)
    return planned(chosen[:count], rng)


def go_through(workshop, name, layout, faults, whole, job=None):
    """Returns the seconds from each fault to its verdict."""
    with Launched(workshop, name, RANKS, SECTIONS, layout, faults, job=job,
                  patience=patience_after(whole)) as run:
        seconds = [run.inject(fault) for fault in faults]
        run.end()
        recoveries = tell_recoveries(run)
        check(len(recoveries) == len(faults), len(recoveries), "recoveries of", len(faults))
        check(all(event["recomputed_steps"] <= MEMORY + 1 for event in recoveries), recoveries)
        check(len(run.verdicts()) == len(faults), events(run.folder, "failure"))
        crashed = len(events(run.folder, "failure")) - len(faults)
        if crashed:
            note(f"{crashed} starts crashed before there was a rank to blame")
        run.like(whole)
        return seconds
