#!/usr/bin/python3
"""Ids of `trireme tokenize` against the PyPI package sentencepiece: a unigram model that `trireme`
has trained, and a BPE model with a space before each text, as Llama 2 has.

usage: sentencepiece_test.py TRIREME [FOLDER_OF_PYPI [MEGABYTES]]; exit code 77: skipped
With MEGABYTES the corpus is as large as that, and every Unicode scalar is in it.
"""
import io
import pathlib
import subprocess
import sys
import tempfile

sys.path[:0] = sys.argv[2:3]
try:
    import sentencepiece
except ImportError:
    print("skipped: needs sentencepiece (PyPI); scripts/setup test fetches it")
    sys.exit(77)

from odd_text import check, check_text_comes_back, corpus, tokenized, write_lines


def train_unigram(trireme, path, lines):
    subprocess.run([trireme, "tokenize", "--train-sentencepiece", "1500", "--output", path, lines],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def train_bpe(path, texts):
    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=made, model_type="bpe", vocab_size=1500,
        byte_fallback=True, normalization_rule_name="identity", split_digits=True,
        remove_extra_whitespaces=False, allow_whitespace_only_pieces=True,
        max_sentence_length=20000, minloglevel=2)
    path.write_bytes(made.getvalue())


def main():
    trireme = sys.argv[1]
    # U+2581, its mark for a space, it cannot give back: numpy_reader_test.py has the bytes
    # that stand for it
    texts = [text.replace("\u2581", "_")
             for text in corpus(float(sys.argv[3]) if len(sys.argv) > 3 else 0.3)]
    # every kind of character in these must find room in the vocabulary
    few = [text[:5000] for text in texts[:200] if text.isascii()]
    few += 50 * ["d\u00e9j\u00e0 vu, \u6f22\u5b57\u3000\u304b\u306a; \u043c\u0438\u0440\n"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        lines = folder / "in.jsonl"
        write_lines(lines, texts)
        for style in "unigram", "bpe":
            path = folder / style / "tokenizer.model"
            path.parent.mkdir()
            if style == "bpe":
                train_bpe(path, few)
            else:
                write_lines(folder / "few.jsonl", few)
                train_unigram(trireme, path, folder / "few.jsonl")
            encode = sentencepiece.SentencePieceProcessor(str(path)).encode
            check(tokenized(trireme, path, path.parent / "set", lines), texts,
                  [encode(text) for text in texts], style)
            check_text_comes_back(trireme, path, path.parent, "".join(texts), encode)


main()
