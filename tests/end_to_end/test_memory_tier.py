#!/usr/bin/python3
"""A run killed between two checkpoints goes on from its snapshots in memory, bit for bit."""
import os
import pathlib
import signal
import time

from checks import check, note, random_of
from facts import fact, main
from run_folder import (checkpoint, checkpoints, curve, events, same_checkpoint, same_curve,
                        steps_done)

DISK, MEMORY, STEPS = 20, 3, 50


def changes(workshop, **elastic):
    (workshop / "shm").mkdir(exist_ok=True)
    return {"training": {"steps": STEPS}, "checkpoint": {"interval": DISK},
            "elastic": {"memory_interval": MEMORY, "memory_folder": workshop / "shm", **elastic}}


def whole_run(workshop, **elastic):
    workshop.corpus()
    config = workshop.config("whole", changes(workshop, memory_interval=0, **elastic))
    workshop.run("train", config).done()
    return curve(workshop / "whole")


def slots(place):
    return sorted(pathlib.Path(place).glob(f"trireme-{os.getuid()}-*/slot-*/manifest.json"))


def last_resume(run):
    return events(run, "resume")[-1]


@fact
def a_run_killed_between_checkpoints_goes_on_from_memory(workshop):
    expected, run = whole_run(workshop), workshop / "run"
    config = workshop.config("run", changes(workshop))
    rng = random_of("moments")
    for step in (7, 13, 26, 33, 38, 46):  # the first before there is any checkpoint
        with workshop.start_held(step + 1, "train", config, phase="data",
                                 again=step + 3) as process:
            process.send(signal.SIGCONT)
            time.sleep(rng.uniform(0, 0.004))  # somewhere in a step or in a snapshot
            process.send(signal.SIGKILL)
            process.wait()
        reached, newest = steps_done(run), max(checkpoints(run), default=0)
        with workshop.start_held(1, "train", config) as process:
            event = last_resume(run)
            note(f"killed after step {reached}, newest checkpoint of step {newest}: resumed from "
                 f"step {event['step']}{' in memory' if event['in_memory'] else ''}")
            check(reached - event["step"] <= MEMORY, "too far back:", event)
            if event["in_memory"]:
                check(event["from"].startswith(str(workshop / "shm")), event)
                check(f"(step {event['step']}, in memory)" in process.text(), process.text())
            process.send(signal.SIGKILL)
            process.wait()
    check(any(e["in_memory"] for e in events(run, "resume")), events(run, "resume"))
    workshop.run("train", config).done()
    same_curve(run, expected)
    same_checkpoint(workshop, "run", "whole")
    check(not list((workshop / "shm").iterdir()), "the snapshots outlive the run")


@fact
def snapshots_lie_in_dev_shm_for_this_user_alone_until_the_run_ends(workshop):
    workshop.corpus()
    sections = changes(workshop)
    del sections["elastic"]["memory_folder"]
    sections["training"]["steps"] = 100000
    run, config = workshop / "run", workshop.config("run", sections)
    with workshop.start("train", config) as process:
        check(process.wait_for(lambda: steps_done(run) > 2 * MEMORY, "snapshots"), process.text())
        identity = (run / "checkpoints" / "run").read_text().strip()
        folder = pathlib.Path(f"/dev/shm/trireme-{os.getuid()}-{identity}")
        check(f"snapshots every {MEMORY} steps in {folder}: 3.0" in process.text(), process.text())
        check(folder.stat().st_mode & 0o777 == 0o700, oct(folder.stat().st_mode))
        process.send(signal.SIGTERM)
        check(process.wait().code == 75, process.text())
    check(not folder.exists(), "the snapshots outlive the run")
    tally = events(run, "memory_snapshots")[-1]
    note(f"{tally['count']} snapshots of {tally['bytes'] // 2} bytes, "
         f"{1000 * tally['mean_seconds']:.2f} ms on average")
    check(tally["count"] >= 2, tally)


@fact
def a_damaged_snapshot_is_told_and_the_newest_good_state_taken(workshop):
    expected = whole_run(workshop)
    for damaged in (1, 2):
        run = workshop / f"run{damaged}"
        settings = changes(workshop)
        settings["checkpoint"]["async"] = False  # the disk has it when the next step begins
        config = workshop.config(run.name, settings)
        workshop.kill_in(DISK + 2 * MEMORY + 4, "train", config)
        there = sorted(slots(workshop / "shm"), key=lambda path: path.stat().st_mtime)
        for manifest in there[-damaged:]:
            shard = next(manifest.parent.glob("shard-*.raw"))
            with open(shard, "r+b") as file:
                file.seek(shard.stat().st_size // 2)
                byte = file.read(1)[0]
                file.seek(shard.stat().st_size // 2)
                file.write(bytes([byte ^ 4]))
        result = workshop.run("train", config).done()
        event, rejected = last_resume(run), events(run, "snapshot_rejected")
        note(f"{damaged} of {len(there)} damaged: resumed from step {event['step']}"
             f"{' in memory' if event['in_memory'] else ''}; told: {rejected[-1]['why']}")
        check("snapshot in memory rejected: " in result.err and "damaged" in result.err, result)
        check(event["in_memory"] == (len(there) > damaged), event, there)
        check(event["in_memory"] or event["step"] in checkpoints(run), event)
        same_curve(run, expected)


@fact
def a_snapshot_between_a_damaged_checkpoint_and_the_one_before_is_taken(workshop):
    expected, run = whole_run(workshop), workshop / "run"
    settings = changes(workshop, memory_interval=DISK - 1)
    settings["checkpoint"]["async"] = False  # the disk has it when the next step begins
    config = workshop.config("run", settings)
    workshop.kill_in(2 * DISK + 2, "train", config)
    note(f"killed after step {steps_done(run)}")
    with open(next(checkpoint(run, 2 * DISK).glob("shard-*.h5")), "r+b") as file:
        file.truncate(1000)
    result = workshop.run("train", config).done()
    event = last_resume(run)
    check(event["in_memory"] and event["step"] == 2 * DISK - 2, event)
    check("checkpoint rejected: " in result.err and "truncated" in result.err, result)
    same_curve(run, expected)
    same_checkpoint(workshop, "run", "whole")


@fact
def ranks_leave_snapshots_that_another_number_of_ranks_goes_on_from(workshop):
    layout = {"job": {"threads": 1, "reproducible": True},
              "training": {"steps": STEPS, "seq_len": 32, "local_batch_size": 2,
                           "global_batch_size": 4}}
    workshop.corpus()
    sections = {**changes(workshop), **layout}
    workshop.run("train", workshop.config("whole", {**sections, "elastic": {}})).done()
    run, config = workshop / "run", workshop.config("run", sections)
    workshop.kill_in(DISK + 2 * MEMORY + 1, "train", config, ranks=2)
    check(len(list((workshop / "shm").glob("*/slot-*/shard-*-of-00002.raw"))) == 4,
          list((workshop / "shm").rglob("*")))
    reached = steps_done(run)
    workshop.run("train", config).done()
    event = last_resume(run)
    note(f"2 ranks killed after step {reached}, one goes on from step {event['step']}")
    check(event["in_memory"] and event["step"] > DISK, event)
    same_curve(run, curve(workshop / "whole"))
    check(not list((workshop / "shm").iterdir()), "the snapshots outlive the run")


@fact
def without_room_the_run_goes_on_without_snapshots(workshop):
    expected = whole_run(workshop)
    small = workshop.tmpfs("small", "size=1m")
    config = workshop.config("run", changes(workshop, memory_folder=small))
    result = workshop.run("train", config).done()
    warning = [line for line in result.err.splitlines() if "no snapshots in memory" in line]
    note(warning)
    check(len(warning) == 1 and "MiB more on this node" in warning[0], result)
    same_curve(workshop / "run", expected)


@fact
def snapshots_farther_apart_than_checkpoints_are_refused(workshop):
    workshop.corpus()
    config = workshop.config("run", changes(workshop, memory_interval=DISK + 1))
    workshop.run("train", config).refused(2, "elastic.memory_interval", "checkpoint.interval")
    config = workshop.config("run", {**changes(workshop), "checkpoint": {"interval": 0}})
    workshop.run("train", config).refused(2, "elastic.memory_interval", "checkpoint.interval")


if __name__ == "__main__":
    main()
