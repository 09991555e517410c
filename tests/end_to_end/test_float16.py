#!/usr/bin/python3
"""A float16 run learns as a float32 one does: its loss is scaled, so that small gradients stay in
float16's range, and a step whose gradients overflow is tried again with half the scale."""
from checks import check, note, some_of
from facts import fact, main
from run_folder import curve, events, metrics, same_checkpoint, same_curve

CONFIG = {"model": {"flavor": "tiny", "num_hidden_layers": 2},
          "training": {"dtype": "float16", "steps": 16},
          "lr_scheduler": {"name": "constant"}}
LARGEST = 2 ** 24


def config_of(workshop, name, **training):
    training = {**CONFIG["training"], **training}
    training = {key: value for key, value in training.items() if value is not None}
    return workshop.config(name, {**CONFIG, "training": training})


def losses(run):
    return [float(line["loss"]) for line in metrics(run)]


def scales(run):
    """The factor of each step, and the overflows up to it."""
    return [(int(float(line["loss_scale"])), int(float(line["overflows"])))
            for line in metrics(run)]


def furthest(run, expected):
    """The largest relative distance of the two runs' losses."""
    mine, theirs = losses(run), losses(expected)
    check(len(mine) == len(theirs), len(mine), "steps instead of", len(theirs))
    return max(abs(a / b - 1) for a, b in zip(mine, theirs))


@fact
def two_hundred_steps_follow_float32_within_a_percent(workshop):
    workshop.corpus()
    for dtype in "float32", "float16":
        # A rate at which the curve is smooth: at 3e-3 for good any rounding grows into another one.
        workshop.run("train", config_of(workshop, dtype, dtype=dtype, steps=200),
                     "--optimizer.lr=1e-3", "--lr_scheduler.name=cosine").done()
    check(not any("loss_scale" in line for line in metrics(workshop / "float32")), "scaled")
    apart = furthest(workshop / "float16", workshop / "float32")
    curves = [losses(workshop / dtype) for dtype in ("float32", "float16")]
    note(f"from {curves[0][0]:.4f} to {curves[0][-1]:.4f} and {curves[1][-1]:.4f}, "
         f"{100 * apart:.3f} % apart at most; scale and overflows {scales(workshop / 'float16')[-1]}")
    check(curves[0][-1] < 0.6 * curves[0][0], "it did not learn:", curves[0][-1])
    check(apart < 0.01, "losses are further apart")


@fact
def a_scale_that_is_too_large_is_halved_and_no_sample_is_lost(workshop):
    workshop.corpus()
    workshop.run("train", config_of(workshop, "usual")).done()
    workshop.run("train", config_of(workshop, "large", loss_scale_init=LARGEST)).done()
    told = events(workshop / "large", "overflow")
    check(told and told[0]["step"] == 1 and told[0]["loss_scale"] == LARGEST, told)
    for event in told:
        check(event["next_loss_scale"] == event["loss_scale"] / 2, event)
    expected, seen = [], 0
    for step in range(1, 17):
        seen += sum(event["step"] == step for event in told)
        expected.append((LARGEST >> seen, seen))
    check(scales(workshop / "large") == expected, scales(workshop / "large"), expected)
    for key in "step", "tokens", "lr":
        mine, usual = ([line[key] for line in metrics(workshop / run)] for run in ("large", "usual"))
        check(mine == usual, key, mine)
    apart = furthest(workshop / "large", workshop / "usual")
    note(f"{len(told)} overflows, from {LARGEST} to {expected[-1][0]}; {100 * apart:.3f} % apart")
    check(apart < 0.01, "the retried steps are others")


@fact
def the_scale_grows_until_it_overflows(workshop):
    workshop.corpus()
    workshop.run("train", config_of(workshop, "run", steps=60, loss_scale_growth_interval=3,
                                    loss_scale_init=1024)).done()
    found = scales(workshop / "run")
    check([scale for scale, _ in found[:7]] == [1024] * 3 + [2048] * 3 + [4096], found[:7])
    overflows = found[-1][1]
    note(f"up to {max(scale for scale, _ in found)}, {overflows} overflows in 60 steps")
    check(overflows == len(events(workshop / "run", "overflow")) and overflows > 0, found)


@fact
def a_stopped_run_goes_on_with_the_same_scale_and_bits(workshop):
    """With a scale that moves all the time; the run is stopped and killed on its way."""
    workshop.corpus()
    moving = {"steps": 40, "loss_scale_growth_interval": 2, "loss_scale_init": 2 ** 20}
    for run in "whole", "parts":
        config = config_of(workshop, run, **moving)
        if run == "parts":
            workshop.run("train", config, "--training.steps=7").done()
            workshop.kill_in(23, "train", config)
        workshop.run("train", config).done()
    resumed = [event["step"] for event in events(workshop / "parts", "resume")]
    overflows = scales(workshop / "whole")[-1][1]
    note(f"resumed after steps {resumed}; {overflows} overflows")
    check(len(resumed) == 2 and overflows > 1, "too few of them")
    same_curve(workshop / "parts", curve(workshop / "whole"))
    check(scales(workshop / "parts") == scales(workshop / "whole"), scales(workshop / "parts"))
    same_checkpoint(workshop, "parts", "whole")


@fact
def two_ranks_follow_one(workshop):
    workshop.corpus()
    workshop.run("train", config_of(workshop, "alone")).done()
    halves = ["--training.local_batch_size=2"]
    layouts = {"tensor": ["--parallelism.tensor=2"], "pipeline": ["--parallelism.pipeline=2"],
               **{f"zero{zero}": ["--parallelism.data_shard=2", f"--parallelism.zero={zero}"] + halves
                  for zero in range(4)},
               "replicas": ["--parallelism.data_replicate=2", "--parallelism.data_shard=1",
                            "--parallelism.gradient_compression=float16"] + halves}
    for name, axes in some_of(layouts.items(), 3):
        # The scale of each comes down from the largest: all ranks agree on every overflow.
        config = config_of(workshop, name, loss_scale_init=LARGEST)
        workshop.run_ranks(2, "train", config, *axes).done()
        apart = furthest(workshop / name, workshop / "alone")
        note(f"{name}: {100 * apart:.3f} % apart, scale {scales(workshop / name)[-1]}")
        check(apart < 0.01 and scales(workshop / name)[-1][1] > 0, name)


@fact
def a_reproducible_run_has_the_same_bits_on_two_ranks(workshop):
    workshop.corpus()
    same = ["--job.reproducible=true", "--training.local_batch_size=1"]
    config = config_of(workshop, "alone", loss_scale_init=LARGEST)
    workshop.run("train", config, *same).done()
    for name, axes in {"data": ["--parallelism.data_shard=2"],
                       "pipeline": ["--parallelism.pipeline=2"]}.items():
        config = config_of(workshop, name, loss_scale_init=LARGEST)
        workshop.run_ranks(2, "train", config, *axes, *same).done()
        same_curve(workshop / name, curve(workshop / "alone"))
        check(scales(workshop / name) == scales(workshop / "alone"), scales(workshop / name))


@fact
def only_what_a_smaller_scale_cannot_mend_is_the_guards(workshop):
    workshop.corpus()
    damage = {"TRIREME_INJECT_GRADIENT":
              "step=7 rank=0 parameter=layers.1.mlp.up.weight value=nan"}
    workshop.run("train", config_of(workshop, "whole")).done()
    workshop.run("train", config_of(workshop, "mended"), env=damage).done()
    told = events(workshop / "mended", "overflow")
    check([event["step"] for event in told] == [7], told)
    check(furthest(workshop / "mended", workshop / "whole") < 0.01, "another curve")
    least = config_of(workshop, "least", loss_scale_init=1, loss_scale_growth_interval=100)
    workshop.run("train", least, env=damage).refused(6, "step 7", "not both finite")
    skips = config_of(workshop, "skips", loss_scale_init=1, loss_scale_growth_interval=100,
                      on_nonfinite="skip")
    workshop.run("train", skips, env=damage).done()
    check(events(workshop / "skips", "skip")[0]["samples"] == [24, 28], events(workshop / "skips"))
    check(not events(workshop / "skips", "overflow"), events(workshop / "skips"))


@fact
def a_rollback_brings_the_scale_back(workshop):
    """A spike after an overflow: the run goes back to the scale before both."""
    workshop.corpus()
    config = config_of(workshop, "run", loss_scale_init=64, loss_scale_growth_interval=7,
                       on_spike="rollback", spike_window=4, spike_zscore=50)
    damage = {"TRIREME_INJECT_GRADIENT":
              "step=9 rank=0 parameter=layers.1.mlp.up.weight value=1e9"}
    workshop.run("train", config, env=damage).done()
    told = events(workshop / "run", "rollback")
    check(len(told) == 1 and told[0]["to_step"] == 5, told)
    found = [scale for scale, _ in scales(workshop / "run")]
    check(found == [64] * 7 + [128] * 7 + [256] * 2, found)


@fact
def keys_that_mean_nothing_or_do_harm_are_refused(workshop):
    workshop.corpus()
    config = config_of(workshop, "run")
    for options, words in (
            (["--training.loss_scale_init=1000"], ["not a power of two", "512, 1024"]),
            (["--training.loss_scale_init=33554432"], ["loss_scale_init", "16777216"]),
            (["--training.loss_scale_growth_interval=0"], ["loss_scale_growth_interval"]),
            (["--training.dtype=bfloat16", "--training.loss_scale_init=1024"],
             ["loss_scale_init", "does not apply to training.dtype = \"bfloat16\""]),
            (["--parallelism.gradient_compression=topk", "--parallelism.data_replicate=2"],
             ["gradient_compression", "dtype float16"])):
        workshop.run("train", config, *options).refused(2, *words)


if __name__ == "__main__":
    main()
