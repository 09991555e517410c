#!/usr/bin/python3
"""Hugging Face models out of checkpoints of every layout, and runs that start from them."""
import base64
import json
import pathlib
import re
import shutil
import subprocess
import sys

from support import (ROOT, Skip, check, checkpoint, curve, events, fact, main, made_up_text, note,
                     np)

SIZES = {"vocab_size": 288, "num_hidden_layers": 4, "num_attention_heads": 4,
         "max_position_embeddings": 64, "hidden_size": 32}
GROUPED = {**SIZES, "intermediate_size": 72, "num_key_value_heads": 2}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
MODELS = {
    "gpt2": SIZES,
    "llama": {**GROUPED,
              "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                               "high_freq_factor": 4.0,
                               "original_max_position_embeddings": 32}},
    "mistral": {**GROUPED, "head_dim": 16, "sliding_window": 5},
    "qwen2": {**GROUPED, "tie_word_embeddings": True},
    "qwen3": {**GROUPED, "head_dim": 16},
    "smollm3": GROUPED,
    "phi3": {**GROUPED, "sliding_window": 5, "partial_rotary_factor": 0.5,
             "rope_scaling": {"rope_type": "longrope", "short_factor": [1.0, 1.5],
                              "long_factor": [1.5, 4.0], "original_max_position_embeddings": 32}},
    "granite": {**GROUPED, "embedding_multiplier": 3.0, "attention_multiplier": 0.3,
                "residual_multiplier": 0.5, "logits_scaling": 2.5},
    "olmo2": GROUPED,
    "olmo3": {**GROUPED, "sliding_window": 5,
              "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 8.0,
                               "original_max_position_embeddings": 16}},
    "gemma2": {**GROUPED, "head_dim": 16, "sliding_window": 5, "query_pre_attn_scalar": 24,
               "attn_logit_softcapping": 3.0, "final_logit_softcapping": 2.0},
    "gemma3_text": {**GROUPED, "head_dim": 16, "sliding_window": 5,
                    "layer_types": ["sliding_attention", "sliding_attention", "full_attention",
                                    "sliding_attention"],
                    "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
    "glm4": {**GROUPED, "head_dim": 16},
    "mixtral": {**SIZES, **EXPERTS, "num_key_value_heads": 2},
    "olmoe": {**SIZES, **EXPERTS},
    "qwen3_moe": {**GROUPED, **EXPERTS, "head_dim": 16, "mlp_only_layers": [1]},
    "gpt_oss": {**SIZES, **EXPERTS, "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 5,
                "swiglu_limit": 1.5,
                "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 8.0,
                                 "truncate": False, "original_max_position_embeddings": 16}},
    "glm4_moe": {**GROUPED, **EXPERTS, "head_dim": 16, "num_experts": 8, "n_group": 4,
                 "topk_group": 2, "routed_scaling_factor": 2.5, "qk_norm": True,
                 "router_bias_update_rate": 0.01},
}
MODELS = {family: {**model, "model_type": family} for family, model in MODELS.items()}
EIGHT = ["--parallelism.tensor=2", "--parallelism.pipeline=2", "--parallelism.data_shard=2",
         "--parallelism.zero=3"]


def config(workshop, name, model, changes=None):
    return workshop.config(name, changes, {
        "job": {"threads": 1}, "model": model,
        "data": {"train": [{"path": "corpus"}], "tokenizer": "bytes"},
        "training": {"seq_len": 16, "local_batch_size": 1, "global_batch_size": 4, "steps": 2},
        "optimizer": {"lr": 1e-2}, "lr_scheduler": {"warmup_steps": 0}})


def exported(workshop, run, *options):
    """The export's folder and what was printed of it, by the first word of the line."""
    folder = f"{run}-hf"
    out = workshop.run("checkpoint", "export", run, "--output", folder, *options).done().out
    return workshop / folder, dict(re.findall(r"^(\w+) +(.+)$", out, re.MULTILINE))


sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "parity"))


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


# Of versions for which PyTorch here is too old: their classes check the fields' types.
LIBRARIES = [ROOT / "build" / name for name in ("transformers_4.57", "transformers_5")]
READ_CONFIGS = """
import sys
sys.path.insert(0, sys.argv[1])
import transformers
for folder in sys.argv[2:]:
    print(type(transformers.AutoConfig.from_pretrained(folder)).__name__)
"""


def the_library():
    """transformers, or nothing: what is compared with it is one side of this file's facts."""
    import library
    found = library.transformers()
    if not found:
        note("not compared: transformers is not installed; scripts/setup test fetches it")
    return found


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
def the_bytes_tokenizer_speaks_as_transformers_does(workshop):
    workshop.corpus(words=2000)
    workshop.run("train", config(workshop, "run", MODELS["qwen2"])).done()
    folder, told = exported(workshop, "run")
    check(told["tokenizer"] == "bytes", told)
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    check(sorted(vocabulary.values()) == list(range(256)) and vocabulary["A"] == 65, vocabulary)
    transformers = the_library()
    if not transformers:
        return
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for text in ("", "the ship", " \n\t\r  two ", "déjà vu, 漢字 🙂\u00ad\x7f",
                 "".join(map(chr, range(256)))):
        ids = tokenizer.encode(text, add_special_tokens=False)
        check(ids == list(text.encode()), repr(text), ids)
        check(tokenizer.decode(ids) == text, repr(text), tokenizer.decode(ids))
    check(tokenizer.eos_token_id == 256, tokenizer.eos_token_id)


SPEAK = """
import json, sys
sys.path.insert(0, sys.argv[1])
import transformers
texts = json.load(open(sys.argv[3]))
tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[2])
print(json.dumps({"version": transformers.__version__, "ids": [tokenizer.encode(t) for t in texts],
                  "class": type(tokenizer).__name__, "end": tokenizer.eos_token_id}))
"""


def spoken(workshop, library, folder, texts):
    """The ids of each text by the tokenizer of an export, of one version of transformers."""
    (workshop / "texts.json").write_text(json.dumps(texts))
    done = subprocess.run([sys.executable, "-B", "-c", SPEAK, library, folder,
                           workshop / "texts.json"], capture_output=True, check=False, text=True,
                          env={**workshop.env, "HF_HUB_OFFLINE": "1"})
    check(done.returncode == 0, done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def ids_of_training(workshop, tokenizer, texts):
    """Of each text, as `tokenize` writes them."""
    (workshop / "in.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    workshop.run("tokenize", "--tokenizer", tokenizer, "--output", "ids", "in.jsonl").done()
    ids = np.fromfile(workshop / "ids.bin", "<u2").tolist()
    starts = np.frombuffer((workshop / "ids.idx").read_bytes()[34:], "<i4", len(texts)).tolist()
    ends = np.cumsum(starts).tolist()
    return [ids[end - length:end] for end, length in zip(ends, starts)]


def foreign_models(workshop):
    """SentencePiece models as others train them, if the library is there: (name, family, file)."""
    library = ROOT / "build/pypi"
    if not (library / "sentencepiece").exists():
        note("no build/pypi: no SentencePiece models of others")
        return []
    sys.path.insert(0, str(library))
    import sentencepiece
    text = [json.loads(line)["text"] for line in
            (workshop / "corpus.jsonl").read_text().splitlines()]
    for kind in "unigram", "bpe":
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text), model_prefix=str(workshop / kind), model_type=kind,
            vocab_size=320, hard_vocab_limit=False, byte_fallback=True, minloglevel=2,
            normalization_rule_name="identity", add_dummy_prefix=True,
            remove_extra_whitespaces=False)
    return [(kind, "llama", f"{kind}.model") for kind in ("unigram", "bpe")]


def character_files(workshop):
    """Files in the forms of Llama 2 and Gemma, of words of the corpus: (name, family, file)."""
    mark, words = "\u2581", ["th", "the", "an", "on", "er"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), mark, 2 * mark,
              *map(chr, range(33, 127)), *words, mark + "th", mark + "the"]
    merges = [[mark, mark], *([word[:-1], word[-1]] for word in words), [mark, "th"],
              [mark + "th", "e"]]
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": mark}
    prepend = {"type": "Prepend", "prepend": mark}
    decoders = [{"type": "Replace", "pattern": {"String": mark}, "content": " "},
                {"type": "ByteFallback"}, {"type": "Fuse"}]
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    gemma = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
             "invert": False}
    metaspace = {"type": "Metaspace", "replacement": mark, "prepend_scheme": "first", "split": False}
    files = {"llama2": ({"type": "Sequence", "normalizers": [prepend, spaces]}, None, [strip]),
             "mistral": (None, metaspace, [strip]), "gemma": (spaces, gemma, [])}
    for name, (normalizer, pre_tokenizer, last) in files.items():
        (workshop / name).mkdir()
        (workshop / name / "tokenizer.json").write_text(json.dumps({
            "version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": id, "content": tokens[id], "single_word": False, "lstrip": False,
                              "rstrip": False, "normalized": False, "special": True}
                             for id in range(3)],
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": None,
            "decoder": {"type": "Sequence", "decoders": decoders + last},
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "fuse_unk": True,
                      "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "byte_fallback": True, "ignore_merges": False,
                      "vocab": {token: id for id, token in enumerate(tokens)}, "merges": merges}}))
    (workshop / "meta").mkdir()
    ranks = [*(bytes([byte]) for byte in range(256)), *(word.encode() for word in words), b" the"]
    (workshop / "meta/tokenizer.model").write_text("".join(
        f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(ranks)))
    return [*((f"{name}-form", "llama", f"{name}/tokenizer.json") for name in files),
            ("tiktoken", "llama", "meta/tokenizer.model")]


@fact
def an_exported_tokenizer_gives_transformers_the_ids_of_training(workshop):
    libraries = [library for library in LIBRARIES if library.exists()]
    if not libraries:
        raise Skip("no build/transformers_4.57 and no build/transformers_5; "
                   "scripts/setup test fetches them")
    workshop.corpus(words=2000)
    texts = [*made_up_text(3, 400).splitlines(), "the ship", " the  ship\n\n of 1234 oars ",
             "d\u00e9j\u00e0 vu, \u6f22\u5b57 \U0001f642", "\t\r\n x", "don't stop; we'll 10,000"]
    workshop.run("tokenize", "--train-sentencepiece", "320", "--output", "pieces.model",
                 "corpus.jsonl").done()
    workshop.run("train", config(workshop, "first", MODELS["llama"])).done()
    first, _ = exported(workshop, "first")
    (workshop / "foreign").mkdir()
    shutil.copy(first / "tokenizer.json", workshop / "foreign")  # as such a file comes alone
    wrong = []
    for name, family, tokenizer in (("pieces", "llama", "pieces.model"),
                                    ("json", "llama", "foreign/tokenizer.json"),
                                    ("json3", "qwen3", "foreign/tokenizer.json"),
                                    *character_files(workshop), *foreign_models(workshop)):
        run = config(workshop, name, {**MODELS[family], "vocab_size": 600},
                     {"data": {"tokenizer": workshop / tokenizer}})
        expected = ids_of_training(workshop, tokenizer, texts)
        workshop.run("tokenize", "--tokenizer", tokenizer, "--output", "corpus",
                     "corpus.jsonl").done()
        workshop.run("train", run).done()
        folder, _ = exported(workshop, name)
        end = json.loads((folder / "config.json").read_text())["eos_token_id"]
        for library in libraries:
            got = spoken(workshop, library, folder, texts)
            ends = [expected_ids[-1] == end for expected_ids in expected]
            check(all(ends), "a document without its end", expected[0], end)
            other = [text for text, mine, theirs in zip(texts, expected, got["ids"])
                     if mine[:-1] != theirs]
            note(f"{name}: transformers {got['version']}, {got['class']}: "
                 f"{len(other)} of {len(texts)} texts have other ids")
            if other or got["end"] != end:
                wrong.append((name, got["version"], other[:2], got["end"], end))
    check(not wrong, wrong)


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


@fact
def ids_that_begin_and_end_a_text_survive_import_and_export(workshop):
    workshop.corpus()
    trained = config(workshop, "trained", MODELS["llama"],
                     {"job": {"dump_folder": str(workshop / "trained")}})
    workshop.run("train", trained).done()
    folder, _ = exported(workshop, "trained")
    said = {name: json.loads((folder / name).read_text())
            for name in ("config.json", "generation_config.json")}
    for of in said.values():  # the end of a document, which the first one follows too
        check(of["bos_token_id"] == of["eos_token_id"] == 256, of)
    for eos in ([7], [2, 7]):
        foreign = dict(said["config.json"], bos_token_id=1, eos_token_id=eos if eos[1:] else eos[0])
        (folder / "config.json").write_text(json.dumps(foreign))
        name = f"imported-{len(eos)}"
        workshop.run("checkpoint", "import", folder, "--output", name).done()
        again, told = exported(workshop, name)
        check(told["tokenizer"].startswith("unknown"), told)
        for file in said:
            of = json.loads((again / file).read_text())
            check(of["bos_token_id"] == 1, file, of)
            check(of["eos_token_id"] == foreign["eos_token_id"], file, of)


if __name__ == "__main__":
    main()
