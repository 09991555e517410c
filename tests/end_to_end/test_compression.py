#!/usr/bin/python3
"""parallelism.gradient_compression: replicas that send each other less still learn."""
from checks import check, note
from facts import fact, main
from run_folder import events, metrics, same_checkpoint

MODEL = {"model": {"flavor": "tiny", "num_hidden_layers": 2},
         "training": {"seq_len": 32, "local_batch_size": 2, "global_batch_size": 8, "steps": 24},
         "checkpoint": {"interval": 12}}
REPLICAS = ["--parallelism.data_replicate=2"]
# the least times fewer bytes
METHODS = {"bfloat16": 2, "float16": 1.9, "topk": 40, "powersgd": 3, "onebit": 25}


def compressed(method, *options):
    return [*REPLICAS, f"--parallelism.gradient_compression={method}", *options]


def losses(folder):
    return [float(line["loss"]) for line in metrics(folder)]


@fact
def every_method_learns_and_says_what_it_saves(workshop):
    workshop.corpus()
    workshop.run_ranks(2, "train", workshop.config("none", MODEL), *REPLICAS).done()
    plain = losses(workshop / "none")
    for method, least in METHODS.items():
        workshop.run_ranks(2, "train", workshop.config(method, MODEL), *compressed(method)).done()
        ratio = events(workshop / method, "start")[0]["compression_ratio"]
        mine = losses(workshop / method)
        note(f"{method}: {ratio:.1f} times fewer bytes, loss {mine[0]:.3f} to {mine[-1]:.3f}, "
             f"uncompressed {plain[-1]:.3f}")
        check(mine[0] == plain[0] and mine[1:] != plain[1:], "nothing was compressed")
        check(ratio >= least, ratio)
        check(mine[-1] < plain[0] - 0.3 * (plain[0] - plain[-1]), "it does not learn")


@fact
def replicas_keep_the_same_weights(workshop):
    # After a resume they have them from one checkpoint, without it each its own: had these
    # drifted apart, the two runs would.
    workshop.corpus()
    constant = {**MODEL, "lr_scheduler": {"name": "constant"}}
    for zero in (1, 3):
        options = compressed("float16", f"--parallelism.zero={zero}")
        config = workshop.config(f"whole{zero}", constant)
        workshop.run_ranks(4, "train", config, *options).done()
        config = workshop.config(f"halves{zero}", constant)
        workshop.run_ranks(4, "train", config, *options, "--training.steps=12").done()
        workshop.run_ranks(4, "train", config, *options).done()
        same_checkpoint(workshop, f"halves{zero}", f"whole{zero}")


@fact
def a_resumed_run_says_that_its_residuals_are_zero(workshop):
    workshop.corpus()
    config = workshop.config("run", {**MODEL, "lr_scheduler": {"name": "constant"}})
    for steps in (12, 24):
        workshop.run_ranks(2, "train", config, *compressed("powersgd"),
                           f"--training.steps={steps}").done()
    check(events(workshop / "run", "resume")[0]["residuals"] == "zero", "nothing is said")


@fact
def a_warm_up_is_not_compressed(workshop):
    workshop.corpus()
    workshop.run_ranks(2, "train", workshop.config("none", MODEL), *REPLICAS).done()
    config = workshop.config("warm", MODEL)
    workshop.run_ranks(2, "train", config, *compressed(
        "onebit", "--parallelism.compression_warmup_steps=24")).done()
    same_checkpoint(workshop, "warm", "none")


@fact
def without_replicas_it_is_refused(workshop):
    workshop.corpus()
    config = workshop.config("run", MODEL)
    workshop.run_ranks(2, "train", config, "--parallelism.gradient_compression=topk").refused(
        2, "parallelism.gradient_compression", "needs data_replicate > 1")


if __name__ == "__main__":
    main()
