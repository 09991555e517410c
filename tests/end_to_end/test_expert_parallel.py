#!/usr/bin/python3
"""Data ranks that divide the experts of each layer among themselves: the bits of one rank in every
layout, resumed in any other, and after the loss of a rank in an exchange."""
import json

from checks import check, note, random_of
from facts import fact, main
from launched import Fault, Launched, tell_recoveries
from run_folder import curve, events, same_checkpoint, same_curve, whole_lines
from workshop import SMALL

STEPS = 12
RUN = {**SMALL, "job": {"threads": 1, "reproducible": True}, "lr_scheduler": {"name": "constant"},
       "model": {"model_type": "qwen3_moe", "vocab_size": 288, "hidden_size": 32,
                 "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
                 "intermediate_size": 72, "max_position_embeddings": 64, "num_experts": 8,
                 "num_experts_per_tok": 2, "moe_intermediate_size": 24, "mlp_only_layers": [1],
                 "router_aux_loss_coef": 0.01},
       "training": {"seq_len": 32, "local_batch_size": 1, "global_batch_size": 8, "steps": STEPS},
       "checkpoint": {"interval": 4}}


def layout(**degrees):
    return [f"--parallelism.{key}={value}" for key, value in degrees.items()]


LAYOUTS = [(2, layout(expert=2)), (2, layout(expert=2, zero=3, expert_buffer_factor=1)),
           (4, layout(expert=4, zero=0)), (4, layout(expert=2, data_replicate=2, zero=2)),
           (4, layout(expert=2, pipeline=2)),
           (4, layout(expert=4, zero=2) + ["--activation_checkpoint.mode=full"])]


def alone(workshop):
    workshop.corpus()
    workshop.run("train", workshop.config("alone", base=RUN)).done()
    return curve(workshop / "alone")


@fact
def every_layout_has_the_bits_of_one_rank(workshop):
    expected, rounds = alone(workshop), []
    for number, (ranks, words) in enumerate(LAYOUTS):
        name = f"run{number}"
        workshop.run_ranks(ranks, "train", workshop.config(name, base=RUN), *words).done()
        same_curve(workshop / name, expected)
        same_checkpoint(workshop, name, "alone")
        lines = [json.loads(line) for line in whole_lines(workshop / name / "metrics.jsonl")]
        check(all(line["expert_rounds"] >= 1 for line in lines), lines[0])
        rounds.append(max(line["expert_rounds"] for line in lines))
    note(f"{len(LAYOUTS)} layouts to the bit; most rounds {rounds}")
    check(max(rounds) > 1, rounds)
    told = json.loads(whole_lines(workshop / "alone" / "metrics.jsonl")[0])
    check("expert_rounds" not in told, told)


@fact
def a_run_goes_on_in_any_other_layout(workshop):
    expected, config = alone(workshop), workshop.config("run", base=RUN)
    others = [(4, layout(expert=4, zero=3)), (1, []), (2, layout(expert=2, data_replicate=2)),
              (4, layout(expert=2, pipeline=2, zero=2)), (2, layout(pipeline=2)),
              (4, layout(expert=4, data_replicate=4, zero=0))]
    for number, (ranks, words) in enumerate(others, 1):
        step = STEPS * number // len(others)
        told = workshop.run_ranks(ranks, "train", config, *words, f"--training.steps={step}").done()
        check(number == 1 or f"step {STEPS * (number - 1) // len(others)}" in told.err + told.out, told)
    same_curve(workshop / "run", expected)
    same_checkpoint(workshop, "run", "alone")


@fact
def a_rank_lost_in_an_exchange_changes_no_bit(workshop):
    expected, random = alone(workshop), random_of("exchange")
    sections = {"parallelism": {"expert": 2, "data_shard": 2, "pipeline": 2},
                "elastic": {"memory_interval": 2, "max_restarts": 10}}
    # Rows that go out, results that come back, products in between, and the same backwards. A step has
    # at least 22 places in forward: each fault comes before the next one may.
    where = [("all_to_all", 1), ("all_to_all", 2), ("forward", random.randint(2, 40)),
             ("all_to_all", random.randint(9, 24)), ("backward", random.randint(2, 60))]
    faults = [Fault(random.choice(["kill", "abort", "throw"]), place, random.randrange(4),
                    2 * number, count=count) for number, (place, count) in enumerate(where, 1)]
    with Launched(workshop, "run", 4, sections, faults=faults, base=RUN) as run:
        for fault in faults:
            run.inject(fault)
        run.end()
        recoveries = tell_recoveries(run)
        check(len(recoveries) == len(faults), len(recoveries), events(run.folder, "failure"))
    same_curve(workshop / "run", expected)
    same_checkpoint(workshop, "run", "alone")
    note(*map(str, faults))


@fact
def layouts_that_do_not_fit_the_experts_are_refused(workshop):
    workshop.corpus()
    def refused(ranks, words, *message, base=None):
        workshop.run("plan", workshop.config("bad", base=base or RUN), "-n", ranks,
                     *words).refused(2, *message)
    refused(3, layout(expert=3) + ["--training.global_batch_size=9"], "parallelism.expert = 3",
            "model.num_experts = 8", "possible near 3: 2, 4")
    refused(16, layout(expert=16) + ["--training.global_batch_size=16"], "parallelism.expert = 16",
            "does not divide model.num_experts = 8", "possible near 16: 8")
    refused(2, layout(expert=4), "parallelism.expert = 4", "2 data ranks", "possible near 4: 2")
    refused(2, layout(expert=2), "needs a model with experts", base=SMALL)
    refused(2, layout(expert=2) + ["--optimizer.name=Muon"], "is not implemented for Muon")
    refused(2, layout(expert=2, expert_buffer_factor=0.5), "expert_buffer_factor")


if __name__ == "__main__":
    main()
