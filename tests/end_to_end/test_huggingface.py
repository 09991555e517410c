#!/usr/bin/python3
"""Hugging Face models out of checkpoints of every layout, and runs that start from them."""
import json
import re
import shutil
import subprocess
import sys

from checks import Skip, check, note
from corpora import np
from facts import fact, main
from hugging_face_models import LIBRARIES, MODELS, config, exported, the_library
from run_folder import checkpoint, curve, events

EIGHT = ["--parallelism.tensor=2", "--parallelism.pipeline=2", "--parallelism.data_shard=2",
         "--parallelism.zero=3"]


def judges():
    """What recomputes logits [tokens, vocab] from a folder: our reference, and transformers where
    it is installed."""
    try:
        import torch
    except ImportError:
        raise Skip("PyTorch is not installed") from None
    import hugging_face
    import reference
    torch.set_num_threads(1)

    def ours(folder, ids):
        shape, weights = hugging_face.read_folder(folder)
        row = torch.tensor([ids])
        positions = torch.arange(len(ids))[None]
        batch = reference.Batch(row, row, positions, torch.zeros_like(row))
        return reference.Model(shape, weights).logits(batch)[0]

    found = [("the reference", lambda family: True, ours)]
    transformers = the_library()
    if not transformers:
        return found

    def theirs(folder, ids):
        load = transformers.AutoModelForCausalLM.from_pretrained
        model, info = load(folder, attn_implementation="eager", output_loading_info=True)
        left = {key: info[key] for key in info if info[key]}
        check(not left and model.dtype == torch.float32, left, model.dtype)
        with torch.no_grad():
            return model.eval()(torch.tensor([ids]), use_cache=False).logits[0]

    knows = transformers.CONFIG_MAPPING.__contains__
    return [*found, (f"transformers {transformers.__version__}", knows, theirs)]


@fact
def every_family_exported_from_a_layout_is_what_others_compute(workshop):
    workshop.corpus(words=2000)
    found = judges()
    for family, model in MODELS.items():
        run = config(workshop, family, model)
        workshop.run_ranks(8, "train", run, *EIGHT).done()
        folder, told = exported(workshop, family, "--shard-size=40KB", "--logits",
                                workshop / "logits.json")
        check("largest difference 0" in told["check"], told)
        check(len(list(folder.glob("model-0*.safetensors"))) > 2, told)
        check((folder / "model.safetensors.index.json").exists(), told)
        dumped = json.loads((workshop / "logits.json").read_text())
        expected = np.array(dumped["logits"])
        for name, knows, judge in found:
            if not knows(family):
                note(f"{family}: not in {name}")
                continue
            got = judge(folder, dumped["ids"]).detach().numpy()
            worst = np.abs(got - expected).max()
            note(f"{family}: {name} computes logits within {worst:.1e} of at most "
                 f"{np.abs(expected).max():.2f}")
            check(worst < 1e-5, family, name, worst)
    for library in LIBRARIES:
        if library.exists():
            done = subprocess.run(
                [sys.executable, "-B", "-c", READ_CONFIGS, library,
                 *(workshop / f"{family}-hf" for family in MODELS)],
                capture_output=True, check=False, text=True)
            check(done.returncode == 0, done.stderr[-2000:])
            note(f"{library.name} reads {len(done.stdout.split())} configs")


READ_CONFIGS = """
import sys
sys.path.insert(0, sys.argv[1])
import transformers
for folder in sys.argv[2:]:
    print(type(transformers.AutoConfig.from_pretrained(folder)).__name__)
"""


def saved_by_transformers(transformers, folder, family, **changes):
    """A model with random weights, in the words and shards of its own library."""
    import torch
    torch.manual_seed(8 if family == "mixtral" else 7)  # whose text does not end at once
    keys = {**MODELS[family], "pad_token_id": None, "eos_token_id": 2, **changes}
    if family == "phi3" and keys["rope_scaling"]:  # as its own files have it
        scaling = dict(keys["rope_scaling"], type="longrope")
        del scaling["rope_type"]
        length = "original_max_position_embeddings"
        keys.update({"rope_scaling": scaling, length: scaling.pop(length)})
    if family == "gemma3_text":
        keys["sliding_window_pattern"] = 3  # of versions that do not read layer_types
    if family in ("mixtral", "olmoe", "gpt_oss"):  # all layers have experts
        keys["intermediate_size"] = keys.pop("moe_intermediate_size")
    if family in ("mixtral", "gpt_oss"):
        keys["num_local_experts"] = keys.pop("num_experts")
    if family == "glm4_moe":
        keys.update(n_routed_experts=keys.pop("num_experts"), use_qk_norm=keys.pop("qk_norm"))
        del keys["router_bias_update_rate"]
    if family == "gpt2":
        keys = {"model_type": "gpt2", "vocab_size": keys["vocab_size"], "n_layer": 4, "n_head": 4,
                "n_embd": 32, "n_positions": keys["max_position_embeddings"]}
    shape = transformers.AutoConfig.for_model(**keys)
    model = transformers.AutoModelForCausalLM.from_config(shape, attn_implementation="eager")
    with torch.no_grad():
        for weight in model.parameters():  # no bias stays zero, no gain one
            weight.add_(0.1 * torch.randn_like(weight))
    model.save_pretrained(folder, max_shard_size="40KB")
    return lambda ids: model.eval()(torch.tensor([ids]), use_cache=False).logits[0].detach().numpy()


@fact
def greedy_continuations_are_those_of_transformers(workshop):
    transformers = the_library()
    end, prompt, count = 256, "The ship", 64
    for family in MODELS if transformers else ():
        if family not in transformers.CONFIG_MAPPING:
            note(f"{family}: not in transformers {transformers.__version__}")
            continue
        # transformers changes Phi-3's frequencies in the middle of a text
        changes = {"rope_scaling": None} if family == "phi3" else {}
        judge = saved_by_transformers(transformers, workshop / family, family, vocab_size=end + 1,
                                      max_position_embeddings=128, **changes)
        eos = json.loads((workshop / family / "config.json").read_text()).get("eos_token_id")
        stops = {end, *(eos if isinstance(eos, list) else [eos])}
        ids = list(prompt.encode())
        while len(ids) < len(prompt) + count:
            ids.append(int(judge(ids)[-1].argmax()))
            if ids[-1] in stops:
                ids.pop()
                break
        expected = bytes(ids).decode(errors="replace")
        out = workshop.run("generate", family, "--tokenizer=bytes", "--prompt", prompt,
                           f"--max-tokens={count}", "--temperature=0").done().out
        check(out == expected + "\n", family, out, expected)
        note(f"{family}: the same {len(ids) - len(prompt)} tokens")


@fact
def what_transformers_saved_is_imported(workshop):
    transformers = the_library()
    for family in MODELS if transformers else ():
        if family not in transformers.CONFIG_MAPPING:
            note(f"{family}: not in transformers {transformers.__version__}")
            continue
        judge = saved_by_transformers(transformers, workshop / family, family)
        workshop.run("checkpoint", "import", family, "--output", f"{family}-run").done()
        workshop.run("checkpoint", "export", f"{family}-run", "--output", f"{family}-out",
                     "--logits", "logits.json").done()
        dumped = json.loads((workshop / "logits.json").read_text())
        expected = judge(dumped["ids"])
        worst = np.abs(np.array(dumped["logits"]) - expected).max()
        note(f"{family}: logits within {worst:.1e} of at most {np.abs(expected).max():.2f}")
        check(worst < 1e-5 * max(1, np.abs(expected).max()), family, worst)


@fact
def a_run_from_an_export_is_the_run_from_the_checkpoint(workshop):
    workshop.corpus(words=2000)
    for family in "gpt2", "qwen3":
        run = config(workshop, family, MODELS[family])
        workshop.run("train", run).done()
        folder, _ = exported(workshop, family)
        for name, source in ("a", workshop / family), ("b", folder):
            again = config(workshop, family + name, MODELS[family])
            workshop.run("train", again, f"--checkpoint.initial_load_path={source}").done()
        check(curve(workshop / f"{family}a") == curve(workshop / f"{family}b"), "other losses")
        started = [events(workshop / (family + name), "start")[0] for name in "ab"]
        check(started[0]["weights"] == started[1]["weights"], started)
        check(started[1]["weights_from"] == str(folder), started[1])
    four = config(workshop, "four", MODELS["gpt2"])
    workshop.run_ranks(4, "train", four, "--parallelism.tensor=2", "--parallelism.data_shard=2",
                       "--parallelism.zero=3",
                       f"--checkpoint.initial_load_path={workshop / 'gpt2-hf'}").done()
    check(events(workshop / "four", "start")[0]["weights"] ==
          events(workshop / "gpt2a", "start")[0]["weights"], "other weights on four ranks")


@fact
def an_import_is_a_checkpoint_like_others(workshop):
    workshop.corpus(words=2000)
    workshop.run("train", config(workshop, "run", MODELS["llama"])).done()
    folder, _ = exported(workshop, "run")
    workshop.run("checkpoint", "import", folder, "--output", "imported").done()
    workshop.run("checkpoint", "verify", "imported").done()
    diff = workshop.run("checkpoint", "diff", "run", "imported").out
    check("elements differ" not in diff and "model/" not in diff, diff)
    losses = [re.search(r"^loss .+", workshop.run(
        "eval", model, "--data", "corpus", "--seq-len=16", "--samples=8",
        "--threads=1").done().out, re.MULTILINE)[0] for model in ("run", folder, "imported")]
    note(losses)
    check(len(set(losses)) == 1, losses)
    again, _ = exported(workshop, "imported")
    check((again / "model.safetensors").read_bytes() ==
          (folder / "model.safetensors").read_bytes(), "another export")
    start = config(workshop, "onwards", MODELS["llama"])
    for source in workshop / "imported", folder:
        workshop.run("train", start, f"--checkpoint.initial_load_path={source}",
                     f"--job.dump_folder={source.name}-onwards").done()
    check(curve(workshop / "imported-onwards") == curve(workshop / "run-hf-onwards"), "losses")
    shown = workshop.run("config", "from-hf", folder).done().out
    (workshop / "from.toml").write_text(
        shown + '[data]\ntrain = [{ path = "corpus" }]\n[job]\nthreads = 1\n')
    workshop.run("train", "from.toml", "--training.steps=1", "--training.seq_len=16").done()


@fact
def an_export_that_fails_leaves_nothing(workshop):
    workshop.corpus(words=2000)
    workshop.run("train", config(workshop, "run", MODELS["qwen2"])).done()
    folder, told = exported(workshop, "run", "--dtype=bfloat16")
    check("rounding to bfloat16 changed them" in told["check"], told)
    words = ["checkpoint", "export", "run", "--output"]
    before = sorted(workshop.folder.iterdir())
    workshop.run(*words, folder).refused(2, "exists already")
    workshop.run(*words, "small", "--memory=1MB").refused(2, "--memory")
    workshop.run(*words, "other", "--tokenizer=absent.model").refused(3, "absent.model")
    workshop.run("checkpoint", "export", folder, "--output", "twice").refused(4, "already")
    workshop.run("checkpoint", "import", "run", "--output", "x").refused(4, "config.json")
    shard = next(checkpoint(workshop / "run", 2).glob("shard-*"))
    tensor = json.loads((shard.parent / "manifest.json").read_text())["tensors"][-1]
    check(tensor["name"].startswith("model/"), tensor)
    with open(shard, "r+b") as file:
        file.seek(tensor["rectangles"][0]["offset"])
        file.write(b"x")
    workshop.run(*words, "other").refused(4, "damaged", tensor["name"])
    check(sorted(workshop.folder.iterdir()) == before, sorted(workshop.folder.iterdir()))


@fact
def a_model_that_computes_otherwise_is_refused(workshop):
    workshop.corpus(words=2000)
    run = config(workshop, "run", MODELS["qwen2"])
    workshop.run("train", run).done()
    folder, _ = exported(workshop, "run")
    text = json.loads((folder / "config.json").read_text())
    fewer = {"num_hidden_layers": 3, "layer_types": text["layer_types"][:3]}
    load = ["train", run, "--job.dump_folder=new", f"--checkpoint.initial_load_path={folder}"]
    for change, *words in [
            ({"attention_chunk_size": 4}, "attention_chunk_size = 4", "not implemented"),
            ({"rope_scaling": {"rope_type": "mrope", "factor": 4.0}}, 'rope_type = "mrope"'),
            ({"rope_theta": 5e5}, "model.rope_theta"),
            (fewer, "model.num_hidden_layers: 3 -> 4")]:
        (folder / "config.json").write_text(json.dumps({**text, **change}))
        workshop.run(*load).refused(4, *words)
    (folder / "config.json").write_text(json.dumps({**text, **fewer}))
    workshop.run("checkpoint", "import", folder, "--output", "x").refused(
        4, "layers.3", "is unexpected for this qwen2")
    (folder / "config.json").write_text(json.dumps({**text, "vocab_size": 300}))
    workshop.run("generate", folder, "--tokenizer=bytes").refused(4, "[288, 32]", "[300, 32]")


def mebibytes(text):
    number, unit = text.split()
    return float(number) * {"KiB": 1 / 1024, "MiB": 1, "GiB": 1024}[unit]


@fact
def memory_does_not_grow_with_the_model(workshop):
    workshop.corpus(words=2000)
    peaks, sizes = [], []
    for vocab in 20_000, 60_000:
        model = {**MODELS["llama"], "vocab_size": vocab, "hidden_size": 128,
                 "num_hidden_layers": 2}
        run = config(workshop, f"run-{vocab}", model)
        workshop.run("train", run, "--training.steps=1", "--training.global_batch_size=1").done()
        sizes.append(vocab * 128 * 2 * 4 / 2**20)
        for memory, words in ("40MB", "logits would need"), ("1GB", "so do the logits"):
            _, told = exported(workshop, f"run-{vocab}", f"--memory={memory}")
            check(words in told["check"], told)
            note(f"{sizes[-1]:.0f} MiB of weights: peak {told['peak']}, memory {told['memory']}")
            planned, own = re.fullmatch(r"at most (.+) in addition to (.+) of the program",
                                        told["memory"]).groups()
            check(mebibytes(told["peak"]) < mebibytes(planned) + mebibytes(own), told)
            if memory == "40MB":
                peaks.append(mebibytes(told["peak"]))
            shutil.rmtree(workshop / f"run-{vocab}-hf")
    slope = (peaks[1] - peaks[0]) / (sizes[1] - sizes[0])
    check(slope < 0.1, "MiB a MiB:", slope)


if __name__ == "__main__":
    main()
