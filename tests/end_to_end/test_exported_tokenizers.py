#!/usr/bin/python3
"""Tokenizers and ids of special tokens in exports, compared with those of training."""
import base64
import json
import shutil
import subprocess
import sys

from checks import ROOT, Skip, check, note
from corpora import made_up_text, np
from facts import fact, main
from hugging_face_models import LIBRARIES, MODELS, config, exported, the_library


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
