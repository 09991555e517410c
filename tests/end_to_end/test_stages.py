#!/usr/bin/python3
"""The data change on the way: at a step, by plan or by a config edited in mid-run; no sample of any
source is repeated or passed over, wherever the run is stopped and on however many ranks it goes on."""
from support import check, checkpoints, curve, events, fact, main, metrics, note, same_curve

BATCH, STEPS = 4, 24
TRAIN = [{"path": "first", "weight": 3}, {"path": "second", "weight": 1}]
LATER = [{"path": "second", "weight": 1}, {"path": "third", "weight": 2}]
CONFIG = {"data": {"train": TRAIN, "stages": [{"from_step": 11, "train": LATER}]},
          "job": {"reproducible": True, "threads": 1},
          "training": {"steps": STEPS, "local_batch_size": 1, "global_batch_size": BATCH},
          "lr_scheduler": {"name": "constant"},
          "checkpoint": {"interval": 5}}


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
