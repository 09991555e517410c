"""What the comparisons of tokenizers share: odd text, and what `trireme` makes of it."""
import array
import json
import pathlib
import random
import subprocess

SPECIAL = ["<|endoftext|>", "<|im_start|>"]
SCRIPTS = [(0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x4FF), (0x5D0, 0x5EA),
           (0x620, 0x64A), (0x900, 0x97F), (0xE00, 0xE4F), (0x1100, 0x11FF), (0x3040, 0x30FF),
           (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x10000, 0x1FFFF), (0x20000, 0x323AF)]
SPACES = [" ", "  ", "\n", "\r\n", "\t", "\r", "\u00a0", "\u3000", "\u2003", "\u180e", "\u200b",
          "\u0085", " \n ", "\x00"]
WORDS = ["'s", "'LL", "'\u017f", "1234567", "3.14", "_x", "!=", "->", "//", "<|", *SPECIAL]


def adversarial(rng):
    parts = []
    for _ in range(rng.randrange(1, 300)):
        kind = rng.random()
        if kind < 0.3:
            parts.append(rng.choice(SPACES) * rng.choice([1, 1, 1, 2, 3, 17]))
        elif kind < 0.4:
            parts.append(rng.choice(WORDS))
        else:
            low, high = rng.choice(SCRIPTS)
            parts += [chr(rng.randint(low, high)) for _ in range(rng.randrange(1, 8))]
    return "".join(parts)


def corpus(megabytes):
    """Code, prose and every kind of odd text."""
    rng = random.Random(3)
    files = [*sorted(pathlib.Path("/usr/share/common-licenses").glob("*")),
             *sorted(pathlib.Path("/usr/lib/python3.11").rglob("*.py"))]
    texts, size = [], 0
    for file in files:
        if size > megabytes * 8e5:
            break
        text = file.read_text(errors="replace")[: 20000 if megabytes < 1 else None]
        texts.append(text)
        size += len(text)
    while size < megabytes * 1e6:
        texts.append(adversarial(rng))
        size += len(texts[-1].encode())
    if megabytes >= 1:
        scalars = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
        texts += ["".join(f"a{chr(c)}b {chr(c)}1{chr(c)} {chr(c)} \u0345{chr(c)}\u0334\u0301"
                          for c in scalars[i : i + 4096])
                  for i in range(0, len(scalars), 4096)]
    return texts


def write_lines(path, texts):
    with open(path, "w", encoding="utf-8") as out:
        out.writelines(json.dumps({"text": text}) + "\n" for text in texts)


def tokenized(trireme, tokenizer, prefix, source):
    """The ids of all documents, one after the other."""
    subprocess.run([trireme, "tokenize", "--as", "text", "--tokenizer", tokenizer, "--output", prefix,
                    "--threads", "2", "--no-append-eod", source],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    dtype = pathlib.Path(f"{prefix}.idx").read_bytes()[17]  # Megatron-LM's code: 8 is uint16, 4 int32
    return array.array({8: "H", 4: "i"}[dtype], pathlib.Path(f"{prefix}.bin").read_bytes()).tolist()


def check(ids, texts, expected, style):
    begin = 0
    for number, (text, want) in enumerate(zip(texts, expected)):
        got = ids[begin : begin + len(want)]
        if got != want:
            at = next(i for i in range(len(want)) if got[i : i + 1] != want[i : i + 1])
            raise AssertionError(f"{style}, text {number}: {got[at : at + 8]} and not "
                                 f"{want[at : at + 8]} at id {at}; the text is {text[:200]!r}")
        begin += len(want)
    assert begin == len(ids), (style, begin, len(ids))
    print(f"{style}: {begin} ids of {len(texts)} texts agree")


def check_text_comes_back(trireme, tokenizer, folder, text, encode):
    """All of it as one document, read in parts and cut between them: the ids of the whole, and
    through `data show` the text, to the byte."""
    source, prefix = folder / "whole.txt", folder / "whole"
    source.write_bytes(text.encode())
    check(tokenized(trireme, tokenizer, prefix, source), [text], [encode(text)],
          f"{folder.name}, one document")
    shown = subprocess.run([trireme, "data", "show", prefix, "--document", "0"],
                           check=True, stdout=subprocess.PIPE).stdout
    assert shown.split(b"\n---\n", 1)[1] == text.encode() + b"\n", folder.name
