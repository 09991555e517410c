#!/usr/bin/python3
"""Ids of `trireme tokenize` for the hard strings that llama.cpp's tests have for published vocabularies:
GPT-2, Llama 3, Qwen2, DeepSeek, Gemma, Phi-3 and others, in the files that the models come with.

usage: vocabularies_test.py TRIREME FOLDER_OF_PYPI FOLDER_OF_VOCABULARIES; exit code 77: skipped
"""
import pathlib
import sys
import tempfile

sys.path[:0] = sys.argv[2:3]
try:
    import sentencepiece.sentencepiece_model_pb2
except ImportError:
    print("skipped: needs sentencepiece and protobuf (PyPI); scripts/setup test fetches them")
    sys.exit(77)

from gguf_vocabulary import Vocabulary
from odd_text import check, tokenized, write_lines

NAMES = ["gpt-2", "llama-bpe", "qwen2", "qwen35", "deepseek-llm", "deepseek-coder", "gemma-4", "phi-3",
         "llama-spm", "command-r", "refact", "starcoder", "mpt"]
SEPARATOR = "\n__ggml_vocab_test__\n"


def strings_and_ids(path):
    """Strings, separated by a line, and ids, a line for each; no special tokens around them."""
    text = pathlib.Path(f"{path}.inp").read_bytes().decode()
    strings = text.removesuffix(SEPARATOR).split(SEPARATOR)
    lines = pathlib.Path(f"{path}.out").read_text().splitlines()
    assert len(strings) == len(lines) >= 46, (path, len(strings), len(lines))
    return strings, [[int(id) for id in line.split()] for line in lines]


def main():
    trireme, vocabularies = sys.argv[1], pathlib.Path(sys.argv[3])
    if not vocabularies.is_dir():
        print(f"skipped: needs {vocabularies}; scripts/setup test fetches it")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        for vocabulary in NAMES:
            folder = pathlib.Path(name) / vocabulary
            folder.mkdir()
            path = vocabularies / f"ggml-vocab-{vocabulary}.gguf"
            strings, ids = strings_and_ids(path)
            write_lines(folder / "in.jsonl", strings)
            content = Vocabulary(path)
            forms = {folder / "tokenizer.json": content.write_json}
            if content.has_scores():
                forms[folder / "tokenizer.model"] = content.write_sentencepiece
            for form, write in forms.items():
                write(form)
                got = tokenized(trireme, form, folder / "set", folder / "in.jsonl")
                check(got, strings, ids, f"{vocabulary}, {form.name}")


main()
