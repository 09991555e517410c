#!/usr/bin/python3
"""One run folder has one writer, whichever node it is on: each here has a host name and a kernel's boot
id of its own."""
import itertools
import json
import os
import shutil
import signal
import time

from checks import PATIENCE, THOROUGH, check, note, random_of
from facts import fact, main
from launched import Fault, Launched
from run_folder import curve, events, metrics, same_checkpoint, same_curve, steps_done
from slurm_jobs import ENDLESS, SLOW_STEPS, Job, Node, cluster_for, script, train_alone

KILLS = 20 if THOROUGH else 4


def killed_on_each(workshop, name, sections, environments):
    """A run that is killed in one of its steps on each of four nodes in turn; its last start may go
    on to the end."""
    nodes = itertools.cycle([Node(workshop.folder, f"{name}{i}") for i in range(4)])
    rng, waits, count = random_of(name), [], 0
    for count, env in enumerate(environments):
        last = count == KILLS
        step = steps_done(workshop / name) + rng.randint(1, 3)
        fault = f"rank=0 step={step} phase=forward action=kill"
        injection = {} if last else {"TRIREME_INJECT_FAULT": fault}
        node, begun = next(nodes), time.monotonic()
        done = node.run(workshop, "train", workshop.config(name, sections),
                        env={**env, **injection})
        waits.append(time.monotonic() - begun)
        check(done.code == (0 if last else -signal.SIGKILL), f"start {count} on {node.name}:", done)
        check("LEASE.json" not in done.err, done)
        if last:
            break
        holder = json.loads((workshop / name / "LEASE.json").read_text())
        check(holder["host"] == node.name and holder["incarnation"] == count + 1, holder)
    check(count == KILLS, f"{count} kills")
    note(f"{KILLS} of {KILLS} starts on another node went on; the longest took {max(waits):.1f} s")


def sections_for(term):
    return {"training": {"steps": 4 * KILLS + 4}, "lr_scheduler": {"name": "constant"},
            "checkpoint": {"interval": 2}, "elastic": {"heartbeat_timeout_s": term}}


@fact
def a_run_goes_on_on_another_node_after_a_hard_kill(workshop):
    workshop.corpus()
    sections = sections_for(term=1)
    workshop.run("train", workshop.config("whole", sections)).done()
    killed_on_each(workshop, "killed", sections, [{}] * (KILLS + 1))
    same_curve(workshop / "killed", curve(workshop / "whole"))
    same_checkpoint(workshop, "killed", "whole")


@fact
def a_requeued_job_proves_its_earlier_self_dead(workshop):
    workshop.corpus()
    sections = sections_for(term=86000)  # which nobody waits for
    workshop.run("train", workshop.config("whole", sections)).done()
    jobs = [{"SLURM_JOB_ID": "4711", **({"SLURM_RESTART_COUNT": str(count)} if count else {})}
            for count in range(KILLS + 1)]
    killed_on_each(workshop, "requeued", sections, jobs)
    same_curve(workshop / "requeued", curve(workshop / "whole"))
    same_checkpoint(workshop, "requeued", "whole")


SUPERVISED = {"job": {"reproducible": True},
              "training": {"seq_len": 64, "global_batch_size": 64, "steps": 40},
              "lr_scheduler": {"name": "constant"}, "parallelism": {"data_shard": 2},
              "checkpoint": {"interval": 10},
              "elastic": {"heartbeat_timeout_s": 20 * PATIENCE, "restart_wait_s": 0.5}}


def told_steps(run):
    return [int(line["step"]) for line in metrics(run)]


def starts_of(run):
    return [event for event in events(run) if event["event"] in ("start", "resume")]


@fact
def nobody_writes_into_a_supervised_run_between_its_starts(workshop):
    faults = [Fault("kill", "forward", rank, step) for rank, step in ((1, 5), (0, 12), (1, 20))]
    with Launched(workshop, "run", 2, SUPERVISED, faults=faults) as run:
        held = run.folder / "LEASE.json"
        check(run.process.wait_for(held.exists, "the lease"), run.process.text())
        config, tries = "run.toml", 0
        while run.process.running():
            plain = workshop.run("train", config, "--parallelism.data_shard=1")
            if plain.code == 0 and not run.process.running():
                break  # it found the run done
            check(plain.code == 4 and f"process {run.process.popen.pid} on" in plain.err,
                  "a plain run was not refused:", plain)
            tries += 1
            time.sleep(0.05)  # the cores are the run's
        done = run.process.wait()
        check(done.code == 0, done)
        incarnations = [event["incarnation"] for event in starts_of(run.folder)][:4]
        check(len(events(run.folder, "launch")) == 4 and incarnations == [1, 2, 3, 4], incarnations)
    note(f"{tries} plain runs were refused while the run was started 4 times")
    check(tries >= 3, f"only {tries} tries")
    check(told_steps(workshop / "run") == list(range(1, 41)), "steps are told twice")
    workshop.run("audit", "run").done()


@fact
def a_supervisor_that_is_killed_is_followed_at_once(workshop):
    kills = 20 if THOROUGH else 3
    sections = {**SUPERVISED, "training": {**SUPERVISED["training"], "steps": 100000}}
    with Launched(workshop, "run", 2, sections) as run:
        for start in range(1, kills + 2):
            # Ranks of the start before go on for a moment: their steps do not count.
            check(run.process.wait_for(lambda: len(starts_of(run.folder)) >= start, f"start {start}"),
                  run.process.text())
            goal = steps_done(run.folder) + 3
            check(run.process.wait_for(lambda: steps_done(run.folder) >= goal, f"step {goal}"),
                  f"start {start}:", run.process.text())
            if start > kills:
                break
            run.process.send(signal.SIGKILL)
            run.process.wait()
            run.process.__exit__()
            run.process = run.start()
        run.process.send(signal.SIGTERM)
        done = run.process.wait()
        check(done.code == 75, done)
    note(f"{kills} of {kills} went on")
    told = told_steps(workshop / "run")
    check(told == list(range(1, len(told) + 1)), "a step is told twice or missing:", told)
    workshop.run("audit", "run").done()


@fact
def a_supervisor_that_is_stopped_between_two_starts_names_the_checkpoint_it_leaves(workshop):
    for name, step, words, committed in (("early", 3, "no checkpoint was committed yet", None),
                                         ("late", 14, "the newest checkpoint is step 10", 10)):
        # A save in the background could still be under way when the rank is killed.
        sections = {**SUPERVISED, "elastic": {**SUPERVISED["elastic"], "restart_wait_s": 3600},
                    "checkpoint": {**SUPERVISED["checkpoint"], "async": False}}
        # The second start gets no further than the first: the third is waited for.
        faults = [Fault("kill", "forward", 1, step), Fault("kill", "forward", 1, step)]
        with Launched(workshop, name, 2, sections, faults=faults) as run:
            check(run.process.wait_for(lambda: run.count("ended") == 2, "the end of the second start"),
                  run.process.text())
            run.process.send(signal.SIGTERM)
            done = run.process.wait()
            line = done.err.strip().splitlines()[-1]
            note(line)
            check(done.code == 75 and words in line, done)
            check(events(run.folder, "give_up")[-1]["committed"] == committed,
                  events(run.folder, "give_up"))


@fact
def a_job_of_slurm_goes_on_on_another_node_after_a_hard_kill(workshop):
    workshop.corpus()
    nodes = {f"n{i + 1}": Node(workshop.folder, f"n{i + 1}") for i in range(4)}
    sections = {**ENDLESS, "parallelism": {"data_shard": 2}, "checkpoint": {"interval": 2}}
    with cluster_for(workshop, nodes=4, beneath={name: node.words for name, node in nodes.items()}) as slurm:
        run = workshop / "moved"
        slurm.env |= SLOW_STEPS
        job = Job(slurm, run, slurm.submit(script(
            workshop, "moved", workshop.config("moved", sections), "--launch", "--nodes=1"),
            folder=workshop.folder))
        used = []
        for _ in range(KILLS if THOROUGH else 2):
            job.wait_for_steps(steps_done(run) + 5)
            node = slurm.job(job.number)["NodeList"]
            holder = json.loads((run / "LEASE.json").read_text())
            check(holder["host"] == node and holder["boot"] == nodes[node].boot.read_text().strip(),
                  holder)
            used.append(node)
            slurm.power_off(node)
            slurm.report_lost(node)
            job.start_again()
            job.wait_for_steps(steps_done(run) + 3)
            check(slurm.job(job.number)["NodeList"] != node, "it came back to the lost node")
            if len(used) >= 3:
                slurm.power_on(used[-3])  # three others are left meanwhile
        job.cancel()
        note(f"lost, one after the other: {' '.join(used)}")
    same_curve(run, train_alone(workshop, steps_done(run)))


if __name__ == "__main__":
    if not shutil.which("unshare") or os.geteuid() != 0:
        print("skipped: only root may give processes a host name of their own, by unshare")
        raise SystemExit(77)
    main(at_once=2)
