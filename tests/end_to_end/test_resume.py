#!/usr/bin/python3
"""A run that is killed again and again ends with the bits of one that was not."""
import json
import signal
import statistics
import time

from checks import check, note, random_of
from facts import fact, main
from run_folder import checkpoints, curve, events, partials, same_checkpoint, same_curve, steps_done
from workshop import inject_fault

STEPS = 80
INTERVAL = 4


def moments(rng, commit_seconds):
    """When to kill the incarnations of a run, as (kind, seconds after it)."""
    several = [("commit", rng.uniform(0, 0.95) * commit_seconds),
               ("commit", rng.uniform(0, 1.2) * commit_seconds),
               ("step", rng.uniform(0, 0.005)), ("step", rng.uniform(0, 0.005)),
               ("start", rng.uniform(0, 0.3))]
    rng.shuffle(several)
    return [("commit", 0.0)] + several


def kill_at(workshop, config, kind, delay, rng):
    """Kills a run that is started for it. It is held where that is, and again some steps later, so
    that it does not get away from whoever gets no core to watch it from."""
    run = workshop / "killed"
    newest = max(checkpoints(run), default=0)
    if kind == "start":
        process = workshop.start("train", config, env=inject_fault("stop", newest + INTERVAL + 2))
    elif kind == "step":
        step = newest + rng.randint(2, 7)
        process = workshop.start_held(step, "train", config, again=step + 3)
    else:  # the second, so that there is one more each time
        step = newest + INTERVAL + 1
        process = workshop.start_held(step, "train", config, phase="save", again=step + INTERVAL)
    with process:
        if kind != "start":
            process.send(signal.SIGCONT)
        if kind == "commit":
            check(process.wait_for(lambda: process.state() == "T" or partials(run) and
                                   max(checkpoints(run), default=0) > newest, "a commit"),
                  process.text())
        time.sleep(delay)
        process.send(signal.SIGKILL)
        code = process.wait().code
    note(f"killed {1000 * delay:.1f} ms into a {kind}: exit {code}, {steps_done(run)} steps in "
         f"the metrics, checkpoints {checkpoints(run)}, {len(partials(run))} partial")
    check(code == -signal.SIGKILL, f"exit {code}")


def killed_run_ends_like_a_whole_one(workshop, changes):
    changes = {**changes, "checkpoint": {"interval": INTERVAL}}
    changes["training"] = {**changes.get("training", {}), "steps": STEPS}
    rng = random_of("moments", changes)
    workshop.corpus()
    workshop.corpus("second", seed=2)
    whole, killed = workshop / "whole", workshop / "killed"
    workshop.run("train", workshop.config("whole", changes)).done()
    check(len(curve(whole)) == STEPS, "the whole run has", len(curve(whole)), "steps")
    config = workshop.config("killed", changes)
    commit_seconds = statistics.median(e["seconds"] for e in events(whole, "checkpoint"))
    kills = left = 0
    ahead = moments(rng, commit_seconds)
    # Where the machine is too busy to kill it in a commit, it takes more of them.
    while ahead or (kills < 20 and not (left and len(events(killed, "resume")) > 1) and
                    max(checkpoints(killed), default=0) + 4 * INTERVAL < STEPS):
        kind, delay = ahead.pop(0) if ahead else ("commit", 0.0)
        kill_at(workshop, config, kind, delay, rng)
        kills += 1
        left += len(partials(killed)) > 0
    workshop.run("train", config).done()
    resumed = [event["step"] for event in events(killed, "resume")]
    note(f"{kills} kills, {left} of them in the middle of a commit; resumed after steps {resumed}")
    check(kills >= 6 and left >= 1 and len(resumed) >= 2, "too few of them")
    same_curve(killed, curve(whole))
    same_checkpoint(workshop, "killed", "whole")
    check(not partials(killed), "left over:", partials(killed))
    check(checkpoints(killed) == checkpoints(whole), checkpoints(killed), checkpoints(whole))


@fact
def a_killed_run_ends_bit_for_bit_like_a_whole_one(workshop):
    killed_run_ends_like_a_whole_one(workshop, {})


@fact
def a_killed_run_in_bfloat16_ends_like_a_whole_one(workshop):
    killed_run_ends_like_a_whole_one(workshop, {"training": {"dtype": "bfloat16"}})


@fact
def a_killed_run_with_recomputation_and_validation_ends_like_a_whole_one(workshop):
    killed_run_ends_like_a_whole_one(workshop, {
        "data": {"split": 0.2, "document_mask": True,
                 "train": [{"path": "corpus"}, {"path": "second", "weight": 0.5}]},
        "activation_checkpoint": {"mode": "full"},
        "validation": {"freq": 7, "steps": 3}})


@fact
def a_killed_run_with_accumulation_ends_like_a_whole_one(workshop):
    killed_run_ends_like_a_whole_one(workshop, {
        "model": {"flavor": "tiny", "qk_norm": True},
        "training": {"local_batch_size": 2, "global_batch_size": 4},
        "metrics": {"enable_tensorboard": True}})


@fact
def a_run_that_is_done_does_nothing_more(workshop):
    workshop.corpus()
    config = workshop.config("run", {"training": {"steps": 6}})
    workshop.run("train", config).done()
    before, last = curve(workshop / "run"), checkpoints(workshop / "run")
    again = workshop.run("train", config).done()
    check("done at step 6 of 6" in again.err, again)
    same_curve(workshop / "run", before)
    check(checkpoints(workshop / "run") == last, checkpoints(workshop / "run"))


@fact
def a_longer_run_continues_where_the_shorter_ended(workshop):
    """With a constant learning rate, 12 + 8 steps are 20 steps."""
    workshop.corpus()
    constant = {"lr_scheduler": {"name": "constant"}, "training": {"steps": 20}}
    workshop.run("train", workshop.config("whole", constant)).done()
    config = workshop.config("parts", constant)
    workshop.run("train", config, "--training.steps=12").done()
    check(len(curve(workshop / "parts")) == 12, "12 steps first")
    longer = workshop.run("train", config).done()
    check("training.steps: 12 -> 20" in longer.err, longer)
    same_curve(workshop / "parts", curve(workshop / "whole"))
    same_checkpoint(workshop, "parts", "whole")


@fact
def damaged_matrix_product_choices_are_measured_again(workshop):
    """gemm_choices.json is a cache: what is wrong with it stops no run."""
    workshop.corpus()
    config = workshop.config("run", {"training": {"steps": 8},
                                     "lr_scheduler": {"name": "constant"}})
    workshop.run("train", config, "--training.steps=6").done()
    choices = workshop / "run/gemm_choices.json"
    for number, text in enumerate(["", "{", '{"a machine": {"a shape": "no library"}}']):
        choices.write_text(text)
        done = workshop.run("train", config, f"--training.steps={7 + number}").done()
        check(done.err.count(str(choices)) == 1, "one warning that names the file:", done)
        check("measuring again" in done.err, done)
        check(json.loads(choices.read_text()) is not None and choices.read_text() != text,
              "it was left as it was:", choices.read_text())


@fact
def a_run_that_lost_its_lease_ends_and_tells_nothing_more(workshop):
    workshop.corpus()
    for name in "renamed", "robbed":
        run = workshop / name
        config = workshop.config(name, {"job": {"dump_folder": str(run)},
                                        "training": {"steps": 30}})
        with workshop.start_held(7, "train", config) as process:
            check(process.wait_for(lambda: process.state() == "T", "step 7"), process.text())
            if name == "renamed":
                run.rename(workshop / "elsewhere")
                run = workshop / "elsewhere"
            else:
                (run / "LEASE.json").unlink()
                (run / "LEASE.json").write_text("{}")
            told = [(run / file).read_bytes() for file in ("metrics.jsonl", "events.jsonl")]
            process.send(signal.SIGCONT)
            process.wait().refused(4, "lost its lease at step 7")
        check(told == [(run / file).read_bytes() for file in ("metrics.jsonl", "events.jsonl")],
              "told more of the run")
        check(not (workshop / "renamed").exists(), "made the folder again")


if __name__ == "__main__":
    main()
