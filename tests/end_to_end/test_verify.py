#!/usr/bin/python3
"""trireme verify: layouts that are equal, layouts that were made to differ, and what is refused."""
import json
import os

from checks import check
from facts import fact, main
from workshop import MPI

MODEL = {"model": {"flavor": "tiny", "num_hidden_layers": 2},
         "training": {"seq_len": 32, "local_batch_size": 1, "global_batch_size": 4, "steps": 5}}


def compared(workshop, config, *words, **variables):
    """By its own mpirun."""
    return workshop.run("verify", config, *words, env={**MPI, **variables})


@fact
def layouts_of_a_run_are_equal_on_its_data(workshop):
    workshop.corpus()
    config = workshop.config("run", MODEL)
    result = compared(workshop, config, "--parallelism.tensor=2", "--json").done()
    finding = json.loads(result.out)
    check(finding["equal"] and not finding["tolerances"]["exact"], result.out)
    check([step["step"] for step in finding["steps"]] == [0, 1, 2], result.out)
    check(not os.path.exists(workshop / "run"), "it has made a run")


@fact
def a_mistake_is_named_and_ends_with_6(workshop):
    config = workshop.config("run", MODEL)
    result = compared(workshop, config, "--synthetic", "--parallelism.tensor=2",
                      "--parallelism.sequence=true", "--against", "parallelism.sequence=false",
                      TRIREME_INJECT_MISTAKE="lost-norm-sums")
    check(result.code == 6, result)
    for words in ("DIFFERS in step 1: the gradient of layers.0.attention_norm.weight",
                  "the reduction over 'tensor' is missing"):
        check(words in result.out, result)


@fact
def divided_experts_are_equal_and_a_mistake_among_them_is_named(workshop):
    config = workshop.config("run", base={
        "job": {}, "data": {"train": [{"path": "nowhere"}]}, "training": MODEL["training"],
        "model": {"model_type": "qwen3_moe", "vocab_size": 64, "hidden_size": 32, "head_dim": 8,
                  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                  "intermediate_size": 48, "max_position_embeddings": 32, "num_experts": 4,
                  "num_experts_per_tok": 2, "moe_intermediate_size": 16}})
    words = ["--synthetic", "--parallelism.data_shard=2", "--parallelism.expert=2"]
    compared(workshop, config, *words, "--job.reproducible=true", "--json").done()
    result = compared(workshop, config, *words, TRIREME_INJECT_MISTAKE="lost-gate-probability")
    check(result.code == 6, result)
    check("the backward is wrong from layers.1.mlp.router.weight on" in result.out, result)


@fact
def sharded_sequences_are_equal_and_documents_that_leak_are_named(workshop):
    workshop.corpus()
    config = workshop.config("run", {**MODEL, "data": {"document_mask": True}})
    for method in ("all_gather", "ring", "ulysses"):
        words = ["--parallelism.context=2", f"--parallelism.context_method={method}"]
        compared(workshop, config, *words, "--json").done()
        result = compared(workshop, config, *words, TRIREME_INJECT_MISTAKE="leaked-documents")
        check(result.code == 6, result)
        check("tokens see other documents" in result.out, result)
        check("in layers.0.attention" in result.out, result)


@fact
def what_is_no_other_layout_is_refused(workshop):
    config = workshop.config("run", MODEL)
    for against, words in [("optimizer.lr=1", "optimizer.lr"), ("sideways", "sideways"),
                           ("parallelism.tensor=3", "tensor")]:
        compared(workshop, config, "--synthetic", "--against", against).refused(2, words)
    compared(workshop, config).refused(3, "corpus")


main()
