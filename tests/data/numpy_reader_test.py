#!/usr/bin/python3
"""Reads a dataset of `trireme tokenize` with a few lines of NumPy and compares every
document and token with an independent tokenization.

usage: numpy_reader_test.py TRIREME bytes|sentencepiece; exit code 77: skipped
"""
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("skipped: python3-numpy is not installed")
    sys.exit(77)


def read_documents(prefix):
    """Megatron's indexed dataset, by its format alone."""
    index = pathlib.Path(f"{prefix}.idx").read_bytes()
    assert index[:9] == b"MMIDIDX\x00\x00", index[:9]
    assert np.frombuffer(index, "<u8", 1, 9)[0] == 1
    dtype = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}[index[17]]
    sequences, bounds = np.frombuffer(index, "<u8", 2, 18).astype(int)
    lengths = np.frombuffer(index, "<i4", sequences, 34)
    pointers = np.frombuffer(index, "<i8", sequences, 34 + 4 * sequences)
    documents = np.frombuffer(index, "<i8", bounds, 34 + 12 * sequences)
    assert len(index) == 34 + 12 * sequences + 8 * bounds
    tokens = np.fromfile(f"{prefix}.bin", dtype)
    assert tokens.size == lengths.sum()
    first = pointers // tokens.itemsize
    parts = [tokens[f:f + n] for f, n in zip(first, lengths)]
    none = np.zeros(0, tokens.dtype)
    return [np.concatenate([none, *parts[a:b]]) for a, b in zip(documents, documents[1:])]


def make_corpus(folder):
    """Returns the documents, as bytes, in the order in which trireme reads them."""
    rng = random.Random(7)
    words = ["the", "ship", "rows", " ", "  ", "\t", "\n", "\n\n", "é", "漢字", "🙂", "x1", "2024",
             "under_score", "...", "\r\n", "ing", "    ", "\x00", "\u2581", "e\u0301", "<s>"]
    def text(size):
        return " ".join(rng.choice(words) for _ in range(size))
    texts = [text(rng.randrange(400)) for _ in range(60)]
    texts += ["", " ", "\n", text(60000)]
    documents = []
    for i, content in enumerate(texts):
        raw = content.encode()
        if i % 5 == 0:
            raw += b"\xff\xc3(" + bytes(rng.randrange(256) for _ in range(20))
        path = folder / "in" / f"{i:03}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(raw)
        documents.append(raw)
    with open(folder / "in" / "z.jsonl", "w", encoding="utf-8") as lines:
        for i in range(100):
            content = text(rng.randrange(100))
            lines.write(json.dumps({"id": i, "text": content}, ensure_ascii=i % 2 == 0) + "\n")
            documents.append(content.encode())
    return documents


def byte_ids(_, document):
    return list(document) + [256]


# What SentencePiece cannot give back is spelled in bytes: U+2581 and what is not UTF-8.
BROKEN = re.compile("\u2581|[\udc80-\udcff]")


def sentencepiece_ids(model, document):
    ids = []
    text = document.decode("utf-8", "surrogateescape")
    at = 0
    for found in [*BROKEN.finditer(text), None]:
        end = found.start() if found else len(text)
        ids += model.encode(text[at:end])
        if found:
            raw = found.group().encode("utf-8", "surrogateescape")
            ids += [model.piece_to_id(f"<0x{byte:02X}>") for byte in raw]
            at = found.end()
    return ids + [model.eos_id()]


def main():
    trireme, tokenizer = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        documents = make_corpus(folder)
        inputs = str(folder / "in")
        model, ids_of = None, byte_ids
        if tokenizer == "sentencepiece":
            try:
                import sentencepiece
            except ImportError:
                print("skipped: python3-sentencepiece is not installed")
                sys.exit(77)
            tokenizer = str(folder / "v.model")
            subprocess.run([trireme, "tokenize", "--train-sentencepiece", "320",
                            "--output", tokenizer, "--as", "text", inputs], check=True)
            model, ids_of = sentencepiece.SentencePieceProcessor(tokenizer), sentencepiece_ids
        prefix = str(folder / "set")
        subprocess.run([trireme, "tokenize", "--tokenizer", tokenizer, "--output", prefix,
                        "--threads", "3", "--as", "text", inputs], check=True)
        subprocess.run([trireme, "data", "check", prefix], check=True)

        read = read_documents(prefix)
        assert len(read) == len(documents), (len(read), len(documents))
        for number, (ids, document) in enumerate(zip(read, documents)):
            expected = ids_of(model, document)
            assert ids.tolist() == expected, f"document {number}: {ids.tolist()} != {expected}"
        print(f"{len(read)} documents, {sum(map(len, read))} tokens agree")

        sidecar = json.loads(pathlib.Path(f"{prefix}.json").read_text())
        assert sidecar["documents"] == len(read)
        assert sidecar["tokens"] == sum(map(len, read))
        assert sidecar["text_bytes"] == sum(map(len, documents))
        # `data show` prints the very ids, and the very text.
        shown = subprocess.run([trireme, "data", "show", prefix, "--document", "7"], check=True,
                               stdout=subprocess.PIPE).stdout
        ids, text = shown.split(b"\n", 1)[1].split(b"\n---\n", 1)
        assert [int(i) for i in ids.split()] == read[7].tolist()
        assert text == documents[7] + b"\n"


main()
