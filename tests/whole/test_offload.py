#!/usr/bin/python3
"""Memory of a CUDA device offloaded to the host: on a GPU, or on an emulated one."""
import shutil

from support import (Skip, check, curve, events, fact, main, note, same_checkpoint, same_curve)

MODEL = {"training": {"seq_len": 32, "local_batch_size": 1, "global_batch_size": 4, "steps": 4,
                      "dtype": "bfloat16"},
         "lr_scheduler": {"name": "constant", "warmup_steps": 2},
         "validation": {"freq": 4, "steps": 1},
         "checkpoint": {"interval": 0},
         "data": {"train": [{"path": "corpus"}], "validation": [{"path": "held-out"}],
                  "tokenizer": "bytes"},
         "job": {"device": "cuda"}}
ACTIVATIONS, OPTIMIZER = "--activation_checkpoint.offload=true", "--optimizer.offload=true"


def prepared(workshop):
    if "cuda:0: " not in workshop.run("--version").done().out:
        raise Skip("there is no CUDA device")
    workshop.corpus()
    workshop.corpus("held-out", seed=2, words=2000)


def trained(workshop, name, *options, ranks=1, like=None, env=None):
    """With the algorithms of the run `like`, which were chosen by timing."""
    if like and not (workshop / name).exists():
        (workshop / name).mkdir()
        shutil.copy(workshop / like / "gemm_choices.json", workshop / name)
    config = workshop.config(name, MODEL)
    if ranks > 1:
        return workshop.run_ranks(ranks, "train", config, *options, env=env).done()
    return workshop.run("train", config, *options, env=env).done()


@fact
def neither_changes_a_bit_and_both_are_in_the_plan(workshop):
    prepared(workshop)
    trained(workshop, "here")
    plan = events(workshop / "here", "start")[0]
    check(plan["host_memory_plan_bytes"] == 0, plan)
    for name, options in {"activations": [ACTIVATIONS], "optimizer": [OPTIMIZER],
                          "both": [ACTIVATIONS, OPTIMIZER]}.items():
        # another order of what streams do beside each other, where they are emulated
        done = trained(workshop, name, *options, like="here",
                       env={"TRIREME_EMULATED_ORDER": str(len(name))})
        same_curve(workshop / name, curve(workshop / "here"))
        same_checkpoint(workshop, name, "here")
        start = events(workshop / name, "start")[0]
        note(f"{name}: {start['memory_plan_bytes']} bytes of {plan['memory_plan_bytes']},",
             f"{start['host_memory_plan_bytes']} on the host")
        check(0 < start["host_memory_plan_bytes"], start)
        check(start["memory_plan_bytes"] < plan["memory_plan_bytes"], start)
        check("pinned on the host" in done.out + done.err, done)


@fact
def a_run_goes_on_with_and_without(workshop):
    prepared(workshop)
    trained(workshop, "whole")
    trained(workshop, "first", ACTIVATIONS, OPTIMIZER, "--training.steps=2", like="whole")
    trained(workshop, "first")
    trained(workshop, "then", "--training.steps=2", like="whole")
    trained(workshop, "then", ACTIVATIONS, OPTIMIZER)
    for name in "first", "then":
        check(len(events(workshop / name, "resume")) == 1, name)
        same_checkpoint(workshop, name, "whole")


@fact
def ranks_that_share_out_the_state_compute_the_same(workshop):
    prepared(workshop)
    data = ["--parallelism.data_shard=2"]
    layouts = {f"zero {zero}": [*data, f"--parallelism.zero={zero}"] for zero in (1, 2, 3)}
    layouts["tensor"] = ["--parallelism.tensor=2"]
    for schedule in "GPipe", "ZBH1":
        layouts[schedule] = ["--parallelism.pipeline=2", f"--parallelism.schedule={schedule}"]
    for name, layout in layouts.items():
        trained(workshop, name, *layout, ranks=2)
        trained(workshop, f"{name} away", *layout, ACTIVATIONS, OPTIMIZER, ranks=2, like=name,
                env={"TRIREME_EMULATED_ORDER": "7"})
        same_checkpoint(workshop, f"{name} away", name)
        note(name)


@fact
def the_cpu_has_nowhere_to_offload_to(workshop):
    workshop.corpus()
    config = workshop.config("run")
    for option in ACTIVATIONS, OPTIMIZER:
        refused = workshop.run("train", config, "--job.device=cpu", option)
        refused.refused(2, option[2:].partition("=")[0], "the device is the CPU")


if __name__ == "__main__":
    main()
