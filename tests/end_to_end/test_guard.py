#!/usr/bin/python3
"""A gradient that is damaged stops the run, is skipped or rolled back, as the config says;
what comes after has the bits of a run in whose data the left out samples never were."""
from checks import check, note, some_of
from facts import fact, main
from run_folder import checkpoints, curve, events, metrics, same_checkpoint, same_curve

BATCH = 4
# A curve that does not depend on the run's length, so that runs can be made longer.
CONFIG = {"model": {"flavor": "tiny", "num_hidden_layers": 2},
          "training": {"steps": 12},
          "lr_scheduler": {"name": "constant"},
          "checkpoint": {"interval": 4}}
LAYOUTS = {"alone": (1,), "tensor": (2, "--parallelism.tensor=2"),
           "pipeline": (2, "--parallelism.pipeline=2"),
           "data": (2, "--parallelism.data_shard=2", "--training.local_batch_size=2"),
           "zero3": (2, "--parallelism.data_shard=2", "--training.local_batch_size=2",
                     "--parallelism.zero=3")}


def inject_gradient(step, rank=0, parameter="layers.1.mlp.up.weight", value="nan"):
    return {"TRIREME_INJECT_GRADIENT":
            f"step={step} rank={rank} parameter={parameter} value={value}"}


def config_of(workshop, name, data=None, **training):
    data = {"train": [{"path": "corpus"}], **(data or {})}
    return workshop.config(name, {**CONFIG, "data": data,
                                  "training": {**CONFIG["training"], **training}})


def train(workshop, config, layout="alone", *options, env=None):
    ranks, *axes = LAYOUTS[layout]
    if ranks == 1:
        return workshop.run("train", config, *options, env=env)
    return workshop.run_ranks(ranks, "train", config, *axes, *options, env=env)


def without(workshop, layout, first, end, **training):
    """Trains a run in whose data samples [first, end) never were; returns its name."""
    name = f"{layout}-without-{first}-{end}"
    config = config_of(workshop, name, {"skip": [[first, end]]}, **training)
    train(workshop, config, layout).done()
    return name


def same_but_for_the_counts(workshop, run, expected):
    """The curves, and every bit of the last checkpoints."""
    same_curve(workshop / run, curve(workshop / expected))
    result = workshop.run("checkpoint", "diff", run, expected)
    differences = [line for line in result.out.splitlines() if line.startswith("  ")]
    check(len(differences) == 1 and "scalars.left_out" in differences[0], result)


def leaves_out(workshop, layout, policy, step, first, end, **training):
    """Damages a gradient on the last rank at `step`, which must leave [first, end) out."""
    name = f"{layout}-{policy}-{step}"
    config = config_of(workshop, name, on_nonfinite=policy, **training)
    ranks = LAYOUTS[layout][0]
    train(workshop, config, layout, env=inject_gradient(step, ranks - 1)).done()
    same_but_for_the_counts(workshop, name, without(workshop, layout, first, end, **training))
    told = events(workshop / name, policy)
    check(len(told) == 1 and told[0]["step"] == step, told)
    check(told[0]["reason"] == "not finite" and told[0]["grad_norm"] is None, told)
    check(told[0]["samples"] == [BATCH * (step - 1), BATCH * step], told)
    check(told[0]["documents"] and told[0]["documents_complete"], told)
    counted = [line.get("skips" if policy == "skip" else "rollbacks")
               for line in metrics(workshop / name)]
    from_step = first // BATCH + 1
    check(counted == [None] * (from_step - 1) + ["1.0"] * (13 - from_step), counted)
    note(f"{layout}: {policy} at step {step} left out samples {first} to {end - 1}")


@fact
def a_skipped_step_was_never_there(workshop):
    workshop.corpus()
    for layout in some_of(LAYOUTS, 2):
        leaves_out(workshop, layout, "skip", 7, 24, 28)


@fact
def a_rolled_back_window_was_never_there(workshop):
    workshop.corpus()
    for layout in some_of(LAYOUTS, 2):
        leaves_out(workshop, layout, "rollback", 7, 16, 28)


@fact
def a_rollback_before_the_first_checkpoint_goes_back_to_the_start(workshop):
    workshop.corpus()
    leaves_out(workshop, "alone", "rollback", 2, 0, 8)


@fact
def a_stop_harms_nothing(workshop):
    workshop.corpus()
    for layout in ("alone", "pipeline"):
        whole = f"{layout}-whole"
        train(workshop, config_of(workshop, whole), layout).done()
        config, run = config_of(workshop, layout), workshop / layout
        ranks = LAYOUTS[layout][0]
        train(workshop, config, layout, env=inject_gradient(7, ranks - 1)).refused(
            6, "step 7", "not both finite", "newest checkpoint: step 4")
        failure = events(run, "failure")[-1]
        check(failure["step"] == 7 and failure["documents"], failure)
        check(checkpoints(run) == [4], checkpoints(run))
        check([line["step"] for line in metrics(run)] == [str(i + 1) for i in range(6)],
              metrics(run))
        train(workshop, config, layout).done()
        same_curve(run, curve(workshop / whole))
        same_checkpoint(workshop, layout, whole)


@fact
def too_many_skips_stop_the_run(workshop):
    workshop.corpus()
    config = config_of(workshop, "run", on_nonfinite="skip", max_skips=0)
    train(workshop, config, env=inject_gradient(3)).refused(6, "step 3", "training.max_skips = 0")


@fact
def a_spike_is_left_out(workshop):
    workshop.corpus()
    for policy, first in (("skip", 24), ("rollback", 16)):
        spikes = {"on_spike": policy, "spike_window": 4, "spike_zscore": 50}
        config = config_of(workshop, policy, **spikes)
        train(workshop, config, env=inject_gradient(7, value="1e6")).done()
        same_but_for_the_counts(workshop, policy, without(workshop, "alone", first, 28, **spikes))
        told = events(workshop / policy, policy)
        check(len(told) == 1 and told[0]["reason"] == "spike", told)
        check(told[0]["grad_norm"] >= 1e6 and told[0]["grad_norm_zscore"] > 1e4, told)
        check(abs(told[0]["loss_zscore"]) < 50, told)
    config = config_of(workshop, "stop", on_spike="stop", spike_window=4, spike_zscore=50)
    train(workshop, config, env=inject_gradient(7, value="1e6")).refused(6, "step 7", "spike")
    # Without a policy it is clipped like any long gradient.
    train(workshop, config_of(workshop, "none"), env=inject_gradient(7, value="1e6")).done()
    check(float(metrics(workshop / "none")[6]["grad_norm"]) >= 1e6, "the fault was not injected")


@fact
def a_resumed_run_decides_the_same_and_keeps_what_was_left_out(workshop):
    """The window of six good steps reaches back beyond the restart."""
    workshop.corpus()
    spikes = {"on_nonfinite": "skip", "on_spike": "skip", "spike_window": 6, "spike_zscore": 50}
    config = config_of(workshop, "parts", **spikes)
    train(workshop, config, "alone", "--training.steps=8", env=inject_gradient(3)).done()
    train(workshop, config, env=inject_gradient(10, value="1e6")).done()
    whole = config_of(workshop, "whole", {"skip": [[8, 12], [40, 44]]}, **spikes)
    train(workshop, whole).done()
    same_but_for_the_counts(workshop, "parts", "whole")
    check([event["step"] for event in events(workshop / "parts", "skip")] == [3, 10],
          events(workshop / "parts"))
    check(metrics(workshop / "parts")[-1]["skips"] == "2.0", metrics(workshop / "parts")[-1])


@fact
def samples_ahead_can_be_skipped_later_and_those_behind_not(workshop):
    workshop.corpus()
    whole = config_of(workshop, "whole", {"skip": [[35, 38]]})
    train(workshop, whole).done()
    config = config_of(workshop, "run")
    train(workshop, config, "alone", "--training.steps=8").done()
    train(workshop, config, "alone", "--data.skip=[[30, 34]]").refused(4, "data.skip", "below 32")
    train(workshop, config, "alone", "--data.skip=[[35, 38]]").done()
    same_curve(workshop / "run", curve(workshop / "whole"))
    same_checkpoint(workshop, "run", "whole")
    train(workshop, config, "alone", "--data.skip=[[35, 35]]").refused(2, "data.skip[0]")


@fact
def a_fault_that_cannot_be_injected_is_refused(workshop):
    workshop.corpus()
    config = config_of(workshop, "run")
    train(workshop, config, env={"TRIREME_INJECT_GRADIENT": "step=5"}).refused(
        2, "TRIREME_INJECT_GRADIENT", "value=nan")
    train(workshop, config, env=inject_gradient(5, parameter="layers.9.mlp.up.weight")).refused(
        2, "layers.9.mlp.up.weight", "layers.1.mlp.up.weight")
    train(workshop, config, "pipeline", env=inject_gradient(5, rank=0)).refused(
        2, "rank 0 owns nothing of layers.1.mlp.up.weight")
    # A run may shrink.
    result = train(workshop, config, env=inject_gradient(5, rank=1)).done()
    check("no effect: there is no rank 1 among 1" in result.err + result.out, result)


if __name__ == "__main__":
    main()
