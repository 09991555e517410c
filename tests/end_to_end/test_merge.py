#!/usr/bin/python3
"""trireme checkpoint merge: the weighted mean of checkpoints, as a run folder of its own."""
import json
import re

from checks import Skip, check, note
from corpora import np
from facts import fact, main
from run_folder import checkpoint, checkpoints, events

CONFIG = {"model": {"flavor": "tiny", "num_hidden_layers": 2},
          "training": {"seq_len": 32, "local_batch_size": 2, "global_batch_size": 4, "steps": 6},
          "checkpoint": {"interval": 2}}


def weights_of(folder):
    """The parameters of a checkpoint, as h5py reads them."""
    try:
        import h5py
    except ImportError as why:
        raise Skip("python3-h5py is not installed") from why
    found = {}
    with h5py.File(folder / "state.h5", "r") as state:
        state.visititems(lambda name, item: found.update({name: item[...]})
                         if isinstance(item, h5py.Dataset) and name.startswith("model/") else None)
    return found


def trained(workshop):
    """A run with checkpoints of steps 2, 4 and 6, the last two written by two ranks."""
    workshop.corpus()
    config = workshop.config("run", CONFIG)
    workshop.run("train", config, "--training.steps=2", "--lr_scheduler.warmup_steps=1").done()
    workshop.run_ranks(2, "train", config, "--lr_scheduler.warmup_steps=1",
                       "--parallelism.tensor=2",
                       '--checkpoint.allow_changes=["training.steps"]').done()
    return workshop / "run"


@fact
def a_merge_is_the_mean_of_its_checkpoints(workshop):
    run = trained(workshop)
    inputs = [weights_of(checkpoint(run, step)) for step in (2, 4, 6)]
    for name, words, weights in (
            ("equal", [run, "--last=3"], (1, 1, 1)),
            ("weighted", [*(checkpoint(run, step) for step in (2, 4, 6)), "--weights=0.5,3,1.5"],
             (0.5, 3, 1.5))):
        told = workshop.run("checkpoint", "merge", *words, "--output", name).done().out
        check(re.findall(r"^(\d\.\d+)  ", told, re.MULTILINE) ==
              [f"{weight / sum(weights):.6f}" for weight in weights], told)
        merged = checkpoint(workshop / name, 0)
        found = weights_of(merged)
        check(found.keys() == inputs[0].keys() and len(found) > 10, sorted(found))
        for tensor, values in found.items():
            mean = sum(weight * one[tensor].astype(np.float64)
                       for weight, one in zip(weights, inputs)) / sum(weights)
            check(mean.astype(np.float32).tobytes() == values.tobytes(), tensor)
            check(values.tobytes() != inputs[2][tensor].tobytes(), tensor, "did not change")
        check(checkpoints(workshop / name) == [0], checkpoints(workshop / name))
        workshop.run("checkpoint", "verify", name).done()
        note(told.splitlines()[-2])


@fact
def four_checkpoints_of_four_layouts_have_numpys_average(workshop):
    workshop.corpus()
    config, run = workshop.config("run", CONFIG), workshop / "run"
    for steps, (ranks, *axes) in zip((2, 4, 6, 8), (
            (1,), (2, "--parallelism.tensor=2"), (2, "--parallelism.pipeline=2"),
            (2, "--parallelism.data_shard=2", "--parallelism.zero=3"))):
        words = ["train", config, f"--training.steps={steps}", "--lr_scheduler.warmup_steps=1",
                 '--checkpoint.allow_changes=["training.steps"]', "--checkpoint.keep_latest_k=0", *axes]
        (workshop.run(*words) if ranks == 1 else workshop.run_ranks(ranks, *words)).done()
    inputs = [weights_of(checkpoint(run, step)) for step in (2, 4, 6, 8)]
    for name, options, weights in (("equal", [], None),
                                   ("weighted", ["--weights=1,2,3,0.1"], (1, 2, 3, 0.1))):
        workshop.run("checkpoint", "merge", run, "--last=4", "--output", name, *options).done()
        found = weights_of(checkpoint(workshop / name, 0))
        check(found.keys() == inputs[0].keys() and len(found) > 10, sorted(found))
        for tensor, values in found.items():
            average = np.average([one[tensor].astype(np.float64) for one in inputs], axis=0,
                                 weights=weights).astype(np.float32)
            check(average.tobytes() == values.tobytes(), name, tensor)
    # Another layout starts from the same bits.
    manifest = json.loads((checkpoint(workshop / "equal", 0) / "manifest.json").read_text())
    workshop.run_ranks(2, "train", workshop.config("next", CONFIG), "--parallelism.zero=3",
                       "--parallelism.data_shard=2", "--lr_scheduler.warmup_steps=1",
                       "--training.steps=2", "--checkpoint.initial_load_path=equal").done()
    check(events(workshop / "next", "start")[0]["weights"] == manifest["digests"]["weights"],
          events(workshop / "next", "start"))


@fact
def a_merged_model_is_evaluated_exported_and_trained_on(workshop):
    run = trained(workshop)
    workshop.run("checkpoint", "merge", run, "--last=2", "--output", "merged").done()
    told = [workshop.run("eval", one, "--data", "corpus").done().out for one in (run, "merged")]
    check(told[0] != told[1], told)
    manifest = json.loads((checkpoint(workshop / "merged", 0) / "manifest.json").read_text())
    workshop.run("checkpoint", "export", "merged", "--output", "model").done()
    workshop.run_ranks(2, "train", workshop.config("next", CONFIG), "--parallelism.pipeline=2",
                       "--lr_scheduler.warmup_steps=1",
                       "--checkpoint.initial_load_path=merged").done()
    start = events(workshop / "next", "start")[0]
    check(start["weights"] == manifest["digests"]["weights"], start)
    # It has no optimizer state to resume from.
    workshop.run("train", "merged/config.toml", "--parallelism.tensor=1").refused(4, "adam.m/")


@fact
def what_cannot_be_merged_is_refused_and_leaves_nothing(workshop):
    run = trained(workshop)
    two, four = checkpoint(run, 2), checkpoint(run, 4)
    other = workshop.config("other", CONFIG)
    workshop.run("train", other, "--model.num_hidden_layers=1", "--lr_scheduler.warmup_steps=1",
                 "--training.steps=2").done()
    based = workshop.config("based", CONFIG)
    workshop.run("train", based, "--model.rope_theta=5000", "--lr_scheduler.warmup_steps=1",
                 "--training.steps=2").done()
    for words, code, *expected in (
            ([run], 2, "--last"),
            ([two, four, two], 2, str(two), "twice"),
            ([two, four, "--weights=1"], 2, "1 values for 2"),
            ([two, four, "--weights=0,0"], 2, "positive"),
            ([two, four, "--weights=1,-1"], 2, "-1 is negative"),
            ([run, "--last=9"], 4, "3 readable", "9"),
            ([two, workshop / "other"], 4, "model.num_hidden_layers: 2 and 1"),
            ([two, workshop / "based"], 4, "model.rope_theta: "),
            ([two, workshop / "nowhere"], 4, "nowhere")):
        workshop.run("checkpoint", "merge", *words, "--output", "out").refused(code, *expected)
        check(not (workshop / "out").exists(), words, "left something")
    workshop.run("checkpoint", "merge", two, four, "--output", run).refused(2, "exists already")
    manifest = json.loads((four / "manifest.json").read_text())
    part = next(tensor for tensor in manifest["tensors"]
                if tensor["name"].startswith("model/"))["rectangles"][-1]
    shard = four / manifest["shards"][part["shard"]]["file"]
    raw = bytearray(shard.read_bytes())
    raw[part["offset"]] ^= 1
    shard.write_bytes(raw)
    workshop.run("checkpoint", "merge", two, four, "--output", "out").refused(4, shard.name)
    check(not (workshop / "out").exists(), "a damaged input left something")


if __name__ == "__main__":
    main()
