#!/usr/bin/env python3
"""Fails when prose of the product has a word it should not use: check_words.py [ROOT]

Prose is comments and string literals of C++ and CUDA sources, and the text of all other files.
Code in `backquotes`, #include lines and
quoted single words (keys of files) are ignored. Also fails on a type with a banned name.
"""

import pathlib
import re
import sys

CHECKED = ("README.md", "model", "parallel", "data", "checkpoint", "trainer", "configs", "scripts")
ITSELF = "scripts/check_words.py"

# Pattern of the word or phrase, and what to write instead.
WORDS = (
    (r"(?-i:[Mm]icrobatch(?:es)?)", "micro-batch"),
    (r"behaviours?|(?:neighbour|colour|favour|honour|labour)(?:s|ed|ing|able|hood|ite)?",
     "American spelling: -or"),
    (r"centre[sd]?|fibres?|licences?|defence", "American spelling: -er, -se"),
    (r"(?:un)?(?:categor|custom|general|initial|maxim|minim|normal|optim|organ|orthogonal|parallel|"
     r"quant|random|real|recogn|serial|special|standard|summar|synchron|token|util|vector)"
     r"is(?:e|es|ed|er|ers|ing|ations?)", "American spelling: -ize, -ization"),
    (r"analys(?:e|ed|ing)|artefacts?|grey|learnt|modelling|labelled|labelling|whilst|amongst",
     "American spelling"),
    (r"for people", "human-readable, for display, informational"),
    (r"anew", "again, new"),
    (r"share[sd]? out|sharing out", "shard, divide, distribute"),
    (r"put(?:s|ting)? away", "offload"),
    (r"(?:bring|brings|brought) back", "fetch, restore"),
    (r"put(?:s|ting)? off", "defer"),
    (r"(?:give|gives|given|gave|hand|hands|handed) back", "free, release, return"),
    (r"(?:go|goes|gone|going|went) back", "return, roll back, backward"),
    (r"(?:go|goes|gone|going|went) on", "continue, resume"),
    (r"(?:tell|tells|told) of", "describe, report"),
    (r"(?:am|is|are|was|were|be|been|being) told", "gets, is notified of"),
    (r"to be had|(?:is|are|was|were) had", "available"),
    (r"the fullest", "the largest, with the most data"),
    (r"what it is to|(?:its|their) like|and its kin", "the standard term"),
    (r"nobody", "no rank, no process, none"),
    (r"everybody|everyone|whoever", "all ranks, the process that"),
    (r"beside", "next to, in addition to, concurrently with, with"),
    (r"to and fro|(?:by|in) turns", "alternating"),
    (r"for ever", "forever"),
    (r"lest", "so that ... not"),
    (r"no room|enough room|rooms? for", "not enough space, memory for, workspace"),
)  # fmt: skip
TYPES = (
    "Deed", "Told", "Sought", "Habits", "PlanWishes", "AttentionWish", "Ended", "Asked", "Where",
    "How", "Of", "Ways",
)  # fmt: skip

BANNED = [
    (re.compile(rf"\b(?:{pattern})\b".replace(" ", r"\s+"), re.IGNORECASE), use)
    for pattern, use in WORDS
]
BANNED_TYPE = re.compile(rf"\b(?:struct|class|enum|union)(?: class)? ({'|'.join(TYPES)})\b")
SOURCES = (".h", ".cpp", ".cu", ".cuh")
TEXTS = (".md", ".py", ".toml", ".cmake", ".sbatch", ".sh", ".txt", "")
PROSE = re.compile(
    r"""R"(?P<mark>\w*)\(.*?\)(?P=mark)"|"(?:[^"\\\n]|\\.)*"|"""
    r"""'(?:[^'\\\n]|\\[^\n]{1,3})'|//[^\n]*|/\*.*?\*/""",
    re.DOTALL,
)


def covered(text):
    """`text` with another character for each but white space: what no phrase is found in."""
    return re.sub(r"\S", "\0", text)


KEY = re.compile(r"""(['"])[\w.-]+\1""")


def prose_of(text, is_source):
    """The text with all but its prose covered, so that a phrase may continue on the next line."""
    text = KEY.sub(lambda match: covered(match[0]), text)
    if is_source:
        text = re.sub(r"^#include[^\n]*", lambda match: covered(match[0]), text, flags=re.MULTILINE)
        parts, end = [], 0
        for match in PROSE.finditer(text):
            parts.append(covered(text[end : match.start()]))
            parts.append(re.sub(r'^(R?"|//+|/\*)|"$', lambda mark: " " * len(mark[0]), match[0]))
            end = match.end()
        text = "".join([*parts, covered(text[end:])])
    else:
        text = re.sub(r"^(\s*)#", r"\1 ", text, flags=re.MULTILINE)
    return re.sub(r"`[^`\n]*`", lambda match: covered(match[0]), text)


def hits_in(path):
    text = path.read_text(encoding="utf-8")
    is_source = path.suffix in SOURCES
    prose = prose_of(text, is_source)
    for banned, use in BANNED:
        for match in banned.finditer(prose):
            yield text.count("\n", 0, match.start()) + 1, " ".join(match[0].split()), use
    if is_source:
        for match in BANNED_TYPE.finditer(re.sub(r"//[^\n]*", lambda m: covered(m[0]), text)):
            yield text.count("\n", 0, match.start()) + 1, match[0], "a noun of the subject"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    found = False
    for name in CHECKED:
        top = root / name
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            shown = path.relative_to(root).as_posix()
            if not path.is_file() or path.suffix not in SOURCES + TEXTS or shown == ITSELF:
                continue
            for line, word, use in sorted(hits_in(path)):
                print(f"{shown}:{line}: {word} -> {use}")
                found = True
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
