#!/usr/bin/python3
"""A resumed run proves by its first step that it is the same run, or stops; and what changes
what it computes has to be allowed."""
import json
import shutil

from checks import check, note
from facts import fact, main
from run_folder import curve, events, metrics, same_curve

CONFIG = {"model": {"flavor": "tiny", "num_hidden_layers": 2},
          "training": {"steps": 8, "seq_len": 32},
          "lr_scheduler": {"name": "constant"},
          "checkpoint": {"interval": 4}}
BACK = "--checkpoint.resume=4"  # where the run had got further
TENSOR = "--parallelism.tensor=2"


def trained(workshop, name="run", changes=None, env=None, **sections):
    """A run of eight steps with checkpoints at 4 and 8. Returns its config and folder."""
    if not (workshop / "corpus.idx").exists():
        workshop.corpus()
    config = workshop.config(name, {**CONFIG, **(changes or {}), **sections})
    workshop.run("train", config, env=env).done()
    return config, workshop / name


def inject_gradient(step, value, rank=0):
    return {"TRIREME_INJECT_GRADIENT":
            f"step={step} rank={rank} parameter=layers.1.mlp.up.weight value={value}"}


def verdicts(run):
    return [(event["verdict"], event["why"]) for event in events(run, "self_check")]


def nothing_to_compare_with(run, *words):
    verdict, why = verdicts(run)[-1]
    note(f"{verdict}: {why}")
    check(verdict == "nothing to compare with", verdict, why)
    for word in words:
        check(word in why, why, "lacks", word)


@fact
def a_run_that_takes_a_step_again_takes_the_same(workshop):
    for dtype in ("float32", "bfloat16"):
        config, run = trained(workshop, dtype, training={**CONFIG["training"], "dtype": dtype})
        before = curve(run)
        check(not verdicts(run), "it had nothing to check", verdicts(run))
        result = workshop.run("train", config, BACK).done()
        check("self-check of step 5: bit-identical" in result.err, result)
        check(verdicts(run) == [("bit-identical", "")], verdicts(run))
        same_curve(run, before)


@fact
def a_run_that_ended_at_its_checkpoint_has_nothing_to_compare_with(workshop):
    config, run = trained(workshop)
    workshop.run("train", config, "--training.steps=9").done()
    nothing_to_compare_with(run, "step 9")


@fact
def another_layout_is_the_same_run_within_its_tolerance(workshop):
    config, run = trained(workshop)
    workshop.run_ranks(2, "train", config, BACK, TENSOR).done()
    verdict, why = verdicts(run)[-1]
    note(f"{verdict}: {why}")
    check(verdict in ("equal within layout tolerance", "bit-identical"), verdict)
    check(verdict == "bit-identical" or "parallelism.tensor: 1 -> 2" in why, why)
    # What the step of now is compared with was computed by two ranks.
    workshop.run_ranks(2, "train", config, BACK, TENSOR).done()
    check(verdicts(run)[-1] == ("bit-identical", ""), verdicts(run))
    wrong = workshop.run_ranks(2, "train", config, BACK, "--parallelism.pipeline=2",
                               env=inject_gradient(5, "3", rank=1))
    wrong.refused(4, "the gradient norm is", "parallelism.pipeline: 1 -> 2", "1e-04 is allowed")


@fact
def reproducible_layouts_have_no_tolerance(workshop):
    changes = {"job": {"threads": 1, "reproducible": True},
               "training": {**CONFIG["training"], "local_batch_size": 1}}
    config, run = trained(workshop, changes=changes)
    workshop.run_ranks(2, "train", config, BACK, "--parallelism.pipeline=2").done()
    check(verdicts(run)[-1] == ("bit-identical", ""), verdicts(run))
    workshop.run_ranks(2, "train", config, BACK, "--parallelism.zero=3").done()
    check(verdicts(run)[-1] == ("bit-identical", ""), verdicts(run))


@fact
def a_step_that_is_another_stops_the_run_until_it_is_accepted(workshop):
    """A machine that computes wrongly: first in the gradients, then it said another loss."""
    config, run = trained(workshop)
    before, whole = curve(run), workshop / "whole"
    shutil.copytree(run, whole)
    for _ in range(2):  # the second time the step is no longer in metrics.jsonl
        workshop.run("train", config, BACK, env=inject_gradient(5, "3")).refused(
            4, "step 5", "the gradient norm is", f"instead of {before[4][3]}",
            "nothing that decides its bits has changed", "--checkpoint.resume",
            "--checkpoint.allow_changes")
        check(len(metrics(run)) == 4, "a step was recorded", metrics(run)[-1])
        check(events(run, "failure")[-1]["step"] == 5, events(run)[-1])
    workshop.run("train", config, BACK).done()
    same_curve(run, before)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    lines[4]["loss"] *= 1 + 1e-15
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    workshop.run("train", config, BACK).refused(4, "the loss is " + before[4][2],
                                                f"instead of {lines[4]['loss']}")
    workshop.run("train", config, BACK, '--checkpoint.allow_changes=["all"]').done()
    nothing_to_compare_with(run, '"all"')
    same_curve(run, before)


@fact
def other_samples_are_not_compared(workshop):
    """After a rollback the steps before it come again with other samples, until a checkpoint."""
    config, run = trained(workshop, training={**CONFIG["training"], "on_nonfinite": "rollback"},
                          env=inject_gradient(6, "nan"))
    check(metrics(run)[4]["rollbacks"] == "1.0", metrics(run)[4])
    workshop.run("train", config, BACK).done()
    nothing_to_compare_with(run, "other samples")
    workshop.run("train", config, BACK, "--data.skip=[[17, 18]]").done()
    nothing_to_compare_with(run, "data.skip")


@fact
def what_changes_numerics_is_refused_until_it_is_allowed(workshop):
    config, run = trained(workshop)
    before = curve(run)
    lower, line = "--optimizer.lr=1e-3", 'allow_changes = ["optimizer.lr"]'
    workshop.run("train", config, BACK, lower).refused(
        4, "step-00000004", "optimizer.lr: 0.003 -> 0.001", line)
    workshop.run("train", config, BACK, lower, "--training.max_norm=2",
                 '--checkpoint.allow_changes=["optimizer.lr"]').refused(
        4, "training.max_norm: 1.0 -> 2.0", '["optimizer.lr", "training.max_norm"]')
    check(curve(run) == before, "it changed the run")
    allowed = workshop.run("train", config, BACK, lower,
                           '--checkpoint.allow_changes=["optimizer.lr"]').done()
    check("optimizer.lr: 0.003 -> 0.001 (changes numerics)" in allowed.err, allowed)
    nothing_to_compare_with(run, "optimizer.lr")
    check(curve(run)[:4] == before[:4] and curve(run)[5] != before[5], "the rate is the old one")
    workshop.run("train", config, '--checkpoint.allow_changes=["optimizer.rl"]').refused(
        2, "checkpoint.allow_changes", "optimizer.rl", 'did you mean "optimizer.lr"?')
    workshop.run("train", config, '--checkpoint.allow_changes=["job.seed"]').refused(
        2, "job.seed", "neither a key that changes numerics")


@fact
def what_leaves_the_steps_done_as_they_were_needs_no_permission(workshop):
    """The end of a run that has not begun to decay, and what is done about bad steps."""
    wsd = {"name": "wsd", "decay_ratio": 0.25}
    config, run = trained(workshop, lr_scheduler=wsd)
    workshop.run("train", config, "--training.steps=12").refused(4, "training.steps: 8 -> 12")
    workshop.run("train", config, BACK, "--training.steps=12",
                 "--training.on_nonfinite=skip").done()
    check(len(metrics(run)) == 12, metrics(run))
    workshop.run("train", workshop.config("whole", {**CONFIG, "lr_scheduler": wsd}),
                 "--training.steps=12").done()
    same_curve(run, curve(workshop / "whole"))
    cosine, run = trained(workshop, "cosine", lr_scheduler={"name": "cosine"})
    workshop.run("train", cosine, "--training.steps=12").refused(4, "training.steps: 8 -> 12")


if __name__ == "__main__":
    main()
