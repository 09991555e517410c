#!/usr/bin/python3
"""training.ema: an exponential moving average of the weights, NumPy's to the bit in every layout,
saved, resumed, evaluated and exported."""
import json
import struct

from checks import Skip, check, note, some_of
from corpora import np
from facts import fact, main
from run_folder import checkpoint, checkpoints, curve, events, same_checkpoint, same_curve
from workshop import inject_fault

DECAY = 0.9
STEPS = 5
# A policy that may roll back also saves a checkpoint of step 0.
CONFIG = {"model": {"flavor": "tiny", "num_hidden_layers": 2},
          "training": {"seq_len": 32, "local_batch_size": 1, "global_batch_size": 4,
                       "steps": STEPS, "ema": DECAY, "on_nonfinite": "rollback"},
          "lr_scheduler": {"name": "constant", "warmup_steps": 1},
          "checkpoint": {"interval": 1, "keep_latest_k": 0},
          "job": {"reproducible": True}}
LAYOUTS = {"alone": (1,),
           **{f"zero_{zero}": (2, "--parallelism.data_shard=2", f"--parallelism.zero={zero}")
              for zero in range(4)},
           "tensor": (2, "--parallelism.tensor=2"),
           "pipeline": (2, "--parallelism.pipeline=2"),
           "replicas": (4, "--parallelism.data_replicate=2", "--parallelism.data_shard=2",
                        "--parallelism.zero=3")}


def config_of(workshop, name, **training):
    return workshop.config(name, {**CONFIG, "training": {**CONFIG["training"], **training}})


def train(workshop, config, layout, *options, env=None):
    ranks, *axes = LAYOUTS[layout]
    if ranks == 1:
        return workshop.run("train", config, *options, env=env)
    return workshop.run_ranks(ranks, "train", config, *axes, *options, env=env)


def tensors(folder, prefix):
    """Those of a checkpoint, by the names of parameters, as h5py reads them."""
    try:
        import h5py
    except ImportError as why:
        raise Skip("python3-h5py is not installed") from why
    found = {}
    with h5py.File(folder / "state.h5", "r") as state:
        state.visititems(lambda name, item: found.update({name.removeprefix(prefix): item[...]})
                         if isinstance(item, h5py.Dataset) and name.startswith(prefix) else None)
    return found


def follows(run, steps, start="model/", first=0):
    """Checks the averages of the steps after `first`, in which it starts as the tensors `start`,
    against NumPy's."""
    rest = np.float32(1 - DECAY)
    average = tensors(checkpoint(run, first), start)
    check(len(average) > 10, sorted(average))
    for step in range(first + 1, steps + 1):
        weights = tensors(checkpoint(run, step), "model/")
        found = tensors(checkpoint(run, step), "ema/")
        check(found.keys() == weights.keys() == average.keys(), sorted(found))
        for name, before in average.items():
            average[name] = before + rest * (weights[name] - before)
            check(found[name].dtype == np.float32, found[name].dtype)
            check(found[name].tobytes() == average[name].tobytes(), run, step, name)
            check(found[name].tobytes() != weights[name].tobytes(), step, name, "is the weight")


@fact
def it_is_numpys_of_the_weights_of_every_step_in_every_layout(workshop):
    workshop.corpus()
    for layout in LAYOUTS:
        config = config_of(workshop, layout)
        train(workshop, config, layout).done()
        follows(workshop / layout, STEPS)
        start = checkpoint(workshop / layout, 0)
        check(all((values == tensors(start, "model/")[name]).all()
                  for name, values in tensors(start, "ema/").items()), layout, "starts elsewhere")
        if layout not in ("tensor",):  # sums in another order
            same_curve(workshop / layout, curve(workshop / "alone"))
            same_checkpoint(workshop, layout, "alone")
        workshop.run("checkpoint", "verify", layout).done()


@fact
def it_follows_float32_masters_of_every_optimizer(workshop):
    workshop.corpus()
    for name in ("Muon", "SGD", "LAMB"):
        config = config_of(workshop, name, dtype="bfloat16")
        train(workshop, config, "zero_3", f"--optimizer.name={name}").done()
        follows(workshop / name, STEPS)


@fact
def a_run_without_it_has_the_same_weights_and_no_average(workshop):
    workshop.corpus()
    workshop.run("train", config_of(workshop, "with")).done()
    workshop.run("train", config_of(workshop, "without", ema=0)).done()
    same_curve(workshop / "without", curve(workshop / "with"))
    weights = [tensors(checkpoint(workshop / name, STEPS), "model/") for name in ("with", "without")]
    for name in weights[0]:
        check(weights[0][name].tobytes() == weights[1][name].tobytes(), name)
    check(not tensors(checkpoint(workshop / "without", STEPS), "ema/"), "it has an average")


@fact
def a_stopped_run_continues_it_to_the_bit_in_any_layout(workshop):
    workshop.corpus()
    workshop.run("train", config_of(workshop, "whole")).done()
    for names in (("alone", "alone", "alone"), ("zero_3", "pipeline", "alone"),
                  ("alone", "zero_2", "replicas")):
        run = "-".join(names)
        config = config_of(workshop, run)
        for layout, held in zip(names, (2, 4, None)):
            env = None
            if held:
                env = inject_fault("kill", held + 1, ranks=LAYOUTS[layout][0])
            done = train(workshop, config, layout, env=env)
            check((done.code == 0) == (held is None), done)
        same_curve(workshop / run, curve(workshop / "whole"))
        same_checkpoint(workshop, run, "whole")
        follows(workshop / run, STEPS)


@fact
def a_run_continues_it_from_memory(workshop):
    workshop.corpus()
    workshop.run("train", config_of(workshop, "whole"), "--checkpoint.interval=100").done()
    (workshop / "shm").mkdir()
    config = config_of(workshop, "run")
    options = ["--checkpoint.interval=100", "--elastic.memory_interval=1",
               f"--elastic.memory_folder={workshop / 'shm'}"]
    train(workshop, config, "zero_1", *options, env=inject_fault("kill", 4, ranks=2))
    train(workshop, config, "pipeline", *options).done()
    check([event["in_memory"] for event in events(workshop / "run", "resume")] == [True],
          events(workshop / "run"))
    same_checkpoint(workshop, "run", "whole")


@fact
def skipped_rolled_back_and_repeated_steps_leave_no_trace_in_it(workshop):
    workshop.corpus()
    bad = {"TRIREME_INJECT_GRADIENT": "step=3 rank=0 parameter=layers.0.mlp.up.weight value=nan"}
    for layout, policy in some_of((("alone", "skip"), ("zero_3", "rollback"), ("tensor", "skip"),
                                   ("pipeline", "rollback")), 2):
        run = f"{layout}-{policy}"
        train(workshop, config_of(workshop, run, on_nonfinite=policy), layout,
              env=bad).done()
        check(len(events(workshop / run, policy)) == 1, events(workshop / run))
        follows(workshop / run, STEPS, *(("ema/", 1) if policy == "skip" else ()))
    run = workshop / "float16"
    workshop.run("train", config_of(workshop, "float16", dtype="float16",
                                    loss_scale_init=2 ** 24)).done()
    check(events(run, "overflow"), events(run))
    follows(run, STEPS)


@fact
def it_may_be_turned_on_and_off_where_that_is_allowed(workshop):
    workshop.corpus()
    config, run = config_of(workshop, "run", ema=0, on_nonfinite="stop"), workshop / "run"
    workshop.run("train", config, "--training.steps=2").done()
    more = ["--training.steps=4", f"--training.ema={DECAY}"]
    workshop.run("train", config, *more).refused(
        4, "training.ema: 0.0 -> 0.9", 'allow_changes = ["training.ema"]')
    allowed = '--checkpoint.allow_changes=["training.ema"]'
    told = train(workshop, config, "zero_1", *more, allowed).done()
    check("training.ema: 0.0 -> 0.9 (changes numerics)" in told.err + told.out, told)
    check("the average of the weights starts from those of step 2" in told.err + told.out, told)
    follows(run, 4, first=2)
    workshop.run("train", config, "--training.steps=5").refused(4, "training.ema: 0.9 -> 0.0")
    workshop.run("train", config, "--training.steps=5", allowed).done()
    check(checkpoints(run)[-1] == 5 and not tensors(checkpoint(run, 5), "ema/"), checkpoints(run))


def safetensors(path):
    """The float32 tensors of a file, by name."""
    raw = path.read_bytes()
    size, = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8:8 + size]), raw[8 + size:]
    return {name: np.frombuffer(data[slice(*entry["data_offsets"])], "<f4").reshape(entry["shape"])
            for name, entry in header.items() if name != "__metadata__"}


@fact
def it_is_evaluated_generated_from_and_exported_on_request(workshop):
    workshop.corpus()
    train(workshop, config_of(workshop, "run"), "zero_3", "--model.tie_word_embeddings=true").done()
    last = checkpoint(workshop / "run", STEPS)
    for flags, prefix in ((["--ema"], "ema/"), ([], "model/")):
        model = workshop / ("model" + "".join(flags))
        told = workshop.run("checkpoint", "export", "run", "--output", model, *flags).done().out
        check(("exponential average" in told) == bool(flags), told)
        check("every weight reads back to the bit, and so do the logits" in told, told)
        stored = tensors(last, prefix)
        found = safetensors(model / "model.safetensors")
        for ours, theirs in (("embedding.weight", "model.embed_tokens.weight"),
                             ("layers.1.mlp.down.weight", "model.layers.1.mlp.down_proj.weight"),
                             ("norm.weight", "model.norm.weight")):
            check(stored[ours].tobytes() == found[theirs].tobytes(), ours, "of", prefix)
        # The same weights, read from the exported model.
        for words in (["eval", "--data", "corpus", "--samples", "8", "--seq-len", "32"],
                      ["generate", "--prompt", "the ", "--max-tokens", "20", "--temperature", "0",
                       "--tokenizer", "bytes"]):
            own, exported = (workshop.run(words[0], *of, *words[1:]).done().out
                             for of in (["run", *flags], [model]))
            lines = [[line for line in out.splitlines() if not line.startswith(("check", "weights"))]
                     for out in (own, exported)]
            check(lines[0] == lines[1], own, exported)
            if words[0] == "eval":
                check(("exponential average" in own) == bool(flags), own)
    losses = [workshop.run("eval", "run", "--data", "corpus", "--samples", "8", *flags).done().out
              for flags in ([], ["--ema"])]
    check(losses[0] != losses[1], losses)
    note(losses[1].splitlines()[-2])


@fact
def what_has_no_average_is_refused_once(workshop):
    workshop.corpus()
    workshop.run("train", config_of(workshop, "run", ema=0, on_nonfinite="stop", steps=2)).done()
    workshop.run("checkpoint", "export", "run", "--output", "model").done()
    for words in (["eval", "run", "--ema", "--data", "corpus"], ["generate", "run", "--ema"],
                  ["checkpoint", "export", "run", "--ema", "--output", "other"]):
        workshop.run(*words).refused(4, "run/checkpoints/step-00000002", "no average",
                                     "--ema", "training.ema")
    check(not (workshop / "other").exists(), "it left something")
    workshop.run("eval", "model", "--ema", "--data", "corpus").refused(4, "model", "Hugging Face")
    for value in (1, -0.1):
        workshop.run("train", config_of(workshop, "bad", ema=value)).refused(2, "training.ema",
                                                                             "below 1")


@fact
def it_is_planned(workshop):
    workshop.corpus()
    plans = {}
    for ema in (0, DECAY):
        for ranks in (1, 2):
            told = workshop.run("plan", config_of(workshop, "planned", ema=ema), "-n", ranks,
                                "--json").done()
            plans[ema, ranks] = json.loads(told.out)
    for ranks in (1, 2):
        without, with_it = (plans[ema, ranks] for ema in (0, DECAY))
        bytes_of_all = 4 * with_it["parameters"]
        more = with_it["checkpoint_bytes"] - without["checkpoint_bytes"]
        check(more == bytes_of_all, more, "instead of", bytes_of_all)


if __name__ == "__main__":
    main()
