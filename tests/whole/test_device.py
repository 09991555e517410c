#!/usr/bin/python3
"""A run on a CUDA device beside the same run on the CPU: on a GPU, or on an emulated one."""
import shutil

from support import Skip, check, events, fact, main, metrics, note, same_checkpoint

MODEL = {"training": {"seq_len": 32, "local_batch_size": 2, "global_batch_size": 4, "steps": 5},
         "lr_scheduler": {"name": "constant", "warmup_steps": 2},
         "validation": {"freq": 5, "steps": 1},
         "data": {"train": [{"path": "corpus"}], "validation": [{"path": "held-out"}],
                  "tokenizer": "bytes"}}


def prepared(workshop):
    if "cuda:0: " not in workshop.run("--version").done().out:
        raise Skip("there is no CUDA device")
    workshop.corpus()
    workshop.corpus("held-out", seed=2, words=2000)


def trained(workshop, name, *options, ranks=1):
    config = workshop.config(name, MODEL)
    if ranks > 1:
        return workshop.run_ranks(ranks, "train", config, *options).done()
    return workshop.run("train", config, *options).done()


def difference(workshop, one, other, key="loss"):
    """The largest of all steps, as a part of the value."""
    lines = list(zip(metrics(workshop / one), metrics(workshop / other)))
    check(len(lines) == 5, f"{len(lines)} steps")
    return max(abs(float(a[key]) - float(b[key])) / float(b[key]) for a, b in lines if key in b)


@fact
def a_run_on_a_device_has_the_curve_of_the_cpu_and_goes_on_there(workshop):
    prepared(workshop)
    trained(workshop, "here", "--job.device=cpu")
    trained(workshop, "there", "--job.device=cuda", "--training.steps=3")
    start = events(workshop / "there", "start")[0]
    check(start["device"] == "cuda:0", start)
    trained(workshop, "there", "--job.device=auto", "--training.steps=4")
    check(events(workshop / "there", "resume")[0]["device"] == "cuda:0", "auto took no device")
    trained(workshop, "there", "--job.device=cpu")
    for key in "loss", "grad_norm", "validation_loss":
        found = difference(workshop, "there", "here", key)
        note(f"{key} within {found:.1e}")
        check(found < 1e-5, key, found)
    # what is drawn once depends on no device
    check(start["weights"] == events(workshop / "here", "start")[0]["weights"], start)


@fact
def the_same_algorithms_give_the_same_bits(workshop):
    """They are chosen by timing, and may differ where a run is not given another's choices."""
    prepared(workshop)
    options = ["--job.device=cuda", "--training.dtype=bfloat16",
               "--activation_checkpoint.mode=full"]
    trained(workshop, "one", *options)
    choices = workshop / "one" / "gemm_choices.json"
    check("cublaslt:" in choices.read_text(), choices.read_text())
    (workshop / "two").mkdir()
    shutil.copy(choices, workshop / "two")
    trained(workshop, "two", *options)
    same_checkpoint(workshop, "two", "one")
    check((workshop / "two" / choices.name).read_text() == choices.read_text(), "others chosen")


@fact
def float8_follows_the_cpu_and_keeps_its_algorithms(workshop):
    prepared(workshop)
    trained(workshop, "here", "--job.device=cpu", "--training.dtype=float8")
    options = ["--job.device=cuda", "--training.dtype=float8"]
    done = workshop.run("train", workshop.config("one", MODEL), *options)
    if "float8 products begin with" in done.err:
        raise Skip(done.refused(5, "training.dtype", "bfloat16"))
    check("the blocks' in float8; MFU is of the peak measured in bfloat16" in done.done().err, done)
    found = difference(workshop, "one", "here")
    note(f"loss within {found:.1e}")
    check(found < 0.01, found)
    choices = (workshop / "one" / "gemm_choices.json").read_text()
    for kind in "e4m3*float8_e4m3>bfloat16 nt", "e5m2*float8_e4m3>float32 nt":
        check(f"float8_{kind} " in choices, kind, choices)
    (workshop / "two").mkdir()
    shutil.copy(workshop / "one" / "gemm_choices.json", workshop / "two")
    trained(workshop, "two", *options)
    same_checkpoint(workshop, "two", "one")


@fact
def ranks_share_a_device_and_say_so(workshop):
    prepared(workshop)
    trained(workshop, "alone", "--job.device=cpu")
    for name, axis in ("tensor", "tensor"), ("pipeline", "pipeline"):
        done = trained(workshop, name, "--job.device=cuda", f"--parallelism.{axis}=2", ranks=2)
        found = difference(workshop, name, "alone")
        note(f"{axis}: losses within {found:.1e}")
        check(found < 1e-5, axis, found)
        told = done.out + done.err
        check("share a GPU" in told or "NCCL" in told, done)


@fact
def a_model_speaks_and_is_measured_the_same_on_both(workshop):
    prepared(workshop)
    trained(workshop, "run", "--job.device=cuda", "--training.dtype=bfloat16")
    texts = [workshop.run("generate", "run", "--prompt=the ship", "--temperature=0",
                          "--max-tokens=8", f"--device={device}").done().out
             for device in ("cpu", "cuda")]
    check(texts[0] == texts[1], texts)
    losses = [float(workshop.run("eval", "run", "--samples=4", f"--device={device}").done()
                    .out.partition("loss ")[2].split()[0]) for device in ("cpu", "cuda")]
    note("losses", *losses)
    check(abs(losses[0] - losses[1]) < 2e-3 * losses[0], losses)


if __name__ == "__main__":
    main()
