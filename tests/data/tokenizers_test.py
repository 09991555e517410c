#!/usr/bin/python3
"""Ids of `trireme tokenize` against Hugging Face's `tokenizers` (PyPI) on vocabularies trained here:
GPT-2's, Llama 3's and Qwen2's style and with a pattern of line ends, merges in both forms.

usage: tokenizers_test.py TRIREME [FOLDER_OF_PYPI [MEGABYTES]]; exit code 77: skipped
With MEGABYTES the corpus is as large as that, and every Unicode scalar is in it.
"""
import json
import os
import pathlib
import sys
import tempfile

sys.path[:0] = sys.argv[2:3]
os.environ["TOKENIZERS_PARALLELISM"] = "false"
try:
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers
except ImportError:
    print("skipped: needs tokenizers (PyPI); scripts/setup test fetches it")
    sys.exit(77)

from odd_text import SPECIAL, check, check_text_comes_back, corpus, tokenized, write_lines

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
PATTERNS = {"gpt2": None, "llama3": LLAMA3, "qwen2": LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}"),
            "line_ends": r"\s?[A-Za-z]+|[ \t]+$|\s+$"}


def train(style, texts):
    made = tokenizers.Tokenizer(models.BPE(ignore_merges=style == "llama3"))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=style == "gpt2")
    pattern = PATTERNS[style]
    made.pre_tokenizer = byte_level if pattern is None else pre_tokenizers.Sequence(
        [pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated"), byte_level])
    if style == "qwen2":
        made.normalizer = normalizers.NFC()
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(
        (text[:5000] for text in texts[:200]),
        trainers.BpeTrainer(vocab_size=1500, special_tokens=SPECIAL, show_progress=False,
                            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return made


def with_old_merges(path):
    """The same file with merges as "a b" instead of ["a", "b"]."""
    content = json.loads(path.read_text())
    content["model"]["merges"] = [" ".join(pair) for pair in content["model"]["merges"]]
    old = path.parent / "old" / path.name
    old.parent.mkdir(exist_ok=True)
    old.write_text(json.dumps(content))
    return old


def main():
    trireme = sys.argv[1]
    texts = corpus(float(sys.argv[3]) if len(sys.argv) > 3 else 0.3)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        lines = folder / "in.jsonl"
        write_lines(lines, texts)
        for style in PATTERNS:
            made = train(style, texts)
            path = folder / style / "tokenizer.json"
            path.parent.mkdir()
            made.save(str(path))

            def encode(text, made=made):
                return made.encode(text, add_special_tokens=False).ids

            expected = [encode(text) for text in texts]
            for form in (path, with_old_merges(path)):
                check(tokenized(trireme, form, form.parent / "set", lines), texts, expected, style)
            whole = "".join(text for text, ids in zip(texts, expected) if 0 not in ids)
            if made.normalizer:
                whole = made.normalizer.normalize_str(whole)
            check_text_comes_back(trireme, path, path.parent, whole, encode)


main()
