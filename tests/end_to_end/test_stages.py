#!/usr/bin/python3
"""The data change on the way: at a step, by plan or by a config edited in mid-run; no sample of any
source is repeated or passed over, wherever the run is stopped and on however many ranks it goes on.
Sequences may change their length too: every source then starts over, cut into the new length."""
import json

from checks import check, note
from facts import fact, main
from run_folder import checkpoints, curve, events, metrics, same_curve

BATCH, STEPS = 4, 24
TRAIN = [{"path": "first", "weight": 3}, {"path": "second", "weight": 1}]
LATER = [{"path": "second", "weight": 1}, {"path": "third", "weight": 2}]
CONFIG = {"data": {"train": TRAIN, "stages": [{"from_step": 11, "train": LATER}]},
          "job": {"reproducible": True, "threads": 1},
          "training": {"steps": STEPS, "local_batch_size": 1, "global_batch_size": BATCH},
          "lr_scheduler": {"name": "constant"},
          "checkpoint": {"interval": 5}}

SHORT, LONG = 32, 64  # tokens of a sequence
YARN = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": SHORT}
LENGTHEN = {"from_step": 11, "seq_len": LONG, "rope_scaling": YARN}
LONGER = {**CONFIG, "data": {"train": TRAIN, "stages": [
    LENGTHEN, {"from_step": 17, "train": LATER}, {"from_step": 22, "seq_len": SHORT}]}}
EXPERTS = {"flavor": "", "model_type": "qwen3_moe", "vocab_size": 288, "hidden_size": 32,
           "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
           "intermediate_size": 72, "num_experts": 8, "num_experts_per_tok": 2,
           "moe_intermediate_size": 24}


def sources(workshop):
    for seed, name in enumerate(("first", "second", "third")):
        workshop.corpus(name, seed=seed, words=3000)


def audited(workshop, run):
    result = workshop.run("audit", run, "--data").done()
    check(result.out.endswith("\nclean\n"), result)
    row = [line for line in result.out.splitlines() if line.startswith("sources")][0]
    note(run, row)
    return [int(part.split()[0]) for part in row[14:].split(", ")]


def samples(text):
    """(step, sample, source, its sample) of each sample of `data show --step`."""
    found, step = [], 0
    for line in text.splitlines():
        words = line.replace(",", "").replace(":", "").split()
        if words[0] == "step":
            step = int(words[1])
        elif words[0] == "sample":
            found.append((step, int(words[1]), words[2], int(words[5])))
    return found


@fact
def a_stage_begins_at_its_step_wherever_the_run_was_stopped(workshop):
    sources(workshop)
    straight = workshop.config("straight", CONFIG)
    workshop.run("train", straight).done()
    # The first 40 samples, and the 56 after them.
    check(audited(workshop, "straight") == [30, 10 + 19, 37], "counts")
    config = workshop.config("stopped", CONFIG)
    workshop.run("train", config, "--training.steps=7").done()  # before the stage
    workshop.run_ranks(2, "train", config, "--training.steps=10",
                       "--parallelism.data_shard=2").done()  # at it
    workshop.run("train", config, "--training.steps=17").done()  # after it
    workshop.run_ranks(2, "train", config, "--parallelism.data_shard=2").done()
    check(len(events(workshop / "stopped", "resume")) == 3, "resumes")
    same_curve(workshop / "stopped", curve(workshop / "straight"))
    check(audited(workshop, "stopped") == [30, 29, 37], "counts")


@fact
def a_ramp_of_the_batch_goes_on_wherever_the_run_was_stopped(workshop):
    sources(workshop)
    ramp = [[1, 2], [5, 4], [11, 8]]
    steps, sizes = 14, [2] * 4 + [4] * 6 + [8] * 4
    training = {"steps": steps, "local_batch_size": 1, "global_batch_size": 8,
                "rampup_batch_size": ramp}
    changes = {**CONFIG, "training": training,
               "lr_scheduler": {"name": "constant", "warmup_steps": 2}}
    straight = workshop.config("straight", changes)
    workshop.run("train", straight).done()
    counts = audited(workshop, "straight")
    check(sum(counts) == sum(sizes), "counts", counts)
    trained = [int(line["tokens"]) for line in metrics(workshop / "straight")]
    tokens = trained[0] // sizes[0]
    check(trained ==
          [tokens * sum(sizes[:step + 1]) for step in range(steps)], "tokens")
    config = workshop.config("stopped", changes)
    workshop.run_ranks(2, "train", config, "--training.steps=3",
                       "--parallelism.data_shard=2").done()  # inside a size
    workshop.run("train", config, "--training.steps=4").done()  # before another
    workshop.run_ranks(2, "train", config, "--training.steps=11",
                       "--parallelism.pipeline=2").done()  # after a third
    workshop.run_ranks(2, "train", config, "--parallelism.data_shard=2", "--parallelism.zero=3",
                       "--training.steps=0", f"--training.tokens={tokens * sum(sizes) - 1}").done()
    same_curve(workshop / "stopped", curve(workshop / "straight"))
    check(audited(workshop, "stopped") == counts, "counts")
    shown = samples(workshop.run("data", "show", config, "--step", f"1:{steps + 1}").done().out)
    check([step for step, _, _, _ in shown] ==
          [step + 1 for step in range(steps) for _ in range(sizes[step])], "data show")
    check(all((source == "third") <= (step > 10) for step, _, source, _ in shown), shown)
    workshop.run("train", config, "--training.rampup_batch_size=[]",
                 "--training.global_batch_size=8").refused(4, "training.rampup_batch_size")


@fact
def data_show_tells_what_a_step_is_trained_on(workshop):
    sources(workshop)
    config = workshop.config("run", CONFIG)
    shown = workshop.run("data", "show", config, "--step", f"1:{STEPS + 1}").done().out
    of_steps = samples(shown)
    check([sample for _, sample, _, _ in of_steps] == list(range(BATCH * STEPS)), shown)
    for name in ("first", "second", "third"):
        own = [index for _, _, source, index in of_steps if source == name]
        check(own == list(range(len(own))), name, own)
    check(all((source == "third") <= (step > 10) for step, _, source, _ in of_steps), shown)
    check("document " in shown and "[0, " in shown and "the " in shown, shown)
    one = workshop.run("data", "show", config, "--step", "12", "--training.seq_len=16").done()
    check(len(samples(one.out)) == BATCH, one)
    workshop.run("data", "show", config, "--step", "0").refused(2, "1 or above")


@fact
def a_config_edited_in_mid_run_is_told_how_to_go_on(workshop):
    sources(workshop)
    edited = {**CONFIG, "data": {"train": TRAIN}}
    workshop.run("train", workshop.config("run", edited), "--training.steps=10").done()
    edited["data"] = {"train": LATER}
    message = workshop.run("train", workshop.config("run", edited)).refused(
        4, "data.train", "[data] stages = [{ from_step = 11", "allow_changes")
    stages = [line for line in message.splitlines() if "stages = " in line][0]
    train = [line for line in message.splitlines() if "train = " in line][0]
    told = [f"--{line.strip().replace('[data] ', 'data.').replace(' = ', '=', 1)}"
            for line in (train, stages)]
    config = workshop.config("run", edited)
    workshop.run("train", config, *told).refused(4, "data.stages", "allow_changes")
    allowed = '--checkpoint.allow_changes=["data.stages"]'
    workshop.run("train", config, *told, allowed).done()
    workshop.run("train", workshop.config("planned", CONFIG)).done()
    same_curve(workshop / "run", curve(workshop / "planned"))
    check(audited(workshop, "run") == [30, 29, 37], "counts")


def lengths(run):
    """Tokens of each step."""
    totals = [0] + [int(line["tokens"]) for line in metrics(run)]
    return [after - before for before, after in zip(totals, totals[1:])]


@fact
def sequences_change_their_length_at_a_step_wherever_the_run_was_stopped(workshop):
    sources(workshop)
    straight = workshop.config("straight", LONGER)
    workshop.run("train", straight).done()
    check(lengths(workshop / "straight") ==
          [BATCH * SHORT] * 10 + [BATCH * LONG] * 11 + [BATCH * SHORT] * 3, "tokens")
    # Of first and second: 40 samples, then 24 long ones, 20 long ones with the third, 12 short ones.
    counts = audited(workshop, "straight")
    check(counts == [30, 14, 18, 13, 13, 8], "counts", counts)
    stages = events(workshop / "straight", "stage")
    check([(stage["step"], stage["seq_len"], stage["sample"]) for stage in stages] ==
          [(11, LONG, 40), (22, SHORT, 84)], stages)
    config = workshop.config("stopped", LONGER)
    workshop.run("train", config, "--training.steps=7").done()  # before the stage
    workshop.run_ranks(2, "train", config, "--training.steps=10",
                       "--parallelism.data_shard=2").done()  # at it
    workshop.run_ranks(2, "train", config, "--training.steps=14",
                       "--parallelism.pipeline=2").done()  # inside it
    workshop.run("train", config, "--training.steps=22").done()  # over the end of it
    tokens = sum(lengths(workshop / "straight"))
    workshop.run_ranks(2, "train", config, "--parallelism.data_shard=2", "--parallelism.zero=3",
                       "--training.steps=0", f"--training.tokens={tokens - 1}").done()
    same_curve(workshop / "stopped", curve(workshop / "straight"))
    check(audited(workshop, "stopped") == counts, "counts")
    workshop.run("train", config, "--data.stages=[]").refused(4, "data.stages", "from_step = 11")


@fact
def a_stage_trains_as_a_run_of_its_length_does(workshop):
    sources(workshop)
    changes = {**LONGER, "model": {"max_position_embeddings": SHORT}, "optimizer": {"name": "SGD", "momentum": 0.0, "lr": 0.1},
               "lr_scheduler": {"name": "constant", "warmup_steps": 0},
               "checkpoint": {"interval": 5, "keep_latest_k": 0},
               "data": {"train": TRAIN, "stages": [LENGTHEN]}}
    workshop.run("train", workshop.config("staged", changes)).done()
    workshop.run("train", workshop.config("short", {**changes, "data": {"train": TRAIN}}),
                 "--training.steps=10").done()
    alone = {**changes, "data": {"train": TRAIN},
             "model": {"max_position_embeddings": LONG, "rope_scaling": YARN},
             "training": {**changes["training"], "seq_len": LONG, "steps": STEPS - 10},
             "checkpoint": {"interval": 5, "initial_load_path": str(workshop / "short")}}
    workshop.run("train", workshop.config("long", alone)).done()
    def steps(run):
        return [(line["loss"], line["grad_norm"]) for line in metrics(workshop / run)]
    check(steps("staged")[:10] == steps("short"), "before the stage")
    check(steps("staged")[10:] == steps("long"), steps("staged")[10:], steps("long"))
    def weights(run, step):
        manifest = workshop / run / f"checkpoints/step-{step:08}/manifest.json"
        return json.loads(manifest.read_text())["digests"]["weights"]
    check(weights("staged", STEPS) == weights("long", STEPS - 10), "weights")
    # The checkpoint is of a model of its last step.
    for step, positions, rope in ((10, SHORT, None), (15, LONG, "yarn")):
        folder = f"exported-{step}"
        workshop.run("checkpoint", "export", f"staged/checkpoints/step-{step:08}", "--output", folder).done()
        told = json.loads((workshop / folder / "config.json").read_text())
        check(told["max_position_embeddings"] == positions, told)
        check((told["rope_scaling"] or {}).get("rope_type") == rope, told)


@fact
def rope_scaling_alone_changes_at_its_step(workshop):
    sources(workshop)
    def run(name, stages):
        changes = {**CONFIG, "data": {"train": TRAIN, "stages": stages}}
        workshop.run("train", workshop.config(name, changes), "--training.steps=12").done()
        return curve(workshop / name), [line["hash"] for line in (
            json.loads(text) for text in (workshop / name / "ledger.jsonl").read_text().splitlines())
            if "hash" in line]
    plain, samples = run("plain", [])
    scaled, same_samples = run("scaled", [{"from_step": 11, "rope_scaling": YARN}])
    check(samples == same_samples and len(samples) == 12, "samples")
    check(plain[:10] == scaled[:10] and plain[10] != scaled[10], plain[9:], scaled[9:])


@fact
def a_length_edited_in_mid_run_is_told_how_to_go_on(workshop):
    sources(workshop)
    changes = {**CONFIG, "data": {"train": TRAIN}}
    config = workshop.config("run", changes)
    workshop.run("train", config, "--training.steps=10").done()
    message = workshop.run("train", config, f"--training.seq_len={LONG}").refused(
        4, "training.seq_len: 32 -> 64", "[training] seq_len = 32",
        "stages = [{ from_step = 11, seq_len = 64 }]", "allow_changes")
    note(message)
    stages = {"train": TRAIN, "stages": [{"from_step": 11, "seq_len": LONG}]}
    workshop.run("train", workshop.config("run", {**CONFIG, "data": stages}),
                 '--checkpoint.allow_changes=["data.stages"]').done()
    workshop.run("train", workshop.config("planned", {**CONFIG, "data": stages})).done()
    same_curve(workshop / "run", curve(workshop / "planned"))
    check(audited(workshop, "run") == audited(workshop, "planned"), "counts")


@fact
def the_memory_of_the_longest_stage_is_planned_from_the_start(workshop):
    sources(workshop)
    config = workshop.config("run", {**LONGER, "job": {"threads": 1}})
    plan = json.loads(workshop.run("plan", config, "--json").done().out)
    told = workshop.run("plan", config).done().out
    check("32 tokens from step 1 on" in told and "64 tokens from step 11 on" in told, told)
    check([stage["seq_len"] for stage in plan["stages"]] == [SHORT, LONG, SHORT], plan["stages"])
    check(plan["run"]["tokens"] == BATCH * (13 * SHORT + 11 * LONG), plan["run"])
    workshop.run("train", config).done()
    planned = plan["memory"]["places"][0]
    check(events(workshop / "run", "start")[0]["memory_plan_bytes"] == planned["bytes"], planned)
    peaks = [int(line["memory_peak_bytes"]) for line in metrics(workshop / "run")]
    note("peaks", peaks[0], peaks[10], peaks[-1], "planned", planned["bytes"])
    check(peaks[9] < peaks[10] == peaks[-1] == planned["bytes"], peaks, planned)


@fact
def every_layout_holds_its_plan_over_the_change(workshop):
    sources(workshop)
    training = {**CONFIG["training"], "steps": 14, "dtype": "bfloat16"}
    for number, layout in enumerate((
            {"data_shard": 2, "zero": 1}, {"data_shard": 2, "zero": 2}, {"data_shard": 2, "zero": 3},
            {"data_replicate": 2, "data_shard": 1}, {"tensor": 2, "sequence": True},
            {"pipeline": 2}, {"context": 2}, {"data_shard": 2, "expert": 2})):
        model = EXPERTS if "expert" in layout else {}
        changes = {**LONGER, "model": model, "training": training, "parallelism": layout,
                   "job": {"threads": 1}, "validation": {"freq": 5, "steps": 1},
                   "optimizer": {"stochastic_rounding": True},
                   "elastic": {"replica_check_interval": 3, "memory_interval": 4,
                               "memory_folder": str(workshop / "memory")},
                   "metrics": {"trace": True, "trace_steps": 12},
                   "data": {**LONGER["data"], "split": 0.1}}
        note("layout", layout)
        workshop.run_ranks(2, "train", workshop.config(f"straight-{number}", changes)).done()
        stopped = workshop.config(f"stopped-{number}", changes)
        workshop.run_ranks(2, "train", stopped, "--training.steps=10").done()
        workshop.run_ranks(2, "train", stopped).done()
        same_curve(workshop / f"stopped-{number}", curve(workshop / f"straight-{number}"))


@fact
def left_out_samples_move_the_step_of_a_stage_and_no_step_mixes_lengths(workshop):
    sources(workshop)
    changes = {**LONGER, "data": {**LONGER["data"], "skip": [[3, 9]]}}
    workshop.run("train", workshop.config("straight", changes)).done()
    # 34 of the 40 samples make eight steps.
    stages = events(workshop / "straight", "stage")
    check([(stage["step"], stage["sample"]) for stage in stages] == [(9, 40), (20, 84)], stages)
    rest = events(workshop / "straight", "stage_skip")
    check([(event["step"], event["samples"]) for event in rest] == [(9, [38, 40])], rest)
    counts = audited(workshop, "straight")
    config = workshop.config("stopped", changes)
    workshop.run("train", config, "--training.steps=8").done()
    workshop.run("train", config).done()
    same_curve(workshop / "stopped", curve(workshop / "straight"))
    check(audited(workshop, "stopped") == counts, "counts")


@fact
def a_rollback_over_the_change_goes_on_with_the_later_stage(workshop):
    sources(workshop)
    changes = {**LONGER, "training": {**LONGER["training"], "on_nonfinite": "rollback"},
               "checkpoint": {"interval": 8}}
    workshop.run("train", workshop.config("run", changes),
                 env={"TRIREME_INJECT_GRADIENT":
                      "step=12 rank=0 parameter=layers.1.mlp.up.weight value=nan"}).done()
    back = events(workshop / "run", "rollback")
    check([(event["to_step"], event["left_out"]) for event in back] == [(8, [32, 48])], back)
    stages = events(workshop / "run", "stage")
    check(lengths(workshop / "run")[:10] == [BATCH * SHORT] * 8 + [BATCH * LONG] * 2, stages)
    audited(workshop, "run")


@fact
def megatrons_order_goes_on_and_keeps_to_its_length(workshop):
    sources(workshop)
    changes = {**CONFIG, "data": {"train": TRAIN, "order": "megatron"}}
    workshop.run("train", workshop.config("straight", changes)).done()
    config = workshop.config("stopped", changes)
    fixed = f"--data.order_samples={BATCH * STEPS}"
    workshop.run("train", config, "--training.steps=9", fixed).done()
    workshop.run("train", config, "--training.steps=10").refused(4, "data.order_samples")
    workshop.run_ranks(2, "train", config, fixed, "--parallelism.data_shard=2").done()
    same_curve(workshop / "stopped", curve(workshop / "straight"))
    check(audited(workshop, "stopped") == audited(workshop, "straight"), "counts")
    check(len(metrics(workshop / "stopped")) == STEPS and checkpoints(workshop / "stopped"), "run")


if __name__ == "__main__":
    main()
