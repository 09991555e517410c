#!/usr/bin/python3
"""The memory that a run says it will take is the memory it takes."""
import os
import subprocess

from checks import check, note
from facts import fact, main
from run_folder import events, metrics

MIB = 1 << 20

def plan_holds(workshop, model, training, recompute="none"):
    """The plan is used to the byte, and the process stays within it, 5 % and 100 MiB."""
    workshop.corpus(words=60000)
    changes = {"model": model, "training": {**training, "steps": 2},
               "activation_checkpoint": {"mode": recompute}}
    base = {"job": {"threads": 1}, "data": {"train": [{"path": "corpus"}], "split": 0.1},
            "validation": {"freq": 1, "steps": 1}, "checkpoint": {"interval": 1}}
    config = workshop.config("run", changes, base)
    # wait4 tells the most that this very process ever had, as the kernel counted it.
    process = subprocess.Popen([workshop.trireme, "train", config], cwd=workshop.folder,
                               env=workshop.env, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    err = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    check(process.returncode == 0, f"exit {process.returncode}:", err)
    start = events(workshop / "run", "start")[0]
    plan, snapshot = start["memory_plan_bytes"], start["snapshot_bytes"]
    lines = metrics(workshop / "run")
    arenas = [int(line["memory_peak_bytes"]) for line in lines]
    peaks = [int(line["process_peak_bytes"]) for line in lines] + [usage.ru_maxrss * 1024]
    note(f"plan {plan / MIB:.2f} MiB, snapshot {snapshot / MIB:.2f} MiB, arenas {[round(a / MIB, 2) for a in arenas]} MiB, process "
         f"{[round(p / MIB, 1) for p in peaks]} MiB")
    check(plan > 150 * MIB, "too small a plan to say much")
    check(arenas == [plan, plan], "planned", plan, "used", arenas)
    check(snapshot > 0 and max(peaks) <= 1.05 * (plan + snapshot) + 100 * MIB, "planned", plan,
          "and a snapshot of", snapshot, "the process took", peaks)


@fact
def a_gpt2_like_run_takes_what_it_planned(workshop):
    plan_holds(workshop,
               {"model_type": "gpt2", "vocab_size": 8192, "hidden_size": 384,
                "num_hidden_layers": 4, "num_attention_heads": 6,
                "max_position_embeddings": 256},
               {"seq_len": 128, "local_batch_size": 4, "global_batch_size": 8})


@fact
def a_llama_like_run_in_bfloat16_takes_what_it_planned(workshop):
    plan_holds(workshop,
               {"model_type": "llama", "vocab_size": 8192, "hidden_size": 384,
                "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 6,
                "num_key_value_heads": 2},
               {"seq_len": 128, "local_batch_size": 4, "global_batch_size": 4,
                "dtype": "bfloat16"})


@fact
def a_qwen3_like_run_that_recomputes_takes_what_it_planned(workshop):
    plan_holds(workshop,
               {"model_type": "qwen3", "vocab_size": 16384, "hidden_size": 320,
                "intermediate_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 4,
                "num_key_value_heads": 2, "head_dim": 64},
               {"seq_len": 256, "local_batch_size": 2, "global_batch_size": 4},
               recompute="full")


if __name__ == "__main__":
    main()
