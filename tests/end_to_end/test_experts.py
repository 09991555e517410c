#!/usr/bin/python3
"""Router metrics of a run with experts, in metrics.jsonl and in the report."""
import json
import math

from checks import check, note
from facts import fact, main
from run_folder import curve, same_checkpoint, whole_lines
from workshop import SMALL

LAYERS, EXPERTS, CHOICES, STEPS, TOKENS = [1, 3], 6, 2, 25, 4 * 32
KEYS = ("router_balance_loss", "router_entropy", "expert_load_max_over_mean",
        "expert_load_max_over_mean_by_layer", "expert_load")
RUN = {**SMALL, "lr_scheduler": {"name": "constant"},
       "model": {"model_type": "qwen3_moe", "vocab_size": 288, "hidden_size": 32,
                   "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
                   "intermediate_size": 72, "max_position_embeddings": 64, "num_experts": EXPERTS,
                   "num_experts_per_tok": CHOICES, "moe_intermediate_size": 24,
                   "decoder_sparse_step": 2, "router_aux_loss_coef": 0.01},
         "training": {"seq_len": 32, "local_batch_size": 1, "global_batch_size": 4,
                      "steps": STEPS}}


def told(run):
    return [{key: line.get(key) for key in KEYS}
            for line in map(json.loads, whole_lines(run / "metrics.jsonl"))]


@fact
def routers_are_described_step_by_step(workshop):
    workshop.corpus()
    workshop.run("train", workshop.config("run", base=RUN)).done()
    lines = told(workshop / "run")
    for step, line in enumerate(lines, 1):
        check(0 < line["router_entropy"] <= math.log(EXPERTS) + 1e-6, step, line)
        by_layer, load = line["expert_load_max_over_mean_by_layer"], line["expert_load"]
        check(len(by_layer) == len(LAYERS) and all(1 <= one <= EXPERTS for one in by_layer), line)
        check(max(by_layer) == line["expert_load_max_over_mean"], line)
        check((load is not None) == (step in (10, 20, STEPS)), step, line)
        if load:
            check(load["layers"] == LAYERS, load)
            for counts, worst in zip(load["counts"], by_layer):
                check(len(counts) == EXPERTS and sum(counts) == TOKENS * CHOICES, load)
                check(max(counts) * EXPERTS / sum(counts) == worst, load)
    note(lines[-1])


@fact
def the_same_is_told_after_a_resume_and_by_several_ranks(workshop):
    workshop.corpus()
    workshop.run("train", workshop.config("alone", base=RUN)).done()
    config = workshop.config("resumed", base=RUN)
    workshop.run("train", config, "--training.steps=17").done()
    workshop.run("train", config).done()
    mine, theirs = told(workshop / "resumed"), told(workshop / "alone")
    check(mine[16].pop("expert_load") is not None, "the last step has no counts")
    theirs[16].pop("expert_load")
    check(mine == theirs, mine, theirs)
    workshop.run_ranks(2, "train", workshop.config("stages", base=RUN),
                       "--parallelism.pipeline=2").done()
    check(told(workshop / "stages") == told(workshop / "alone"), "the pipeline tells otherwise")
    check(curve(workshop / "stages") == curve(workshop / "alone"), "other losses")
    workshop.run_ranks(2, "train", workshop.config("shards", base=RUN), "--training.steps=1",
                       "--parallelism.data_shard=2").done()
    first = told(workshop / "shards")[0]
    check(first.pop("expert_load") is not None, "the last step has no counts")
    theirs[0].pop("expert_load")
    check(first == theirs[0], first, theirs[0])


@fact
def the_report_draws_loads_of_runs_with_experts_only(workshop):
    workshop.corpus()
    workshop.run("train", workshop.config("run", base=RUN)).done()
    workshop.run("train", workshop.config("dense"), "--training.steps=5").done()
    for run, has in ("run", True), ("dense", False):
        workshop.run("report", run, "--output", f"{run}.html").done()
        page = (workshop / f"{run}.html").read_text()
        for words in f"Load of the experts at step {STEPS}<", "layer 3, expert 5: ", \
                "Entropy of the routers", "Busiest expert over the mean":
            check((words in page) == has, run, words)


@fact
def the_bias_of_routers_is_the_same_in_every_layout(workshop):
    workshop.corpus()
    glm = {**RUN["model"], "model_type": "glm4_moe", "n_group": 3, "topk_group": 2,
           "n_shared_experts": 2, "router_bias_update_rate": 0.01}
    del glm["decoder_sparse_step"]
    base = {**RUN, "model": glm, "job": {"threads": 1, "reproducible": True}}
    workshop.run("train", workshop.config("alone", base=base), "--training.steps=8").done()
    config = workshop.config("resumed", base=base)
    workshop.run("train", config, "--training.steps=3").done()
    workshop.run_ranks(4, "train", config, "--training.steps=8", "--parallelism.pipeline=2",
                       "--parallelism.data_shard=2", "--parallelism.zero=3").done()
    same_checkpoint(workshop, workshop / "resumed", workshop / "alone")
    workshop.run("train", workshop.config("still", base=base), "--training.steps=8",
                 "--model.router_bias_update_rate=0").done()
    check(curve(workshop / "still") != curve(workshop / "alone"), "the bias has no effect")


if __name__ == "__main__":
    main()
