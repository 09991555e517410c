#!/usr/bin/python3
"""Ids and decoded text of `trireme` against Hugging Face's `tokenizers` (PyPI) for BPE of characters
with a fallback to bytes, in the forms of Llama 2, Mistral, Gemma and Phi-3, trained here.

usage: character_bpe_test.py TRIREME [FOLDER_OF_PYPI [MEGABYTES]]; exit code 77: skipped
With MEGABYTES the corpus is as large as that, and every Unicode scalar is in it.
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path[:0] = sys.argv[2:3]
os.environ["TOKENIZERS_PARALLELISM"] = "false"
try:
    import tokenizers
    from tokenizers import models, pre_tokenizers, trainers
except ImportError:
    print("skipped: needs tokenizers (PyPI); scripts/setup test fetches it")
    sys.exit(77)

from odd_text import SPECIAL, adversarial, check, corpus, tokenized, write_lines

MARK = "\u2581"


def replace(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


def sequence(kind, *parts):
    return {"type": "Sequence", kind: list(parts)}


PREPEND = {"type": "Prepend", "prepend": MARK}
MARK_SPACES = replace({"String": " "}, MARK)
SPACES = replace({"String": MARK}, " ")
FALLBACK, FUSE = {"type": "ByteFallback"}, {"type": "Fuse"}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
PREFIXED_DECODER = sequence("decoders", SPACES, FALLBACK, FUSE, STRIP)
GEMMA_DECODER = sequence("decoders", SPACES, FALLBACK, FUSE)


def metaspace(scheme, split, **more):
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": split, **more}


def style(normalizer, pre_tokenizer, decoder, added=({},), model=()):
    return {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "decoder": decoder,
            "added": added, "model": dict(model)}


GEMMA_SPLIT = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
               "invert": False}
STYLES = {
    "llama2": style(sequence("normalizers", PREPEND, MARK_SPACES), None, PREFIXED_DECODER),
    "mistral_v0.3": style(None, metaspace("first", False), PREFIXED_DECODER),
    "gemma": style(MARK_SPACES, None, GEMMA_DECODER, [{}, {"content": "\n\n"}, {"content": 2 * MARK}]),
    "gemma3": style(MARK_SPACES, GEMMA_SPLIT, GEMMA_DECODER, [{}, {"content": "\n\n"}]),
    "phi3": style(sequence("normalizers", PREPEND, MARK_SPACES), None, PREFIXED_DECODER,
                  [{"rstrip": True}, {"content": "<|", "rstrip": True}]),
    "metaspace_always": style(None, metaspace("always", True), metaspace("always", True)),
    "metaspace_never": style(None, metaspace("never", True), metaspace("never", True)),
    "metaspace_ignore_merges": style(None, metaspace("first", True, add_prefix_space=True),
                                     metaspace("first", True), model={"ignore_merges": True}),
    "whole_ignore_merges": style(MARK_SPACES, None, GEMMA_DECODER, model={"ignore_merges": True}),
    "merged_with_previous": style(None, GEMMA_SPLIT, GEMMA_DECODER),
    "nfc_and_regex": style(
        sequence("normalizers", {"type": "NFC"}, replace({"Regex": " {2,}"}, " "),
                 replace({"Regex": r"\p{Nd}"}, "0"), MARK_SPACES), None, GEMMA_DECODER),
    "normalized_tokens": style(sequence("normalizers", PREPEND, MARK_SPACES), None, PREFIXED_DECODER,
                               [{"normalized": True, "lstrip": True}, {"content": "_x", "normalized": True}]),
    "fused_unknown": style(MARK_SPACES, None, GEMMA_DECODER,
                           model={"byte_fallback": False, "fuse_unk": True}),
    "unknown": style(MARK_SPACES, None, GEMMA_DECODER,
                     model={"byte_fallback": False, "fuse_unk": False}),
    "some_bytes": style(MARK_SPACES, None, GEMMA_DECODER, model={"lost_bytes": True}),
    "dropped": style(MARK_SPACES, None, GEMMA_DECODER,
                     model={"byte_fallback": False, "unk_token": None}),
}


def train(texts):
    """Vocabulary and merges: special tokens, bytes, characters of ASCII and a few more, merges."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    few = [text[:5000] for text in texts[:200] if text.isascii()]
    few += 50 * ["d\u00e9j\u00e0 vu, \u6f22\u5b57\u3000\u304b\u306a; \u043c\u0438\u0440"]
    made.train_from_iterator(few, trainers.BpeTrainer(vocab_size=1200, show_progress=False))
    model = json.loads(made.to_str())["model"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    # newline and tab have byte tokens only, as in Llama 2; one merge joins two words
    left_out = {"\t", "\r", "\x00"}
    merges = [pair for pair in model["merges"]
              if not left_out & set("".join(pair)) and "\n" not in "".join(pair)]
    words = [token for token in sorted(model["vocab"], key=model["vocab"].get)
             if not left_out & set(token) and "\n" not in token]
    words += [2 * MARK, 4 * MARK, "e" + MARK, MARK + "\u00e9"]
    merges = [[MARK, MARK], [2 * MARK, 2 * MARK], ["e", MARK], *merges, [MARK, "\u00e9"]]
    tokens += [word for word in dict.fromkeys(words) if word not in tokens]
    return {token: id for id, token in enumerate(tokens)}, merges


def make(name, vocabulary, merges, path, as_text):
    spec = STYLES[name]
    vocabulary = dict(vocabulary)
    model = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True,
             "ignore_merges": False, **spec["model"]}
    if model.pop("lost_bytes", False):
        vocabulary = {token.replace("<0xE", "<0yE"): id for token, id in vocabulary.items()}
    if name.startswith("gemma"):  # has tokens of newlines
        vocabulary["\n"] = len(vocabulary)
        vocabulary["\n\n"] = len(vocabulary)
        merges = [["\n", "\n"], *merges]
    model["vocab"] = vocabulary
    model["merges"] = [" ".join(pair) for pair in merges] if as_text else merges
    added = [{"content": token} for token in ("<unk>", "<s>", "</s>")]
    added += [{"content": SPECIAL[0], **spec["added"][0]}, {"content": SPECIAL[1]}, *spec["added"][1:]]
    ids = dict(vocabulary)
    entries = []
    for token in added:
        id = ids.setdefault(token["content"], len(ids))
        entries.append({"id": id, "single_word": False, "lstrip": False, "rstrip": False,
                        "normalized": False, "special": True, **token})
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": sorted(entries, key=lambda token: token["id"]),
        "normalizer": spec["normalizer"], "pre_tokenizer": spec["pre_tokenizer"],
        "post_processor": None, "decoder": spec["decoder"], "model": model}))
    return tokenizers.Tokenizer.from_file(str(path))


def shown(trireme, prefix, document):
    out = subprocess.run([trireme, "data", "show", prefix, "--document", str(document)], check=True,
                         stdout=subprocess.PIPE).stdout
    return out.split(b"\n---\n", 1)[1][:-1]


def check_decoded(trireme, prefix, made, text, number):
    """`data show` gives the library's text."""
    ids = made.encode(text, add_special_tokens=False).ids
    end = made.token_to_id(SPECIAL[0])  # an end of document has no text here
    want = made.decode([id for id in ids if id != end], skip_special_tokens=False)
    got = shown(trireme, prefix, number)
    assert got == want.encode(), (prefix, number, got[:300], want[:300])


def main():
    trireme = sys.argv[1]
    rng = random.Random(5)
    texts = corpus(float(sys.argv[3]) if len(sys.argv) > 3 else 0.3)
    texts += [MARK.join(text.split(" ", 5)) for text in texts[:40]]
    texts += ["", " ", "  ", "<s>", "a<s>b", "a<s> b", " <s>  b", "</s>", "\u00e9", SPECIAL[0] + " x"]
    texts += [adversarial(rng)[: rng.randrange(1, 40)] for _ in range(1000)]
    texts = [text for text in texts if text]
    vocabulary, merges = train(texts)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        lines = folder / "in.jsonl"
        write_lines(lines, texts)
        for number, kind in enumerate(STYLES):
            path = folder / kind / "tokenizer.json"
            made = make(kind, vocabulary, merges, path, as_text=number % 2 == 0)

            def encode(text, made=made):
                return made.encode(text, add_special_tokens=False).ids

            check(tokenized(trireme, path, path.parent / "set", lines), texts,
                  [encode(text) for text in texts], kind)
            # tokenizers 0.23 decodes a normalized token in its normalized form, older ones as it is
            decodes = kind != "normalized_tokens"
            for document in rng.sample(range(len(texts)), 3 if decodes else 0):
                check_decoded(trireme, path.parent / "set", made, texts[document], document)
            whole = path.parent / "whole.txt"
            text = "".join(texts)
            whole.write_bytes(text.encode())
            check(tokenized(trireme, path, path.parent / "whole", whole), [text], [encode(text)],
                  f"{kind}, one document")
            if decodes:
                check_decoded(trireme, path.parent / "whole", made, text, 0)


main()
