#!/usr/bin/python3
"""A full disk costs a run its checkpoint, not the training; nothing written before is lost.

Needs the right to mount a tmpfs (root); skipped, visibly, without it.
"""
import os
import re
import signal

from checks import check, note
from facts import fact, main
from run_folder import (checkpoints, contents, curve, events, metrics, partials, same_checkpoint,
                        same_curve, steps_done)

# A checkpoint has 1.6 MB, a step takes some milliseconds.
RUN = {"training": {"steps": 60, "seq_len": 64, "local_batch_size": 8, "global_batch_size": 8}}


class Ballast:
    """What fills a file system to the last byte."""

    def __init__(self, folder):
        self.path = folder / "ballast"

    def load(self):
        with open(self.path, "wb", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                while True:
                    try:
                        file.write(bytes(size))
                    except OSError:
                        break

    def drop(self):
        self.path.unlink()


# A step between two checkpoints, and a later one by which the failed save has been reported.
HELD, AGAIN = 8, 40


def held_with_a_checkpoint(workshop, config, run, again=None):
    """Resumed from its first one, so that no other is being written when it stands."""
    workshop.kill_in(HELD, "train", config, "--checkpoint.async=false")
    check(checkpoints(run) == [5], checkpoints(run))
    return workshop.start_held(HELD, "train", config, again=again)


@fact
def training_goes_on_when_the_disk_fills_and_the_last_checkpoint_stays(workshop):
    workshop.corpus()
    workshop.run("train", workshop.config("whole", RUN)).done()
    disk = workshop.tmpfs("disk", "size=12m")
    ballast, run = Ballast(disk), disk / "run"
    config = workshop.config("run", {**RUN, "job": {"dump_folder": run}})
    with held_with_a_checkpoint(workshop, config, run) as process:
        ballast.load()
        kept = {step: contents(run / "checkpoints" / f"step-{step:08}")
                for step in checkpoints(run)}
        note("full after", steps_done(run), "steps, with the checkpoints", sorted(kept))
        process.send(signal.SIGCONT)
        result = process.wait()
    result.refused(5, "the run is done", "the checkpoint of its last step, 60,",
                   "could not be written", f"newest checkpoint: step {max(kept)}",
                   "MiB are free", "start the run again")
    check("warning: the checkpoint of step" in result.err and "was not written" in result.err,
          result)
    check(re.search(r"(?m)^step 60\b", result.err), "it did not train to the end:", result)
    check(f"cannot write {run / 'metrics.jsonl'}" in result.err, result)
    for step, files in kept.items():
        check(contents(run / "checkpoints" / f"step-{step:08}") == files, f"step {step} changed")
    check(not partials(run), "left over:", partials(run))
    check(set(checkpoints(run)) == set(kept), checkpoints(run))
    steps = [int(line["step"]) for line in metrics(run)]
    note(f"{len(steps)} metrics lines, the run's last checkpoint is of step {max(kept)}")
    check(steps == list(range(1, len(steps) + 1)) and len(steps) >= max(kept), steps)
    ballast.drop()
    workshop.run("train", config).done()
    check(events(run, "resume")[-1]["step"] == max(kept), events(run, "resume"))
    same_curve(run, curve(workshop / "whole"))
    same_checkpoint(workshop, run, "whole")


@fact
def no_step_is_missing_from_the_metrics_after_the_disk_was_full_for_a_while(workshop):
    workshop.corpus()
    workshop.run("train", workshop.config("whole", RUN)).done()
    disk = workshop.tmpfs("disk", "size=12m")
    ballast, run = Ballast(disk), disk / "run"
    config = workshop.config("run", {**RUN, "job": {"dump_folder": run}})
    with held_with_a_checkpoint(workshop, config, run, AGAIN) as process:
        ballast.load()
        process.go_on()
        check(f"cannot write {run / 'metrics.jsonl'}" in process.text() and
              "was not written" in process.text(), process.text())
        note("told of both after step", steps_done(run), "in the metrics")
        ballast.drop()
        process.send(signal.SIGCONT)
        result = process.wait().done()
    check("is writable again" in result.err, result)
    same_curve(run, curve(workshop / "whole"))
    same_checkpoint(workshop, run, "whole")


@fact
def a_disk_without_room_for_files_costs_the_checkpoint_alone(workshop):
    """Free space promises nothing: here the file system has no inode left."""
    workshop.corpus()
    workshop.run("train", workshop.config("whole", RUN)).done()
    disk = workshop.tmpfs("disk", "size=64m,nr_inodes=100")
    run = disk / "run"
    config = workshop.config("run", {**RUN, "job": {"dump_folder": run}})
    with held_with_a_checkpoint(workshop, config, run, AGAIN) as process:
        files = []
        try:
            while True:
                files.append(disk / f"file{len(files)}")
                os.close(os.open(files[-1], os.O_CREAT | os.O_WRONLY))
        except OSError:
            files.pop()
        process.go_on()
        check("was not written" in process.text(), process.text())
        check(5 in checkpoints(run), checkpoints(run))
        for file in files:
            file.unlink()
        process.send(signal.SIGCONT)
        result = process.wait().done()
    note([line for line in result.err.splitlines() if "was not written" in line][0])
    same_curve(run, curve(workshop / "whole"))
    same_checkpoint(workshop, run, "whole")


@fact
def a_run_stopped_on_a_full_disk_does_not_claim_a_checkpoint(workshop):
    workshop.corpus()
    disk = workshop.tmpfs("disk", "size=12m")
    run = disk / "run"
    config = workshop.config("run", {**RUN, "job": {"dump_folder": run},
                                     "checkpoint": {"interval": 20, "async": False}})
    with workshop.start_held(22, "train", config) as process:
        Ballast(disk).load()
        kept = max(checkpoints(run))
        check(kept == 20, checkpoints(run))
        process.send(signal.SIGTERM)
        process.send(signal.SIGCONT)
        process.wait().refused(5, "stopped by SIGTERM", "could not be written", "are free",
                               f"newest checkpoint: step {kept}")
    check(max(checkpoints(run)) == kept, checkpoints(run))
    workshop.run("checkpoint", "verify", run).done()


@fact
def a_disk_that_is_full_from_the_start_is_refused(workshop):
    workshop.corpus()
    disk = workshop.tmpfs("disk", "size=1m")
    Ballast(disk).load()
    config = workshop.config("run", {**RUN, "job": {"dump_folder": disk / "run"}})
    workshop.run("train", config).refused(5, disk / "run", "No space left")


@fact
def a_read_only_run_folder_is_refused(workshop):
    workshop.corpus()
    disk = workshop.tmpfs("disk", "size=1m,ro")
    config = workshop.config("run", {**RUN, "job": {"dump_folder": disk / "run"}})
    workshop.run("train", config).refused(5, disk / "run", "Read-only file system")


if __name__ == "__main__":
    main()
