#!/usr/bin/python3
"""training.dtype = "float8": the blocks' matrix products with factors of eight bits."""
from checks import check, note
from facts import fact, main
from run_folder import curve, metrics, same_checkpoint, same_curve

FLOAT8 = {"training": {"dtype": "float8"}}


@fact
def learns_like_bfloat16_and_float32(workshop):
    workshop.corpus()
    curves = {}
    for dtype in "float32", "bfloat16", "float8":
        workshop.run("train", workshop.config(dtype, {
            "training": {"dtype": dtype, "steps": 200, "global_batch_size": 8},
            "optimizer": {"lr": 1e-3}, "checkpoint": {"interval": 0}})).done()
        curves[dtype] = [float(line["loss"]) for line in metrics(workshop / dtype)]
    for dtype in "float32", "bfloat16":
        apart = [mine / theirs - 1 for mine, theirs in zip(curves["float8"], curves[dtype])]
        note(f"200 steps, loss {curves[dtype][0]:.3f} to {curves[dtype][-1]:.3f} in {dtype}; "
             f"float8 at most {100 * max(map(abs, apart)):.2f} % off")
        check(max(map(abs, apart)) < 0.02, dtype, apart)
        check(any(apart), "the same losses as in", dtype)
    check(curves["float8"][-1] < 0.7 * curves["float8"][0], curves["float8"])


@fact
def a_killed_run_continues_with_the_same_bits(workshop):
    workshop.corpus()
    workshop.run("train", workshop.config("whole", FLOAT8)).done()
    config = workshop.config("killed", FLOAT8)
    for step in 12, 23:
        workshop.kill_in(step + 1, "train", config)
    workshop.run("train", config).done()
    same_curve(workshop / "killed", curve(workshop / "whole"))
    same_checkpoint(workshop, "killed", "whole")


@fact
def layouts_without_a_tensor_split_have_the_bits_of_one_rank(workshop):
    workshop.corpus()
    model = {"model": {"flavor": "tiny", "num_hidden_layers": 2}, "job": {"reproducible": True},
             "training": {"dtype": "float8", "seq_len": 32, "local_batch_size": 1,
                          "global_batch_size": 8, "steps": 20},
             "checkpoint": {"interval": 0}}
    workshop.run("train", workshop.config("alone", model)).done()
    for number, (ranks, options) in enumerate((
            (2, ["--parallelism.data_shard=2"]),
            (2, ["--parallelism.pipeline=2"]),
            (4, ["--parallelism.pipeline=2", "--parallelism.data_shard=2",
                 "--parallelism.zero=3", "--activation_checkpoint.mode=full"]))):
        name = f"run{number}"
        workshop.run_ranks(ranks, "train", workshop.config(name, model), *options).done()
        same_curve(workshop / name, curve(workshop / "alone"))
        same_checkpoint(workshop, name, "alone")


@fact
def the_run_says_how_it_multiplies_and_its_model_speaks(workshop):
    workshop.corpus()
    made = workshop.run("train", workshop.config("run", {
        **FLOAT8, "data": {"split": 0.2}, "validation": {"freq": 20, "steps": 3}})).done()
    check("products" in made.err and "float8" in made.err, made)
    words = workshop.run("generate", "run", "--prompt", "the ship", "--max-tokens=8").done().out
    check(words.startswith("the ship"), words)
    out = workshop.run("eval", "run", "--samples=12", "--threads=1").done().out
    validated = float(metrics(workshop / "run")[-1]["validation_loss"])
    evaluated = float(out.split("loss", 1)[1].split()[0])
    # Evaluation alone multiplies in bfloat16.
    note(f"validation in float8 {validated:.5f}, evaluation in bfloat16 {evaluated:.5f}")
    check(abs(evaluated / validated - 1) < 0.01, out, validated)


@fact
def what_comes_in_no_multiples_of_sixteen_is_refused(workshop):
    workshop.corpus()
    config = workshop.config("run", FLOAT8)
    workshop.run("train", config, "--training.seq_len=30").refused(
        2, "training.dtype", "multiples of 16", "local_batch_size times seq_len is 120")


if __name__ == "__main__":
    main()
