#!/usr/bin/python3
"""job.reproducible: the bits of a run do not depend on its layout."""
from checks import check, note, some_of
from facts import fact, main
from run_folder import curve, metrics, same_checkpoint, same_curve

MODEL = {"model": {"flavor": "tiny", "num_hidden_layers": 2},
         "training": {"seq_len": 32, "local_batch_size": 1, "global_batch_size": 16, "steps": 30},
         "checkpoint": {"interval": 0},
         "job": {"reproducible": True}}


def layouts():
    """(ranks, options): data x ZeRO x pipeline, shapes of the data axes, sizes of buckets."""
    for pipeline in (1, 2):
        for data in (1, 2, 4, 8):
            for zero in (0, 1, 2, 3):
                if data == 1 and zero != 1:
                    continue  # with nobody to share with they are the same
                if data * pipeline > 8 and zero not in (1, 3):
                    continue  # time
                yield data * pipeline, [f"--parallelism.data_shard={data}",
                                        f"--parallelism.zero={zero}",
                                        f"--parallelism.pipeline={pipeline}"]
    for zero in (1, 3):
        yield 4, ["--parallelism.data_replicate=2", f"--parallelism.zero={zero}"]
    for bucket in (0, 0.1):
        yield 2, [f"--parallelism.bucket_mb={bucket}"]
    yield 4, ["--parallelism.pipeline=2", "--parallelism.schedule=GPipe",
              "--activation_checkpoint.mode=full"]


@fact
def every_layout_has_the_bits_of_one_rank(workshop):
    workshop.corpus()
    workshop.run("train", workshop.config("alone", MODEL)).done()
    expected, count = curve(workshop / "alone"), 0
    shared = [layout for layout in layouts() if layout[0] > 1]
    check(len(shared) >= 24, len(shared))
    for ranks, options in some_of(shared, 9):
        name = f"run{count}"
        workshop.run_ranks(ranks, "train", workshop.config(name, MODEL), *options).done()
        same_curve(workshop / name, expected)
        same_checkpoint(workshop, name, "alone")
        count += 1
    note(f"{count} layouts, 30 steps each: loss, grad_norm and weights to the bit")


@fact
def without_it_the_bits_depend_on_the_layout(workshop):
    workshop.corpus()
    model = {**MODEL, "job": {"reproducible": False}}
    workshop.run("train", workshop.config("alone", model)).done()
    workshop.run_ranks(4, "train", workshop.config("four", model)).done()
    losses = [[line["loss"] for line in metrics(workshop / name)] for name in ("alone", "four")]
    check(losses[0] != losses[1], "the sums are in one order without being asked to")


@fact
def micro_batches_that_make_no_tree_are_refused(workshop):
    workshop.corpus()
    config = workshop.config("run", MODEL)
    workshop.run_ranks(2, "train", config, "--training.global_batch_size=12").refused(
        2, "job.reproducible", "must be a power of two, not 6")


if __name__ == "__main__":
    main()
