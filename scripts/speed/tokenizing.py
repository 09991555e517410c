#!/usr/bin/python3
"""Compares tokenization speed in MB/s on one core: `trireme tokenize` against Hugging Face's `tokenizers`,
or against the sentencepiece package for a .model file.

usage: scripts/speed/tokenizing.py TRIREME TOKENIZER.json|.model FILE... [--rounds N]

Both encode the same files, alternately, with one thread each, measured in CPU time to reduce the effect
of other processes. The time of trireme includes reading the files, loading the tokenizer and writing
the dataset; that of the other only encoding. Needs the PyPI packages, from build/pypi or installed.
"""
import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, "build/pypi")
os.environ["TOKENIZERS_PARALLELISM"] = "false"


def ours(arguments, prefix):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([arguments.trireme, "tokenize", "--tokenizer", arguments.tokenizer, "--threads",
                    "1", "--no-append-eod", "--output", prefix, *arguments.files],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def judge(path):
    """Name and encode function of the reference tokenizer."""
    if path.endswith(".model"):
        import sentencepiece
        model = sentencepiece.SentencePieceProcessor(path)
        return f"sentencepiece {sentencepiece.__version__}", model.encode
    import tokenizers
    model = tokenizers.Tokenizer.from_file(path)
    return (f"tokenizers {tokenizers.__version__}",
            lambda text: model.encode(text, add_special_tokens=False).ids)


def theirs(encode, texts):
    start = time.process_time()
    count = sum(len(encode(text)) for text in texts)
    return time.process_time() - start, count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trireme")
    parser.add_argument("tokenizer")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    texts = [pathlib.Path(file).read_bytes().decode() for file in arguments.files]
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    other, encode = judge(arguments.tokenizer)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.rounds):
            seconds, count = theirs(encode, texts)
            rows.append((megabytes / ours(arguments, f"{folder}/set"), megabytes / seconds))
    for name, column in zip(("trireme", other), zip(*rows)):
        print(f"{name:20} {statistics.median(column):6.1f} MB/s "
              f"(from {min(column):.1f} to {max(column):.1f})")
    print(f"{megabytes:.1f} MB, {count} tokens, {arguments.rounds} rounds")


main()
