#!/usr/bin/python3
"""A run whose processes are killed at any operation of a commit, one or all of them, goes on from
a good checkpoint and ends with the bits of a run that was left alone."""
import os
import time

from checks import PATIENCE, THOROUGH, check, note, random_of, some_of
from facts import fact, main
from run_folder import (checkpoints, curve, events, leftovers, same_checkpoint, same_curve,
                        steps_done)
from workshop import Faults, inject_fault

INTERVAL = 2
SMALL = {"model": {"flavor": "tiny", "num_hidden_layers": 2, "hidden_size": 32,
                   "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2},
         "training": {"seq_len": 16, "local_batch_size": 1, "global_batch_size": 2, "steps": 60},
         "checkpoint": {"interval": INTERVAL, "keep_latest_k": 2}}

# Where a kill comes: the operation of file_faults, how often it has come by then, its path.
COPY = "sync,1,run/metrics.jsonl"  # what comes before the state is taken
MANIFEST = "open,1,run/checkpoints/.partial-*/manifest.json"
WRITTEN_MANIFEST = "sync,1,run/checkpoints/.partial-*/manifest.json"
RENAME = "rename,1,run/checkpoints/.partial-*"
LATEST = "open,1,run/checkpoints/latest.tmp-*"
NAMED_LATEST = "rename,1,run/checkpoints/latest.tmp-*"
# Once there is one too many.
RETENTION = "rename,1,run/checkpoints/step-*"
EMPTYING = "remove,2,run/checkpoints/.trash-*"


def shard(rank, ranks, count, operation="write"):
    return f"{operation},{count},run/checkpoints/.partial-*/shard-{rank:05}-of-{ranks:05}.h5"


class Run:
    """A run that is killed again and again, beside one that is not."""

    def __init__(self, workshop, changes=None, steps=60):
        self.workshop, self.folder = workshop, workshop / "run"
        self.faults = Faults(workshop, workshop.folder)
        sections = {section: {**SMALL.get(section, {}), **(changes or {}).get(section, {})}
                    for section in {**SMALL, **(changes or {})}}
        sections["training"]["steps"] = steps
        self.steps = steps
        workshop.corpus()
        whole = {**sections, "checkpoint": {"interval": steps}}
        workshop.run("train", workshop.config("whole", whole)).done()
        self.config = workshop.config("run", sections)
        self.kills = 0

    def killed(self, ranks, rule, layout, seconds=None):
        """Whether the rule, or the time, came before the end of the run."""
        resumes = len(events(self.folder, "resume"))
        env = {}
        if seconds is not None:  # it is not to be over by then, however busy the machine is
            env = inject_fault("stop", max(checkpoints(self.folder), default=0) + 3 * INTERVAL)
        with self.faults.start(ranks, "train", self.config, *layout,
                               rules=[rule] if rule else [], env=env) as process:
            if seconds is not None:
                time.sleep(seconds)
                process.popen.kill()
            code = process.wait().code
            text = process.text()
        if code == 0:
            return False
        check("trireme: error: " not in text or "was killed or crashed" in text, text)
        self.kills += 1
        self.resumed_well(resumes)
        return True

    def resumed_well(self, before):
        """No more was lost than what was written last and what was being written."""
        check(not events(self.folder, "checkpoint_rejected"),
              events(self.folder, "checkpoint_rejected"))
        newest, done = max(checkpoints(self.folder), default=0), steps_done(self.folder)
        check(done - newest <= 2 * INTERVAL, f"checkpoint {newest} after step {done}")
        resumes = events(self.folder, "resume")[before:]
        check(all(event["step"] <= newest for event in resumes), resumes, "newest", newest)

    def end(self, layout=(), ranks=1):
        """Left alone from here on, it ends like the other."""
        newest = max(checkpoints(self.folder), default=0)
        with self.faults.start(ranks, "train", self.config, *layout) as process:
            process.wait().done()
        resumed = [event["step"] for event in events(self.folder, "resume")]
        check(newest == 0 or resumed[-1:] == [newest], "resumed from", resumed, "not", newest)
        check(not leftovers(self.folder), "left over:", leftovers(self.folder))
        same_curve(self.folder, curve(self.workshop / "whole"))
        same_checkpoint(self.workshop, "run", "whole")
        self.workshop.run("checkpoint", "verify", "run").done()
        note(f"{self.kills} kills; resumed after steps {resumed}")


@fact
def killed_at_each_stage_of_a_commit_alone(workshop):
    run = Run(workshop)
    points = [f"{COPY},{delay}" for delay in (0, 300, 1000, 3000)]
    points += [shard(0, 1, count) for count in (1, 15, 45)]
    points += [shard(0, 1, 1, "sync"), MANIFEST, WRITTEN_MANIFEST, RENAME, LATEST, NAMED_LATEST,
               RETENTION, EMPTYING]
    for rule in some_of([f"kill-{whom},{point}" for whom in ("rank", "job") for point in points], 14):
        check(run.killed(1, rule, ()), f"{rule} never came")
    run.end()


@fact
def killed_one_rank_or_all_at_each_stage_of_a_commit(workshop):
    """A rank that is killed where another writes, as well as that one."""
    run, layout = Run(workshop), ["--parallelism.pipeline=2"]
    rules = [f"kill-rank-1,{COPY}", f"kill-job,{COPY},1500",
             f"kill-rank,{shard(0, 2, 20)}", f"kill-rank,{shard(1, 2, 30)}",
             f"kill-rank-0,{shard(1, 2, 12)}", f"kill-job,{shard(1, 2, 25)}",
             f"kill-rank,{MANIFEST}", f"kill-rank-1,{MANIFEST}", f"kill-job,{MANIFEST}",
             f"kill-rank,{RENAME}", f"kill-rank-1,{RENAME}", f"kill-job,{RENAME}",
             f"kill-rank,{LATEST}", f"kill-rank-1,{LATEST}", f"kill-job,{LATEST}",
             f"kill-rank,{RETENTION}", f"kill-rank-1,{EMPTYING}", f"kill-job,{EMPTYING}"]
    for rule in some_of(rules, 8):
        check(run.killed(2, rule, layout), f"{rule} never came")
    run.end(layout, 2)


@fact
def killed_in_four_ranks_that_divide_the_state(workshop):
    changes = {"job": {"reproducible": True}, "training": {"global_batch_size": 4}}
    run = Run(workshop, changes)
    layout = ["--parallelism.pipeline=2", "--parallelism.data_shard=2", "--parallelism.zero=1"]
    for rule in [f"kill-rank-3,{COPY}", f"kill-rank,{shard(2, 4, 10)}", f"kill-rank-1,{MANIFEST}",
                 f"kill-job,{RENAME}", f"kill-rank,{LATEST}"]:
        check(run.killed(4, rule, layout), f"{rule} never came")
    run.end(layout, 4)


@fact
def a_process_that_writes_can_be_killed_without_the_run(workshop):
    """Where it is a process of its own; else the run is resumed."""
    run = Run(workshop)
    rules = [f"kill-self,{shard(0, 1, 30 + 50 * nth)}" for nth in range(8)]
    rules += [f"kill-self,write,{2 + 3 * nth},run/checkpoints/.partial-*/state.h5"
              for nth in range(4)]
    with run.faults.start(1, "train", run.config, rules=rules) as process:
        process.wait()
    lost = [event for event in events(run.folder, "warning") if "was not written" in event["text"]]
    note(f"{len(lost)} checkpoints not written:", lost[0]["text"] if lost else "")
    check(len(lost) >= 4, events(run.folder))
    run.end()


@fact
def killed_again_and_again_at_random(workshop):
    """TRIREME_KILLS times; 200 take a minute and a half."""
    kills = int(os.environ.get("TRIREME_KILLS", "200" if THOROUGH else "20"))
    rng = random_of("moments")
    run, start = Run(workshop, steps=40 + kills), time.monotonic()
    while run.kills < kills and time.monotonic() - start < 300 * PATIENCE:
        two = run.kills % 10 == 9
        layout = ["--parallelism.pipeline=2"] if two else []
        action = rng.choice(["kill-rank-0", "kill-rank-1", "kill-job"] if two else ["kill-job"])
        if not two and run.kills % 5 == 0:
            check(run.killed(1, None, [], rng.uniform(0, 0.5)), "it ended")
            continue
        # The first commit of a start is done after some 230 operations: most kills come before.
        operation, delay = rng.randint(1, 700 if two else 350), rng.choice([0, 0, 100, 2000])
        rule = f"{action},any,{operation},*,{delay}"
        check(run.killed(2 if two else 1, rule, layout), f"{rule} never came")
    note(f"{run.kills} kills in {time.monotonic() - start:.0f} s, "
         f"step {max(checkpoints(run.folder), default=0)} of {run.steps}")
    check(run.kills == kills, "the machine is too busy for more than", run.kills)
    run.end()


if __name__ == "__main__":
    # A sync costs nothing there, and what survives a kill is the same.
    if os.access("/dev/shm", os.W_OK):
        os.environ.setdefault("TMPDIR", "/dev/shm")
    main()
