#!/usr/bin/python3
"""trireme verify: layouts that are equal, layouts that were made to differ, and what is refused."""
import json
import os

from support import MPI, check, fact, main

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
def what_is_no_other_layout_is_refused(workshop):
    config = workshop.config("run", MODEL)
    for against, words in [("optimizer.lr=1", "optimizer.lr"), ("sideways", "sideways"),
                           ("parallelism.tensor=3", "tensor")]:
        compared(workshop, config, "--synthetic", "--against", against).refused(2, words)
    compared(workshop, config).refused(3, "corpus")


main()
