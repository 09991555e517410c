#!/usr/bin/python3
"""Every optimizer of the config: it learns, shares its work out exactly and continues exactly."""
import random
import re
import shutil

from checks import SEED, check, note, some_of
from facts import fact, main
from run_folder import checkpoint, curve, metrics, same_checkpoint, same_curve

RATES = {"SGD": 0.3, "Lion": 5e-4, "LAMB": 1e-2, "LARS": 5.0}  # of others: 3e-3
MODEL = {"model": {"flavor": "tiny", "num_hidden_layers": 2},
         "training": {"seq_len": 32, "local_batch_size": 1, "global_batch_size": 8, "steps": 12},
         "checkpoint": {"interval": 6},
         "job": {"reproducible": True}}
LAYOUTS = [(2, ["--parallelism.data_shard=2", "--parallelism.zero=1"]),
           (4, ["--parallelism.data_shard=4", "--parallelism.zero=3"]),
           (4, ["--parallelism.data_shard=2", "--parallelism.pipeline=2"])]


def optimizers(workshop):
    """All that the config knows."""
    keys = workshop.run("config", "keys").done().out
    return re.search(r"^optimizer\.name .*\n.*\n +allowed: (.+)$", keys, re.MULTILINE)[1].split(", ")


def model(name, **how):
    return {**MODEL, "optimizer": {"name": name, "lr": RATES.get(name, 3e-3), **how}}


def losses(run):
    return [float(line["loss"]) for line in metrics(run)]


@fact
def shared_out_over_data_ranks_they_have_the_bits_of_one(workshop):
    workshop.corpus()
    names = optimizers(workshop)
    turns = (LAYOUTS * len(names))[:len(names)]
    random.Random(SEED).shuffle(turns)
    for name, turn in zip(names, turns):
        alone = f"{name}-alone"
        workshop.run("train", workshop.config(alone, model(name))).done()
        learned = losses(workshop / alone)
        check(learned[-1] < learned[0] - 0.1, name, "does not learn:", learned)
        layouts = LAYOUTS if some_of(LAYOUTS, 1) == LAYOUTS else [turn]
        for number, (ranks, options) in enumerate(layouts):
            run = f"{name}-{number}"
            workshop.run_ranks(ranks, "train", workshop.config(run, model(name)), *options).done()
            same_curve(workshop / run, curve(workshop / alone))
            same_checkpoint(workshop, run, alone)
        note(f"{name}: loss {learned[0]:.3f} to {learned[-1]:.3f}, {len(layouts)} layouts alike")


@fact
def shared_out_over_tensor_ranks_they_have_the_same_losses(workshop):
    workshop.corpus()
    for name in some_of(optimizers(workshop), 3):
        how = {**model(name), "job": {"reproducible": False}}
        workshop.run("train", workshop.config(f"{name}-alone", how)).done()
        workshop.run_ranks(2, "train", workshop.config(f"{name}-shared", how),
                           "--parallelism.tensor=2").done()
        worst = max(abs(a - b) / b for a, b in zip(losses(workshop / f"{name}-shared"),
                                                   losses(workshop / f"{name}-alone")))
        # A sign of Lion's may turn by a rounding.
        check(worst < (1e-4 if name == "Lion" else 1e-5), name, "is off by", worst)
        note(f"{name}: off by {worst:.1e}")


@fact
def moments_in_bfloat16_and_stochastic_rounding_continue_exactly(workshop):
    workshop.corpus()
    for name in some_of(optimizers(workshop), 3):
        how = model(name, state_dtype="bfloat16", stochastic_rounding=True)
        how["training"] = {**how["training"], "dtype": "bfloat16"}
        whole, resumed = f"{name}-whole", f"{name}-resumed"
        workshop.run("train", workshop.config(whole, how)).done()
        config = workshop.config(resumed, how)
        workshop.run("train", config).done()
        shutil.rmtree(checkpoint(workshop / resumed, 12))
        workshop.run_ranks(2, "train", config, "--parallelism.data_shard=2").done()
        same_curve(workshop / resumed, curve(workshop / whole))
        same_checkpoint(workshop, resumed, whole)


@fact
def adamw_beside_muon_may_have_a_rate_of_its_own(workshop):
    workshop.corpus()
    curves = {}
    for rate in (0, 3e-3, 1e-3):
        config = workshop.config(f"run-{rate}", {
            "optimizer": {"name": "Muon", "lr": 3e-3, "adamw_lr": rate}, "training": {"steps": 8}})
        workshop.run("train", config).done()
        curves[rate] = curve(workshop / f"run-{rate}")
    check(curves[0] == curves[3e-3], "0 is not Muon's own rate")
    check(curves[1e-3] != curves[0], "the rate changes nothing")
    config = workshop.config("alone", {"optimizer": {"name": "AdamW", "adamw_lr": 1e-3}})
    workshop.run("train", config).refused(2, "optimizer.adamw_lr", "AdamW")


if __name__ == "__main__":
    main()
