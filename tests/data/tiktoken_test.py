#!/usr/bin/python3
"""Ids of `trireme tokenize` of tiktoken files against the package tiktoken (PyPI), with patterns and
special tokens of Llama 3 (as Meta's reference loader has them), cl100k_base and o200k_base.

usage: tiktoken_test.py TRIREME [FOLDER_OF_PYPI [MEGABYTES]]; exit code 77: skipped
With MEGABYTES the corpus is as large as that, and every Unicode scalar is in it.
"""
import base64
import json
import os
import pathlib
import random
import sys
import tempfile

sys.path[:0] = sys.argv[2:3]
os.environ["TOKENIZERS_PARALLELISM"] = "false"
try:
    import tiktoken
    import tiktoken_ext.openai_public as openai
    import tokenizers
    from tokenizers import models, pre_tokenizers, trainers
except ImportError:
    print("skipped: needs tiktoken and tokenizers (PyPI); scripts/setup test fetches them")
    sys.exit(77)

from odd_text import (SPECIAL, adversarial, check, check_text_comes_back, corpus, tokenized,
                      write_lines)

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def train(texts):
    """Tokens in bytes, by rank: the bytes first, then the merges."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.train_from_iterator((text[:5000] for text in texts[:200]),
                             trainers.BpeTrainer(vocab_size=1500, show_progress=False,
                                                 initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    alphabet = [chr(b) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b else None for b in range(256)]
    others = iter(range(256, 512))
    byte_of = {character or chr(next(others)): byte for byte, character in enumerate(alphabet)}
    words = sorted(made.get_vocab(), key=made.get_vocab().get)
    tokens = [bytes(byte_of[character] for character in word) for word in words]
    return [bytes([byte]) for byte in range(256)] + [token for token in tokens if len(token) > 1]


def llama3_specials(ranks):
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
             "<|reserved_special_token_1|>", "<|reserved_special_token_2|>",
             "<|reserved_special_token_3|>", "<|start_header_id|>", "<|end_header_id|>",
             "<|reserved_special_token_4|>", "<|eot_id|>"]
    names += [f"<|reserved_special_token_{i}|>" for i in range(5, 256 - 5)]
    return {name: ranks + i for i, name in enumerate(names)}


def of_openai(constructor, ranks):
    """The pattern and the special tokens of an encoding, without its file from the network."""
    loaded, openai.load_tiktoken_bpe = openai.load_tiktoken_bpe, lambda *_, **__: {}
    try:
        encoding = constructor()
    finally:
        openai.load_tiktoken_bpe = loaded
    published = {"cl100k_base": 100256, "o200k_base": 199998}[encoding["name"]]
    return encoding["pat_str"], {token: id - published + ranks
                                 for token, id in encoding["special_tokens"].items()}


def main():
    trireme = sys.argv[1]
    texts = corpus(float(sys.argv[3]) if len(sys.argv) > 3 else 0.3)
    texts += [f"{token}a {token} b" for token in (*SPECIAL, "<|end_of_text|>", "<|eot_id|>",
                                                  "<|reserved_special_token_250|>", "<|fim_middle|>")]
    texts += ["end  \n  ", "end \r\n\t", "HTTPServer's IT'S caf\u00e9//\n\n"]
    rng = random.Random(7)
    texts += [adversarial(rng)[: rng.randrange(1, 40)] for _ in range(1500)]
    tokens = train(texts)
    ranks = {token: rank for rank, token in enumerate(tokens)}
    encodings = {"llama3": (LLAMA3, llama3_specials(len(ranks))),
                 "cl100k_base": of_openai(openai.cl100k_base, len(ranks)),
                 "o200k_base": of_openai(openai.o200k_base, len(ranks))}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        lines = folder / "in.jsonl"
        write_lines(lines, texts)
        for style, (pattern, special) in encodings.items():
            path = folder / style / "tokenizer.model"
            path.parent.mkdir()
            path.write_text("".join(f"{base64.b64encode(token).decode()} {rank}\n"
                                    for token, rank in ranks.items()))
            if style != "llama3":
                (path.parent / "tiktoken.json").write_text(json.dumps({"encoding": style}))
            judge = tiktoken.Encoding(style, pat_str=pattern, mergeable_ranks=ranks,
                                      special_tokens=special)

            def encode(text, judge=judge):
                return judge.encode(text, allowed_special="all")

            check(tokenized(trireme, path, path.parent / "set", lines), texts,
                  [encode(text) for text in texts], style)
            whole = "".join(text for text in texts if not any(token in text for token in special))
            check_text_comes_back(trireme, path, path.parent, whole, encode)


main()
