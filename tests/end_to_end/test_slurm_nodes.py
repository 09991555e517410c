#!/usr/bin/python3
"""trireme launch in a job of a real Slurm: nodes are lost and come back, agents and the supervisor
are killed."""
import os
import pathlib
import signal
import time

from checks import PATIENCE, TIMEOUT, check, note
from facts import fact, main
from flight_recorder import Ledger, state_of
from launched import Launched, SlurmJob
from run_folder import curve, events, same_curve, steps_done
from slurm_jobs import SLOW_STEPS, Node, cluster_for
from workshop import inject_fault, slurm_cluster

# Four ranks whose steps have the bits of one rank's.
RUN = {"job": {"reproducible": True},
       "training": {"seq_len": 32, "local_batch_size": 1, "global_batch_size": 16},
       "lr_scheduler": {"name": "constant"},
       "checkpoint": {"interval": 20, "keep_latest_k": 2},
       "elastic": {"heartbeat_timeout_s": 20 * PATIENCE, "restart_wait_s": 0.5}}
ENDLESS = 1000000


def submit(cluster, workshop, config, *words, each=1, nodes=None,
           after="echo -e \"\\nexit $?\""):
    """A job of all nodes or of these, with so many ranks on each, that goes on when one is lost."""
    (workshop / "job.log").unlink(missing_ok=True)
    # Which library multiplies is chosen by timings, and has its own bits.
    cluster.env["XDG_CACHE_HOME"] = workshop.env["XDG_CACHE_HOME"]
    cluster.env |= SLOW_STEPS
    (workshop / "job.sbatch").write_text(
        f"#!/bin/bash\n{workshop.trireme} launch {config} {' '.join(words)}\n{after}\n")
    nodes = nodes or cluster.nodes
    return cluster.submit("--no-kill", f"--nodes={len(nodes)}", f"--nodelist={','.join(nodes)}",
                          f"--ntasks-per-node={each}", "--output=job.log", "job.sbatch",
                          folder=workshop.folder)


def log_of(workshop):
    log = workshop / "job.log"
    return log.read_text() if log.exists() else ""


def wait_until(workshop, holds, what, timeout=TIMEOUT):
    end = time.monotonic() + timeout
    while not holds():
        text = log_of(workshop)
        check(time.monotonic() < end and "\nexit " not in text, f"waited {timeout} s for {what}:",
              text[-3000:])
        time.sleep(0.02)


def wait_for_exit(workshop, code, timeout=TIMEOUT):
    """Until the launch of the job has ended with this exit code."""
    end = time.monotonic() + timeout
    while not (text := log_of(workshop)).endswith(f"\nexit {code}\n"):
        check("\nexit " not in text and time.monotonic() < end, f"not exit {code}:", text[-3000:])
        time.sleep(0.05)


def wait_for_steps(workshop, run, more):
    wanted = steps_done(run) + more
    wait_until(workshop, lambda: steps_done(run) >= wanted, f"step {wanted} of {run.name}")


def ranks_of(run):
    """How many ranks each incarnation had."""
    return [event["ranks"] for event in events(run, "launch")]


def what_of(process, name):
    try:
        return pathlib.Path(f"/proc/{process}/{name}").read_text(errors="replace").split("\0")
    except OSError:  # ended meanwhile
        return []


def processes_in(folder):
    """Those that were started in it: other tests' clusters are none of ours."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{name}/cwd") == str(folder):
                found.append(int(name))
        except OSError:  # ended meanwhile
            continue
    return found


def ranks(run):
    """The processes that have the mark of a supervised run's ranks, and live in it."""
    return [p for p in processes_in(run.parent)
            if any(word.startswith("TRIREME_RUN=") for word in what_of(p, "environ")) and
            f"{run.name}.toml" in what_of(p, "cmdline")]


def processes_of(workshop, *words):
    """Those that are this trireme with these words, not the srun that each may belong to, nor the
    guard of such a one."""
    return [p for p in processes_in(workshop.folder)
            if what_of(p, "cmdline")[:2] == [str(workshop.trireme), words[0]] and
            what_of(p, "comm") != ["trireme-guard\n"] and set(words) <= set(what_of(p, "cmdline"))]


def power_on(cluster, node):
    try:
        cluster.power_on(node, timeout=0)
    except TimeoutError:
        pass  # it does not get idle: the job has it


def same_as_alone(workshop, run):
    """Every step of the run is there once and has the bits of a single rank's."""
    got = curve(run)
    config = workshop.config("alone", RUN)
    workshop.run("train", config, f"--training.steps={len(got)}", timeout=2 * TIMEOUT).done()
    same_curve(run, curve(workshop / "alone"))
    note(f"{len(got)} steps, each once, with the bits of one rank alone")


@fact
def a_lost_node_is_left_out_and_taken_in_again_when_it_returns(workshop):
    workshop.corpus()
    run = workshop / "run"
    config = workshop.config("run", RUN)
    with slurm_cluster(nodes=4, cpus=1, slurmd_timeout=300) as cluster:
        submit(cluster, workshop, config, f"--training.steps={ENDLESS}")
        wait_until(workshop, lambda: steps_done(run) >= 30, "the first steps")
        check(ranks_of(run) == [4], ranks_of(run))
        before, lost = steps_done(run), time.monotonic()
        cluster.power_off("n3")
        wait_until(workshop, lambda: ranks_of(run)[-1] == 2, "the run to shrink")
        wait_until(workshop, lambda: steps_done(run) > before, "a new step")
        note(f"new step {time.monotonic() - lost:.1f} s after the loss of n3")
        excluded = {event["host"]: event["why"] for event in events(run, "excluded")}
        check("n3" in excluded, excluded)
        note(f"n3: {excluded['n3']}")
        check("n3" not in events(run, "launch")[-1]["hosts"], events(run, "launch")[-1])
        wait_for_steps(workshop, run, 10)

        power_on(cluster, "n3")
        back = time.monotonic()
        wait_until(workshop, lambda: ranks_of(run)[-1] == 4, "the run to grow")
        wait_for_steps(workshop, run, 1)
        note(f"on 4 ranks again {time.monotonic() - back:.1f} s after n3 was back")
        check("n3" in [event["host"] for event in events(run, "returned")], events(run))
        wait_for_steps(workshop, run, 20)
        os.kill(processes_of(workshop, "launch")[0], signal.SIGUSR1)
        wait_for_exit(workshop, 75)
    same_as_alone(workshop, run)


@fact
def agents_are_replaced_and_neither_they_nor_ranks_outlive_a_supervisor_for_long(workshop):
    workshop.corpus()
    run = workshop / "run"
    config = workshop.config("run", RUN)
    with slurm_cluster(nodes=2, cpus=2) as cluster:
        submit(cluster, workshop, config, f"--training.steps={ENDLESS}")
        wait_until(workshop, lambda: steps_done(run) >= 10, "the first steps")
        first = processes_of(workshop, "agent", "n2")
        check(len(first) == 1 and len(ranks(run)) >= 2, first, ranks(run))
        os.kill(first[0], signal.SIGKILL)
        wait_until(workshop, lambda: processes_of(workshop, "agent", "n2") not in ([], first),
                   "another agent on n2")
        wait_for_steps(workshop, run, 30)
        check(len(ranks_of(run)) == 1, "the ranks were started again:", events(run, "launch"))

        killed = time.monotonic()
        os.kill(Ledger(run / "flight-recorder" / "rank-00000").pid, signal.SIGKILL)
        wait_until(workshop, lambda: len(events(run, "resume")) == 1, "the run to go on")
        wait_for_steps(workshop, run, 1)
        note(f"new step {time.monotonic() - killed:.1f} s after the death of a rank")

        # As Slurm's at a preemption, which reaches job steps alone.
        os.kill(processes_of(workshop, "agent", "n1")[0], signal.SIGTERM)
        wait_for_exit(workshop, 75)
        check([event["exit_code"] for event in events(run, "stop")] == [75], events(run))

        job = submit(cluster, workshop, config, f"--training.steps={ENDLESS}", after="sleep 600")
        wait_for_steps(workshop, run, 10)
        os.kill(processes_of(workshop, "launch")[0], signal.SIGKILL)
        killed = time.monotonic()
        wait_until(workshop, lambda: not ranks(run) and not processes_of(workshop, "agent"),
                   "the ranks and the agents to end")
        note(f"nothing left {time.monotonic() - killed:.1f} s after the supervisor was killed")
        check(cluster.job(job)["JobState"] == "RUNNING")
        cluster.ask("scancel", job)

        submit(cluster, workshop, config, f"--training.steps={steps_done(run) + 20}")
        wait_for_exit(workshop, 0)
        check(not processes_of(workshop, "agent"), "agents outlive their job")
    same_as_alone(workshop, run)


@fact
def a_lone_rank_that_is_stopped_on_another_machine_is_missed(workshop):
    """By its node's agent: the supervisor, elsewhere, cannot see how the process stands."""
    workshop.corpus()
    far, heartbeat = Node(workshop.folder, "far"), 5 * PATIENCE
    sections = {**RUN, "training": {**RUN["training"], "steps": 60},
                "elastic": {"heartbeat_timeout_s": heartbeat, "restart_wait_s": 0.5}}
    with cluster_for(workshop, nodes=1, beneath={"n1": far.words}) as cluster:
        token = workshop / "held"
        with Launched(workshop, "run", 1, sections, job=SlurmJob(cluster, 1),
                      env=inject_fault("stop", 20, once=token)) as run:
            ledger = run.folder / "flight-recorder" / "rank-00000"
            check(run.process.wait_for(lambda: token.exists() and state_of(Ledger(ledger).pid) == "T",
                                       "the rank to be stopped"), run.process.text())
            check(Ledger(ledger).host == "far", "it is on", Ledger(ledger).host)
            stopped = time.monotonic()
            check(run.process.wait_for(lambda: run.count("start", "resume") == 2, "another start"),
                  run.process.text())
            took = time.monotonic() - stopped
            note(f"started again {took:.1f} s after it was stopped")
            check(took < heartbeat + 30 * PATIENCE, took)
            run.end()
    check(events(workshop / "run", "ended")[0]["verdict"] == "every rank is stopped",
          events(workshop / "run", "ended"))


@fact
def a_node_that_a_check_accuses_is_left_out(workshop):
    """One may open too few files; of another job's, one has a flipped bit and is outvoted by three."""
    workshop.corpus()
    careful, run = workshop / "careful", workshop / "run"
    config = workshop.config("careful", {**RUN, "elastic": {**RUN["elastic"], "preflight": True}})
    with slurm_cluster(nodes=3, cpus=2, open_files={"n2": 120},
                       more="PropagateResourceLimits=NONE") as cluster:
        job = submit(cluster, workshop, config, "-n 4", "--parallelism.data_shard=4", each=2)
        wait_until(workshop, lambda: len(events(careful, "launch")) > 1, "another start")
        told = {event["host"]: event["why"] for event in events(careful, "excluded")}
        note(told)
        check("can open 120 files" in told["n2"], told)
        # Whatever else this machine does may slow down the ranks of one node.
        check(all("matrix product" in told[host] for host in told if host != "n2"), told)
        hosts = [event["hosts"] for event in events(careful, "launch")]
        nodes = ["n1", "n2", "n3"]
        check(hosts == [nodes, [node for node in nodes if node not in told]], hosts,
              events(careful))
        cluster.ask("scancel", job)
        cluster.wait_for(job, "CANCELLED")

        config = workshop.config("run", {**RUN, "checkpoint": {"interval": 4},
                                         "elastic": {**RUN["elastic"],
                                                     "replica_check_interval": 3}})
        cluster.env["TRIREME_INJECT_WEIGHT"] = (
            f"step=5 rank=1 parameter=embedding.weight bit=3 once={workshop / 'flipped'}")
        submit(cluster, workshop, config, "-n 4", "--training.steps=12",
               "--parallelism.data_replicate=4", "--parallelism.data_shard=1", each=2,
               nodes=["n1", "n3"])
        wait_for_exit(workshop, 0)
    told, = events(run, "excluded")
    note(f"n1: {told['why']}")
    check(told["host"] == "n1" and "embedding.weight" in told["why"], told)
    hosts = [event["hosts"] for event in events(run, "launch")]
    check(hosts == [["n1", "n3"], ["n3"]] and ranks_of(run) == [4, 2], hosts, events(run))
    recovered = events(run, "recovered")[-1]
    check(recovered["resumed_from"] == "disk", recovered)
    same_as_alone(workshop, run)


if __name__ == "__main__":
    main(at_once=2)  # each has its own cluster
