#!/usr/bin/python3
"""checkpoint.initial_load_path of a dense run: a model whose experts are copies of its MLPs."""
from checks import check, note
from facts import fact, main
from run_folder import checkpoint, events, metrics

SIZES = {"vocab_size": 512, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 16, "rope_theta": 1e4}
# Without the balance loss, which a dense model's loss does not have.
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 96,
           "router_aux_loss_coef": 0.0}
DENSE = {**SIZES, "model_type": "llama", "intermediate_size": 96}
MIXTRAL = {**SIZES, **EXPERTS, "model_type": "mixtral"}
QWEN = {**SIZES, **EXPERTS, "model_type": "qwen3_moe", "intermediate_size": 96,
        "rms_norm_eps": 1e-6}


def config(workshop, name, model, **changes):
    return workshop.config(name, changes, {
        "job": {"threads": 1}, "model": model,
        "data": {"train": [{"path": "corpus"}], "tokenizer": "bytes"},
        "training": {"seq_len": 32, "local_batch_size": 2, "global_batch_size": 4, "steps": 6},
        "optimizer": {"lr": 1e-2}, "lr_scheduler": {"warmup_steps": 0},
        "checkpoint": {"interval": 3}})


def trained(workshop, model=None):
    """A dense run of six steps in the folder `teacher`."""
    workshop.corpus()
    workshop.run("train", config(workshop, "teacher", model or DENSE)).done()
    return workshop / "teacher"


def first_loss(workshop, name, model, teacher, *options, ranks=1):
    """Of a run that starts from the teacher's weights, as text."""
    told = workshop.run_ranks(ranks, "train", config(workshop, name, model),
                              f"--checkpoint.initial_load_path={teacher}", "--training.steps=1",
                              *options).done()
    loss = metrics(workshop / name)[0]["loss"]
    note(f"{name}: first loss {loss}")
    return loss, told


def weights_of(run):
    return events(run, "start")[0]["weights"]


@fact
def the_first_loss_is_that_of_the_dense_model(workshop):
    teacher = trained(workshop)
    untrained = float(metrics(teacher)[0]["loss"])
    wanted = float(first_loss(workshop, "dense", DENSE, teacher)[0])
    check(wanted < untrained - 0.1, "nothing was learned")
    hashes = set()
    for count, (ranks, *options) in enumerate([
            (1,), (2, "--parallelism.tensor=2"), (2, "--parallelism.pipeline=2"),
            (2, "--parallelism.zero=3")]):
        loss, told = first_loss(workshop, f"run{count}", MIXTRAL, teacher, *options, ranks=ranks)
        check(abs(float(loss) - wanted) < 1e-5 * wanted, loss, wanted)
        check("2 layers x 4 experts" in told.err and "step-00000006 (step 6)" in told.err, told)
        start = events(workshop / f"run{count}", "start")[0]
        check(start["weights_from"] == str(checkpoint(teacher, 6)), start)
        check((start["upcycled_layers"], start["upcycled_experts"]) == (2, 4), start)
        hashes.add(start["weights"])
    check(len(hashes) == 1, "the weights depend on the layout:", hashes)


@fact
def other_families_and_layers_without_experts(workshop):
    dense = {**DENSE, "model_type": "qwen3", "rms_norm_eps": 1e-6}
    teacher = trained(workshop, dense)
    wanted = float(first_loss(workshop, "dense", dense, teacher)[0])
    for name, model, layers in [("qwen", QWEN, 2), ("mixed", {**QWEN, "mlp_only_layers": [0]}, 1),
                                ("wide", {**QWEN, "intermediate_size": 128}, 2)]:
        loss, _ = first_loss(workshop, name, model, teacher)
        check(abs(float(loss) - wanted) < 1e-5 * wanted, name, loss, wanted)
        check(events(workshop / name, "start")[0]["upcycled_layers"] == layers, name)
    other = {**SIZES, **EXPERTS, "model_type": "olmoe"}
    del other["head_dim"]
    workshop.run("train", config(workshop, "olmoe", other),
                 f"--checkpoint.initial_load_path={teacher}").refused(
        4, "checkpoint.initial_load_path", 'model.model_type: "qwen3" -> "olmoe"', "mixtral")


@fact
def experts_of_olmoe(workshop):
    sizes = {key: value for key, value in SIZES.items() if key != "head_dim"}
    dense = {**sizes, "model_type": "llama", "intermediate_size": 96}
    teacher = trained(workshop, dense)
    wanted = float(first_loss(workshop, "dense", dense, teacher)[0])
    loss, _ = first_loss(workshop, "run", {**sizes, **EXPERTS, "model_type": "olmoe",
                                           "norm_topk_prob": True, "qk_norm": False}, teacher)
    check(abs(float(loss) - wanted) < 1e-5 * wanted, loss, wanted)


@fact
def patterns_of_layers_may_be_given_as_lists(workshop):
    """SmolLM3's every fourth layer has no positions."""
    sizes = {key: value for key, value in SIZES.items() if key != "head_dim"}
    sizes.update(num_hidden_layers=4, rms_norm_eps=1e-6, tie_word_embeddings=True)
    dense = {**sizes, "model_type": "smollm3", "intermediate_size": 96}
    teacher = trained(workshop, dense)
    wanted = float(first_loss(workshop, "dense", dense, teacher)[0])
    sparse = {**sizes, **EXPERTS, "model_type": "mixtral"}
    workshop.run("train", config(workshop, "refused", sparse),
                 f"--checkpoint.initial_load_path={teacher}").refused(
        4, "model.no_rope_layers: [1, 1, 1, 0] -> []")
    loss, _ = first_loss(workshop, "run", {**sparse, "no_rope_layers": [1, 1, 1, 0]}, teacher,
                         "--parallelism.tensor=2", "--parallelism.pipeline=2", ranks=4)
    check(abs(float(loss) - wanted) < 1e-5 * wanted, loss, wanted)


@fact
def noise_is_the_same_in_every_layout(workshop):
    teacher = trained(workshop)
    noise = "--checkpoint.upcycle_noise=0.5"
    exact, _ = first_loss(workshop, "exact", MIXTRAL, teacher)
    alone, told = first_loss(workshop, "alone", MIXTRAL, teacher, noise)
    check("noise of 0.5 initial standard deviations" in told.err, told)
    check(alone != exact, "no noise")
    for name, tolerance in [("pipeline", 0), ("tensor", 1e-5)]:
        loss, _ = first_loss(workshop, name, MIXTRAL, teacher, noise, f"--parallelism.{name}=2",
                             ranks=2)
        check(weights_of(workshop / name) == weights_of(workshop / "alone"), name)
        check(abs(float(loss) - float(alone)) <= tolerance, loss, alone)
    first_loss(workshop, "reseeded", MIXTRAL, teacher, noise, "--job.seed=7")
    check(weights_of(workshop / "reseeded") != weights_of(workshop / "alone"), "the same draws")


@fact
def a_hugging_face_model_is_imported_first(workshop):
    teacher = trained(workshop)
    exported, imported = workshop / "exported", workshop / "imported"
    workshop.run("checkpoint", "export", teacher, "--output", exported).done()
    workshop.run("train", config(workshop, "refused", MIXTRAL),
                 f"--checkpoint.initial_load_path={exported}").refused(
        4, "checkpoint.initial_load_path", "trireme checkpoint import")
    workshop.run("checkpoint", "import", exported, "--output", imported).done()
    loss, _ = first_loss(workshop, "run", MIXTRAL, imported)
    check(loss == first_loss(workshop, "again", MIXTRAL, teacher)[0], loss)


@fact
def what_does_not_fit_is_refused(workshop):
    teacher = trained(workshop)
    load = f"--checkpoint.initial_load_path={teacher}"
    sparse = config(workshop, "run", MIXTRAL)
    workshop.run_ranks(2, "train", sparse, load, "--model.moe_intermediate_size=48",
                       "--parallelism.tensor=2").refused(
        4, "checkpoint.initial_load_path", "step-00000006", "model.moe_intermediate_size = 48",
        "model.intermediate_size = 96", "set model.moe_intermediate_size = 96")
    message = workshop.run("train", sparse, load, "--model.rope_theta=5e5").refused(
        4, "model.rope_theta: 10000.0 -> 500000.0", 'allow_changes = ["model.rope_theta"]')
    check("num_experts" not in message, message)
    workshop.run("train", sparse, load, "--model.num_hidden_layers=3").refused(
        4, "model.num_hidden_layers: 2 -> 3", "missing tensors")
    workshop.run("train", sparse, "--checkpoint.upcycle_noise=0.1").refused(
        2, "checkpoint.upcycle_noise", "checkpoint.initial_load_path")
    workshop.run("train", config(workshop, "dense", DENSE), load,
                 "--checkpoint.upcycle_noise=0.1").refused(2, "checkpoint.upcycle_noise")
    check(not (workshop / "run" / "metrics.jsonl").exists(), "it trained")
    workshop.run("train", sparse, load).done()
    again = config(workshop, "again", MIXTRAL)
    told = workshop.run("train", again, f"--checkpoint.initial_load_path={workshop / 'run'}").done()
    check("upcycled" not in told.err, told)
    workshop.run("train", config(workshop, "noisy", MIXTRAL),
                 f"--checkpoint.initial_load_path={workshop / 'run'}",
                 "--checkpoint.upcycle_noise=0.1").refused(4, "remove checkpoint.upcycle_noise")


if __name__ == "__main__":
    main()
