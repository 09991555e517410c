#!/usr/bin/python3
"""checkpoint.initial_load_path: a new run that starts from another's weights."""
import json
import shutil

from checks import check, note
from corpora import np
from facts import fact, main
from run_folder import checkpoint, curve, events, metrics, same_checkpoint

CONFIG = {"model": {"flavor": "tiny", "num_hidden_layers": 2},
          "training": {"seq_len": 32, "local_batch_size": 2, "global_batch_size": 4, "steps": 6},
          "checkpoint": {"interval": 3}}


def load(path):
    return f"--checkpoint.initial_load_path={path}"


def trained(workshop, *options, ranks=1):
    """A run of six steps in the folder `teacher`."""
    workshop.corpus()
    config = workshop.config("teacher", CONFIG)
    if ranks == 1:
        workshop.run("train", config, *options).done()
    else:
        workshop.run_ranks(ranks, "train", config, *options).done()
    return workshop / "teacher"


def weights_of(folder):
    return json.loads((folder / "manifest.json").read_text())["digests"]["weights"]


@fact
def any_layout_starts_from_the_weights_of_any_other(workshop):
    teacher = trained(workshop, "--parallelism.tensor=2", ranks=2)
    wanted = weights_of(checkpoint(teacher, 6))
    layouts = [(1,), (2, "--parallelism.pipeline=2"), (2, "--parallelism.zero=3"),
               (4, "--parallelism.tensor=2", "--parallelism.pipeline=2",
                "--training.dtype=bfloat16")]
    untrained = float(metrics(teacher)[0]["loss"])
    for count, (ranks, *options) in enumerate(layouts):
        config = workshop.config(f"run{count}", CONFIG)
        told = workshop.run_ranks(ranks, "train", config, load(teacher), *options).done()
        start = events(workshop / f"run{count}", "start")[0]
        check(start["weights"] == wanted, start)
        check(start["weights_from"] == str(checkpoint(teacher, 6)), start)
        check("step-00000006 (step 6)" in told.err, told)
        first = metrics(workshop / f"run{count}")[0]
        check(first["step"] == "1" and first["tokens"] == "128", first)
        note(f"{ranks} ranks: first loss {first['loss']}, the teacher's {untrained}")
        check(float(first["loss"]) < untrained - 0.1, "nothing was learned")


def norm_of_first_moments(folder):
    tensors = json.loads((folder / "manifest.json").read_text())
    shards = [(folder / shard["file"]).read_bytes() for shard in tensors["shards"]]
    squares = 0.0
    for tensor in tensors["tensors"]:
        for part in tensor["rectangles"] if tensor["name"].startswith("adam.m/") else []:
            raw = shards[part["shard"]][part["offset"]:part["offset"] + part["bytes"]]
            squares += np.sum(np.frombuffer(raw, "<f4").astype(np.float64) ** 2)
    return squares ** 0.5


@fact
def the_moments_start_at_zero(workshop):
    """After one step the first moments are a tenth (1 - beta1) of the clipped gradients."""
    teacher = trained(workshop)
    config = workshop.config("run", CONFIG)
    workshop.run("train", config, load(teacher), "--training.steps=1",
                 "--lr_scheduler.warmup_steps=0").done()
    clipped = min(1.0, float(metrics(workshop / "run")[0]["grad_norm"]))
    found = norm_of_first_moments(checkpoint(workshop / "run", 1))
    note(f"moments {found:.6f}, clipped gradients {clipped:.6f}")
    check(abs(found - 0.1 * clipped) < 1e-5 * clipped, found, clipped)
    check(norm_of_first_moments(checkpoint(teacher, 6)) > 1.5 * found, "nor had the teacher any")


@fact
def the_path_matters_only_once(workshop):
    teacher = trained(workshop)
    config = workshop.config("run", CONFIG)
    workshop.run("train", config, load(teacher / "checkpoints" / "step-00000003")).done()
    effective = (workshop / "run" / "config.toml").read_text()
    check("initial_load_path = " in effective and "step-00000003" in effective, effective)
    check(events(workshop / "run", "start")[0]["weights"] == weights_of(checkpoint(teacher, 3)),
          events(workshop / "run"))
    check(metrics(workshop / "run")[0]["loss"] != metrics(teacher)[3]["loss"], "other samples")
    shutil.rmtree(teacher)
    before = curve(workshop / "run")
    workshop.run("train", config, load(teacher), "--checkpoint.resume=3").done()
    check(curve(workshop / "run") == before, "it did not go on from its own checkpoint")
    check("weights_from" not in events(workshop / "run", "resume")[0], events(workshop / "run"))


@fact
def weights_that_do_not_fit_are_refused_by_name(workshop):
    teacher = trained(workshop)
    config = workshop.config("run", CONFIG)
    for option, *words in [
            ("--model.hidden_size=128", "model/embedding.weight [512, 64] there, [512, 128] here",
             "model.hidden_size: 64 -> 128"),
            ("--model.num_hidden_layers=3", "model.num_hidden_layers: 2 -> 3"),
            ("--model.rope_theta=5e5", "model.rope_theta: 10000.0 -> 500000.0",
             'allow_changes = ["model.rope_theta"]')]:
        workshop.run("train", config, load(teacher), option).refused(
            4, "checkpoint.initial_load_path", "step-00000006", *words)
    workshop.run("train", config, load(teacher), "--model.hidden_size=128",
                 '--checkpoint.allow_changes=["all"]').refused(
        4, "tensors with a different shape", "model/embedding.weight")
    workshop.run("train", config, load(workshop / "absent")).refused(
        4, "checkpoint.initial_load_path", "absent")
    workshop.run_ranks(2, "train", config, load(teacher), "--model.vocab_size=600",
                       "--parallelism.tensor=2").refused(4, "model.vocab_size: 512 -> 600")
    check(not (workshop / "run" / "metrics.jsonl").exists(), "it trained")
    workshop.run("train", config, load(teacher), "--model.rope_theta=5e5",
                 '--checkpoint.allow_changes=["model.rope_theta"]').done()


@fact
def a_damaged_checkpoint_is_passed_over(workshop):
    teacher = trained(workshop)
    shard = next(checkpoint(teacher, 6).glob("shard-*"))
    with open(shard, "r+b") as file:
        file.truncate(shard.stat().st_size // 2)
    workshop.run("train", workshop.config("run", CONFIG), load(teacher)).done()
    start = events(workshop / "run", "start")[0]
    check(start["weights"] == weights_of(checkpoint(teacher, 3)), start)
    rejected = events(workshop / "run", "checkpoint_rejected")
    check(len(rejected) == 1 and "step-00000006" in rejected[0]["why"], rejected)
    workshop.run("train", workshop.config("other", CONFIG), load(checkpoint(teacher, 6))).refused(
        4, "checkpoint.initial_load_path", "no good checkpoint", shard.name)


@fact
def two_runs_that_start_alike_are_alike(workshop):
    teacher = trained(workshop)
    for name in ("one", "two"):
        workshop.run("train", workshop.config(name, CONFIG), load(teacher)).done()
    same_checkpoint(workshop, "one", "two")


if __name__ == "__main__":
    main()
