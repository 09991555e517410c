#!/usr/bin/python3
"""Ranks that shard every sequence: the curve of one rank by each method, with its bits where sums are
ordered; resumed in any other layout, and after the loss of a rank in the middle of a ring."""
import re

from checks import check, note, random_of
from facts import fact, main
from launched import Fault, Launched, tell_recoveries
from run_folder import curve, events, metrics, same_checkpoint, same_curve
from workshop import SMALL

STEPS = 12
RUN = {**SMALL, "job": {"threads": 1}, "lr_scheduler": {"name": "constant"},
       "model": {"model_type": "llama", "vocab_size": 288, "hidden_size": 32,
                 "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
                 "intermediate_size": 72, "max_position_embeddings": 128},
       "training": {"seq_len": 128, "local_batch_size": 1, "global_batch_size": 4, "steps": STEPS},
       "checkpoint": {"interval": 4}}


def layout(**degrees):
    return [f"--parallelism.{key}={value}" for key, value in degrees.items()]


def context(ranks, method, **degrees):
    return layout(context=ranks, context_method=method, **degrees)


def alone(workshop, *words):
    workshop.corpus()
    workshop.run("train", workshop.config("alone", base=RUN), *words).done()
    return curve(workshop / "alone")


@fact
def a_run_goes_on_by_any_method_and_number_of_ranks(workshop):
    alone(workshop)
    config = workshop.config("run", base=RUN)
    others = [(2, context(2, "ring")), (4, context(4, "all_gather", zero=3)), (1, []),
              (4, context(2, "ulysses", pipeline=2)), (2, layout(tensor=2)),
              (4, context(4, "ring", zero=2)), (4, context(4, "ring", context_ulysses=2))]
    for number, (ranks, words) in enumerate(others, 1):
        step = STEPS * number // len(others)
        told = workshop.run_ranks(ranks, "train", config, *words, f"--training.steps={step}").done()
        check(number == 1 or f"step {STEPS * (number - 1) // len(others)}" in told.err + told.out, told)
    balance = [float(line["context_pairs_max_over_mean"]) for line in metrics(workshop / "run")
               if "context_pairs_max_over_mean" in line]
    check(balance and all(1 <= value < 1.1 for value in balance), balance)
    workshop.run("report", "run").done()
    report = (workshop / "run" / "report.html").read_text()
    check("Query-key pairs of the busiest context rank over the mean" in report, "no chart of the balance")
    found = [float(line["loss"]) for line in metrics(workshop / "run")]
    expected = [float(line["loss"]) for line in metrics(workshop / "alone")]
    check(len(found) == STEPS, found)
    apart = max(abs(a - b) / b for a, b in zip(found, expected))
    note(f"losses of {len(others)} layouts in turn differ by {apart:.1e} from one rank's")
    check(apart < 1e-5, found, expected)


@fact
def ordered_sums_have_the_bits_of_one_rank(workshop):
    ordered = "--job.reproducible=true"
    expected = alone(workshop, ordered)
    for number, (ranks, words) in enumerate([(2, layout(context=2)),
                                             (4, layout(context=2, data_shard=2, zero=3)),
                                             (4, layout(context=4, zero=0))]):
        name = f"run{number}"
        workshop.run_ranks(ranks, "train", workshop.config(name, base=RUN), *words, ordered).done()
        same_curve(workshop / name, expected)
        same_checkpoint(workshop, name, "alone")


@fact
def a_rank_lost_in_the_middle_of_a_ring_changes_no_bit(workshop):
    random = random_of("ring")
    words = context(4, "ring")
    workshop.corpus()
    workshop.run_ranks(4, "train", workshop.config("whole", base=RUN), *words).done()
    sections = {"elastic": {"memory_interval": 2, "max_restarts": 10}}
    faults = [Fault("kill", "receive", random.randrange(4), 2, count=random.randint(1, 9)),
              Fault("kill", "send", random.randrange(4), 4, count=random.randint(1, 9)),
              Fault("throw", "receive", random.randrange(4), 6, count=random.randint(9, 30)),
              Fault("kill", "send", random.randrange(4), 8, count=random.randint(9, 30))]
    with Launched(workshop, "run", 4, sections, words, faults, base=RUN) as run:
        for fault in faults:
            run.inject(fault)
        run.end()
        check(len(tell_recoveries(run)) == len(faults), events(run.folder, "failure"))
        verdicts = [str(event) for event in events(run.folder, "failure")]
    note(*map(str, faults), *verdicts)
    steps = [re.search(r"of group context(_back)? (from|to) rank \d in step [123] of the ring", verdict)
             for verdict in verdicts]
    check(all(steps), verdicts)
    same_curve(workshop / "run", curve(workshop / "whole"))
    same_checkpoint(workshop, "run", "whole")


@fact
def the_default_method_keeps_sequences_whole_or_sends_least(workshop):
    workshop.corpus()
    config = workshop.config("run", base=RUN)
    for ranks, expected in (2, "context 2 (ulysses)"), (4, "context 4 (ulysses 2 x all_gather 2)"):
        told = workshop.run("plan", config, "-n", ranks, *layout(context=ranks)).done().out
        check(expected in told, told)
        told = workshop.run("plan", config, "-n", ranks, *layout(context=ranks),
                            "--job.reproducible=true").done().out
        check(f"context {ranks} (all_gather)" in told, told)


@fact
def layouts_that_do_not_fit_the_sequences_are_refused(workshop):
    workshop.corpus()
    def refused(ranks, words, *message):
        workshop.run("plan", workshop.config("bad", base=RUN), "-n", ranks,
                     *words).refused(2, *message)
    refused(3, context(3, "ring"), "parallelism.context = 3", "multiple of 6 tokens, not 128",
            "possible near 128: 126, 132")
    refused(8, context(8, "ulysses"), "parallelism.context_method", "cannot divide 4 query and 2",
            "among 8 ranks", "possible near 8: 4", "use all_gather")
    refused(2, context(2, "ring") + ["--training.attention_dropout=0.1"], "use all_gather or ulysses")
    refused(2, context(2, "ring") + ["--job.reproducible=true"], "must be all_gather")
    refused(4, context(4, "ulysses", context_ulysses=2), "parallelism.context_ulysses",
            "use all_gather or ring between groups of 2")
    refused(4, context(4, "ring", context_ulysses=3), "does not divide 4 context ranks", "2, 4")
    refused(16, context(16, "all_gather", context_ulysses=8), "cannot divide 4 query and 2",
            "among 8 ranks", "possible near 8: 4")
    refused(4, context(4, "all_gather", context_ulysses=2) + ["--job.reproducible=true"], "must be 1")
    refused(6, layout(context=3) + ["--job.reproducible=true", "--training.seq_len=126"],
            "must be a power of two")


if __name__ == "__main__":
    main()
