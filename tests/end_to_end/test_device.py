#!/usr/bin/python3
"""A run on a CUDA device beside the same run on the CPU: on a GPU, or on an emulated one."""
import json
import shutil

from checks import Skip, check, note
from facts import fact, main
from run_folder import events, metrics, same_checkpoint

MODEL = {"model": {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2},
         "training": {"seq_len": 32, "local_batch_size": 2, "global_batch_size": 4, "steps": 5},
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


def algorithms(run):
    """By device and shape. A run that measures the machine's peak also chooses one for that product,
    which alone is of square matrices."""
    return {(device, shape): way
            for device, table in json.loads((run / "gemm_choices.json").read_text()).items()
            for shape, way in table.items() if len(set(shape.split()[2:5])) > 1}


@fact
def the_same_algorithms_give_the_same_bits(workshop):
    """They are chosen by timing: a run keeps its own, and a user's runs share what was timed."""
    prepared(workshop)
    options = ["--job.device=cuda", "--training.dtype=bfloat16",
               "--activation_checkpoint.mode=full"]
    workshop.env["XDG_CACHE_HOME"] = str(workshop / "cache")
    trained(workshop, "one", *options)
    choices = workshop / "one" / "gemm_choices.json"
    check("cublaslt:" in choices.read_text(), choices.read_text())
    (workshop / "two").mkdir()
    shutil.copy(choices, workshop / "two")
    trained(workshop, "two", *options)
    same_checkpoint(workshop, "two", "one")
    check(algorithms(workshop / "two") == algorithms(workshop / "one"), "others chosen")
    trained(workshop, "three", *options)
    check(algorithms(workshop / "three") == algorithms(workshop / "one"), "timed again")


@fact
def replayed_gradients_change_no_bit(workshop):
    prepared(workshop)
    options = ["--job.device=cuda", "--training.dtype=bfloat16"]
    trained(workshop, "issued", *options)
    (workshop / "replayed").mkdir()
    shutil.copy(workshop / "issued" / "gemm_choices.json", workshop / "replayed")
    done = trained(workshop, "replayed", *options, "--job.cuda_graphs=true",
                   "--metrics.trace=true", "--metrics.trace_steps=2")
    check("forward and backward of micro-batches are replayed" in done.err, done)
    check("without a graph" not in done.err, done)
    check(events(workshop / "replayed", "start")[0]["cuda_graphs"] is True)
    same_checkpoint(workshop, "replayed", "issued")
    here = trained(workshop, "here", "--job.device=cpu", "--job.cuda_graphs=true")
    check("not used: the run is not on a GPU" in here.err, here)


@fact
def replayed_gradients_change_no_bit_of_several_ranks(workshop):
    prepared(workshop)
    options = ["--job.device=cuda", "--training.local_batch_size=1"]
    for name, layout in {
            "pipeline": ["--parallelism.pipeline=2"],
            "interleaved": ["--parallelism.pipeline=2", "--parallelism.schedule=Interleaved1F1B",
                            "--parallelism.virtual_stages=2", "--model.num_hidden_layers=4"],
            "zero-bubble": ["--parallelism.pipeline=2", "--parallelism.schedule=ZBH1"],
            "zero-1": ["--parallelism.data_shard=2", "--parallelism.zero=1", "--parallelism.bucket_mb=0"],
            "zero-3": ["--parallelism.data_shard=2", "--parallelism.zero=3"],
            "tree": ["--parallelism.data_replicate=2", "--parallelism.data_shard=1",
                     "--job.reproducible=true"]}.items():
        trained(workshop, name, *options, *layout, ranks=2)
        (workshop / (name + "-replayed")).mkdir()
        shutil.copy(workshop / name / "gemm_choices.json", workshop / (name + "-replayed"))
        done = trained(workshop, name + "-replayed", *options, *layout, "--job.cuda_graphs=true", ranks=2)
        check("are replayed" in done.err and "without a graph" not in done.err, done)
        same_checkpoint(workshop, name + "-replayed", name)
    done = trained(workshop, "tensor", *options, "--parallelism.tensor=2", "--job.cuda_graphs=true", ranks=2)
    check("not used: layers that 2 tensor ranks share wait for messages" in done.err, done)


def trace_rows(folder, rank):
    """{row: [(category, name, start, end)]} in microseconds, in order of their starts."""
    found = json.loads((folder / f"trace-{rank}.json").read_text())
    names = {e["tid"]: e["args"]["name"] for e in found if e["name"] == "thread_name"}
    rows = {}
    for e in found:
        if e["ph"] == "X":
            rows.setdefault(names[e["tid"]], []).append(
                (e["cat"], e["name"], e["ts"], e["ts"] + e["dur"]))
    return {row: sorted(spans, key=lambda span: span[2]) for row, spans in rows.items()}


@fact
def a_trace_shows_when_the_device_worked_not_when_it_was_told_to(workshop):
    prepared(workshop)
    trained(workshop, "run", "--job.device=cuda", "--metrics.trace=true",
            "--metrics.trace_steps=4")
    rows = trace_rows(workshop / "run", 0)
    check(sorted(rows) == ["cuda:0", "host"], sorted(rows))
    steps = [(a, b) for _, name, a, b in rows["host"] if name.startswith("step ")]
    check(len(steps) == 4, steps)
    told = [span for span in rows["host"] if span[0] == "queueing"]
    worked = rows["cuda:0"]
    check(all(category == "compute" for category, *_ in worked), worked)
    check([name for _, name, *_ in told] == [name for _, name, *_ in worked] ==
          ["0F0", "0B0", "0F1", "0B1"] * 4, told, worked)
    check(all(a[3] <= b[2] + 50 for a, b in zip(worked, worked[1:])), "two at once on one stream")
    for (start, end), first in zip(steps, range(0, 16, 4)):
        # Both clocks are compared once a step: the event that does it takes a moment.
        check(all(start - 50 <= a < b <= end + 50 for _, _, a, b in worked[first:first + 4]),
              worked[first:first + 4], start, end)
    # Nothing is done before it is asked for; the last work ends after the last was queued.
    check(all(t[2] <= w[2] + 50 for t, w in zip(told, worked)), "work before its queueing")
    check(all(worked[i][3] > told[i][3] for i in range(3, 16, 4)), "nothing is asynchronous")


@fact
def float8_follows_the_cpu_and_keeps_its_algorithms(workshop):
    prepared(workshop)
    trained(workshop, "here", "--job.device=cpu", "--training.dtype=float8")
    options = ["--job.device=cuda", "--training.dtype=float8"]
    done = workshop.run("train", workshop.config("one", MODEL), *options)
    if "float8 needs" in done.err:
        raise Skip(done.refused(5, "training.dtype", "bfloat16"))
    check("float8 in the blocks; MFU is relative to the bfloat16 peak" in done.done().err, done)
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
        done = trained(workshop, name, "--job.device=cuda", f"--parallelism.{axis}=2",
                       "--metrics.trace=true", ranks=2)
        found = difference(workshop, name, "alone")
        note(f"{axis}: losses within {found:.1e}")
        check(found < 1e-5, axis, found)
        told = done.out + done.err
        check("share a GPU" in told or "NCCL" in told, done)
        for rank in 0, 1:
            rows = trace_rows(workshop / name, rank)
            check(any(category == "compute" for category, *_ in rows["cuda:0"]), rows)
    told = events(workshop / "pipeline", "bubble")
    check(len(told) == 1 and 0 < told[0]["measured"] < 1, told)


@fact
def a_flipped_bit_on_a_device_is_found(workshop):
    prepared(workshop)
    options = ["--job.device=cuda", "--training.dtype=bfloat16", "--parallelism.data_replicate=2",
               "--parallelism.data_shard=1", "--training.local_batch_size=2",
               "--elastic.replica_check_interval=2"]
    trained(workshop, "clean", *options, ranks=2)
    told = events(workshop / "clean", "replica_checks")[0]
    check(told["count"] == 3, told)  # of steps 2, 4 and 5
    found = workshop.run_ranks(2, "train", workshop.config("flipped", MODEL), *options,
                               env={"TRIREME_INJECT_WEIGHT":
                                    "step=4 rank=1 parameter=layers.1.mlp.up.weight bit=20"})
    found.refused(7, "after step 4", "layers.1.mlp.up.weight (masters)", "rank 1 on")


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
