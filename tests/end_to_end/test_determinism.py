#!/usr/bin/python3
"""The same config gives the same bits; the first weights depend on the seed alone."""
from checks import check, note
from facts import fact, main
from run_folder import DETERMINISTIC, curve, events, metrics, same_checkpoint, same_curve

SHORT = {"training": {"steps": 5, "seq_len": 48, "local_batch_size": 2, "global_batch_size": 4},
         "lr_scheduler": {"warmup_steps": 2}}


def weights_hash(workshop, run, *options):
    """Trains one step of SHORT; the hash of the weights it started from."""
    config = workshop.config(run, SHORT)
    result = workshop.run("train", config, "--training.steps=1", "--lr_scheduler.warmup_steps=0",
                          "--checkpoint.interval=0", *options).done()
    found = events(workshop / run, "start")[0]["weights"]
    check(f"weights     {found} " in result.err, "the banner says otherwise:", result)
    note(found, *options)
    return found


@fact
def the_same_config_gives_the_same_bits_again(workshop):
    workshop.corpus()
    for dtype in "float32", "bfloat16", "float16":
        changes = {**SHORT, "data": {"split": 0.1}, "validation": {"freq": 2, "steps": 2}}
        changes["training"] = {**SHORT["training"], "dtype": dtype}
        for run in "first", "second":
            workshop.run("train", workshop.config(run + dtype, changes)).done()
        same_curve(workshop / f"second{dtype}", curve(workshop / f"first{dtype}"))
        same_checkpoint(workshop, f"first{dtype}", f"second{dtype}")
        note(dtype, dict(zip(DETERMINISTIC, curve(workshop / f"first{dtype}")[-1])))


@fact
def two_threads_give_the_same_bits_again(workshop):
    workshop.corpus()
    for run in "first", "second":
        workshop.run("train", workshop.config(run, SHORT), "--job.threads=2").done()
    same_curve(workshop / "second", curve(workshop / "first"))
    same_checkpoint(workshop, "first", "second")


@fact
def the_first_weights_do_not_depend_on_threads_dtype_recomputation_or_device(workshop):
    workshop.corpus()
    variants = [["--job.threads=1"], ["--job.threads=2"], ["--job.threads=3"],
                ["--training.dtype=bfloat16"], ["--training.dtype=float16"],
                ["--activation_checkpoint.mode=selective"],
                ["--activation_checkpoint.mode=full"], ["--job.device=cpu"],
                ["--job.device=auto"], ["--training.local_batch_size=1"],
                ["--training.dtype=bfloat16", "--activation_checkpoint.mode=full",
                 "--job.threads=2"]]
    hashes = {weights_hash(workshop, f"run{i}", *options) for i, options in enumerate(variants)}
    check(len(hashes) == 1, hashes)


@fact
def another_seed_gives_other_weights_another_curve_and_another_checkpoint(workshop):
    workshop.corpus()
    one, other = (weights_hash(workshop, f"seed{seed}", f"--job.seed={seed}") for seed in (0, 1))
    check(one != other, "the same weights for two seeds:", one)
    losses = [metrics(workshop / run)[0]["loss"] for run in ("seed0", "seed1")]
    check(losses[0] != losses[1], losses)
    result = workshop.run("checkpoint", "diff", "seed0", "seed1")
    check(result.code == 4 and "embed" in result.out and "identical" not in result.out, result)


@fact
def recomputation_changes_no_bit(workshop):
    workshop.corpus()
    for dtype in "float32", "bfloat16", "float16":
        for mode in "none", "norms", "selective", "full":
            run = f"{dtype}-{mode}"
            workshop.run("train", workshop.config(run, SHORT), f"--training.dtype={dtype}",
                         f"--activation_checkpoint.mode={mode}").done()
            note(run, [line["loss"] for line in metrics(workshop / run)])
            same_curve(workshop / run, curve(workshop / f"{dtype}-none"))
            same_checkpoint(workshop, run, f"{dtype}-none")


@fact
def recomputation_takes_less_memory(workshop):
    workshop.corpus()
    config = workshop.config("run", {"training": {"steps": 1, "local_batch_size": 16,
                                                  "global_batch_size": 16},
                                     "lr_scheduler": {"warmup_steps": 0}})
    used = []
    for mode in "none", "norms", "selective", "full":
        workshop.run("train", config, f"--job.dump_folder={mode}",
                     f"--activation_checkpoint.mode={mode}").done()
        used.append(int(metrics(workshop / mode)[0]["memory_peak_bytes"]))
    note("bytes with none, norms, selective, full:", used)
    check(used[0] > used[1] > used[2], used)


if __name__ == "__main__":
    main()
