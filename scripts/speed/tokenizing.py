#!/usr/bin/python3
"""Compares tokenization speed in MB/s on one core: `trireme tokenize` against the packages tokenizers,
tiktoken and iree-tokenizer, or for a SentencePiece .model against sentencepiece (PyPI, in build/pypi).

usage: scripts/bench --tokenizing [--quick] [--text FOLDER] [TOKENIZER]...
TOKENIZER is a tokenizer.json of bytes, a .model, or a GGUF file as in build/vocabularies; default: GPT-2,
Llama 3 and Qwen2. FOLDER has .txt files; default: the text of scripts/quickstart.

All encode the same files, one after the other in each round, measured in CPU time, which other processes
hardly change. The time of trireme is that of the whole command: it loads the tokenizer, reads the files
and writes the dataset; "loaded" leaves out what it takes for a file of one byte. That of a package is
only encoding, by its fastest function that gives all ids of a text.
"""
import argparse
import array
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "build/pypi"), str(ROOT / "tests/data")]
os.environ["TOKENIZERS_PARALLELISM"] = "false"

from gguf_vocabulary import Vocabulary, bytes_of_token

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
VOCABULARIES = [ROOT / f"build/vocabularies/ggml-vocab-{name}.gguf" for name in ("gpt-2", "llama-bpe", "qwen2")]


def of_tokenizers(path):
    import tokenizers
    model = tokenizers.Tokenizer.from_file(path)
    return (f"tokenizers {tokenizers.__version__}",
            lambda text: model.encode_batch_fast([text], add_special_tokens=False)[0].ids)


def of_tiktoken(path):
    import tiktoken
    content = json.loads(pathlib.Path(path).read_text())
    rules = content["pre_tokenizer"]
    rules = rules.get("pretokenizers", [rules])
    patterns = [rule["pattern"]["Regex"] for rule in rules if rule["type"] == "Split"]
    patterns += [GPT2 for rule in rules if rule["type"] == "ByteLevel" and rule["use_regex"]]
    if len(patterns) != 1:
        return None
    added = {token["content"] for token in content["added_tokens"]}
    ranks = {bytes_of_token(token): id for token, id in content["model"]["vocab"].items() if token not in added}
    model = tiktoken.Encoding("of a tokenizer.json", pat_str=patterns[0], mergeable_ranks=ranks, special_tokens={})
    return f"tiktoken {tiktoken.__version__}", model.encode_ordinary


def of_iree(path):
    import importlib.metadata
    import iree.tokenizer
    model = iree.tokenizer.Tokenizer.from_file(path)
    return f"iree-tokenizer {importlib.metadata.version('iree-tokenizer')}", model.encode_to_array


def of_sentencepiece(path):
    import sentencepiece
    model = sentencepiece.SentencePieceProcessor(path)
    return f"sentencepiece {sentencepiece.__version__}", model.encode


def packages(path):
    makers = [of_sentencepiece] if path.endswith(".model") else [of_tokenizers, of_tiktoken, of_iree]
    for maker in makers:
        try:
            made = maker(path)
        except ImportError as error:
            print(f"without {error.name}; scripts/setup test fetches it", file=sys.stderr)
            continue
        if made is not None:
            yield made


def ours(trireme, tokenizer, prefix, source):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([trireme, "tokenize", "--tokenizer", tokenizer, "--threads", "1", "--no-append-eod",
                    "--output", prefix, source],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def theirs(encode, texts):
    start = time.process_time()
    for text in texts:
        encode(text)
    return time.process_time() - start


def documents(prefix):
    """The ids of each document of a dataset in Megatron-LM's format."""
    index = pathlib.Path(f"{prefix}.idx").read_bytes()
    count = int.from_bytes(index[18:26], "little")
    lengths = array.array("i", index[34 : 34 + 4 * count])
    ids = array.array({8: "H", 4: "i"}[index[17]], pathlib.Path(f"{prefix}.bin").read_bytes())
    at = 0
    for length in lengths:
        yield ids[at : at + length].tolist()
        at += length


def measure(trireme, tokenizer, text, rounds, folder):
    texts = [path.read_bytes().decode() for path in sorted(text.iterdir())]
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    byte, prefix = f"{folder}/byte.txt", f"{folder}/set"
    pathlib.Path(byte).write_text("x")
    others = dict(packages(tokenizer))
    whole, loading, times = [], [], {name: [] for name in others}
    for _ in range(rounds):
        loading.append(ours(trireme, tokenizer, f"{folder}/byte", byte))
        whole.append(ours(trireme, tokenizer, prefix, text))
        for name, encode in others.items():
            times[name].append(theirs(encode, texts))
    mine = list(documents(prefix))
    speed = megabytes / statistics.median(whole)
    loaded = megabytes / (statistics.median(whole) - statistics.median(loading))
    yield f"{speed:.1f} MB/s, loaded {loaded:.1f}"
    for name, encode in others.items():
        other = megabytes / statistics.median(times[name])
        differing = sum(list(encode(text)) != ids for text, ids in zip(texts, mine))
        note = f"; other ids in {differing} of {len(mine)} documents" if differing else ""
        yield f"{name} {other:.1f} MB/s ({speed / other:.1f} times, loaded {loaded / other:.1f}){note}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trireme", default=str(ROOT / "build/cpu/trireme"))
    parser.add_argument("--text", type=pathlib.Path, default=ROOT / "quickstart/text/train")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("tokenizers", nargs="*", type=pathlib.Path, default=VOCABULARIES)
    arguments = parser.parse_args()
    if not arguments.text.is_dir():
        sys.exit(f"tokenizing.py: no folder {arguments.text}; run scripts/quickstart, or give --text FOLDER")
    rounds = 1 if arguments.quick else 3
    for tokenizer in arguments.tokenizers:
        with tempfile.TemporaryDirectory() as folder:
            path = tokenizer
            if tokenizer.suffix == ".gguf":
                path = pathlib.Path(folder) / "tokenizer.json"
                Vocabulary(tokenizer).write_json(path)
            print(f"{tokenizer.stem}: trireme", flush=True, end=" ")
            for line in measure(arguments.trireme, str(path), arguments.text, rounds, folder):
                print(line, flush=True)


main()
