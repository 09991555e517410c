#!/usr/bin/python3
"""Token files that cannot be trained on are refused before step 0, and nothing is written."""
import gzip
import json
import shutil

from checks import check
from corpora import write_tokens
from facts import fact, main
from run_folder import contents


def refused(workshop, prefix, *words, options=()):
    config = workshop.config("run", {"data": {"train": [{"path": prefix}]}})
    before = contents(workshop.folder)
    workshop.run("train", config, *options).refused(3, *words)
    check(contents(workshop.folder) == before, "it wrote files")
    check(not (workshop / "run").exists(), "it made the run folder")


def copied(workshop, name):
    for end in ".bin", ".idx":
        shutil.copy(workshop / f"corpus{end}", workshop / f"{name}{end}")
    return workshop / f"{name}.bin", workshop / f"{name}.idx"


@fact
def missing_token_files_are_named(workshop):
    workshop.corpus()
    refused(workshop, "absent", workshop / "absent.idx", "no such file", "trireme tokenize")
    copied(workshop, "half")[0].unlink()
    refused(workshop, "half", workshop / "half.bin", "no such file")


@fact
def truncated_token_files_are_named(workshop):
    workshop.corpus()
    tokens, index = copied(workshop, "short")
    tokens.write_bytes(tokens.read_bytes()[:1000])
    refused(workshop, "short", tokens, "truncated", "1000 bytes")
    tokens, index = copied(workshop, "shortindex")
    index.write_bytes(index.read_bytes()[:50])
    refused(workshop, "shortindex", index)


@fact
def empty_and_foreign_token_files_are_named(workshop):
    workshop.corpus()
    for path in copied(workshop, "empty"):
        path.write_bytes(b"")
    refused(workshop, "empty", workshop / "empty.idx", "is empty", "trireme tokenize")
    _, index = copied(workshop, "foreign")
    index.write_bytes(b"PK\x03\x04 something else altogether" * 10)
    refused(workshop, "foreign", index, "MMIDIDX")


@fact
def a_text_without_a_whole_sequence_is_named(workshop):
    write_tokens(workshop / "tiny", range(20))
    refused(workshop, "tiny", "tiny.bin", "20 tokens", "seq_len = 32", "lower seq_len")


@fact
def ids_beyond_the_vocabulary_are_named_with_their_place(workshop):
    ids = [i % 500 for i in range(5000)]
    ids[3210] = 512
    write_tokens(workshop / "beyond", ids)
    refused(workshop, "beyond", "beyond.bin", "token 3210", "id 512", "vocab_size is 512",
            "model.vocab_size")
    ids[3210] = -1
    write_tokens(workshop / "negative", ids, "int32")
    refused(workshop, "negative", "negative.bin", "token 3210", "-1")


@fact
def validation_data_are_checked_before_the_first_step_too(workshop):
    workshop.corpus()
    write_tokens(workshop / "beyond", [i % 600 for i in range(5000)])
    for prefix, word in ("beyond", "id 512"), ("absent", "no such file"):
        config = workshop.config("run", {"data": {"validation": [{"path": prefix}]},
                                         "validation": {"freq": 10}})
        workshop.run("train", config).refused(3, prefix, word)
        check(not (workshop / "run").exists(), "it made the run folder")


@fact
def tokenize_takes_no_binary_content_and_no_unknown_kind(workshop):
    noise = bytes(b * 37 % 256 for b in range(3000))
    (workshop / "garbage.parquet").write_bytes(noise)
    (workshop / "noise.txt.gz").write_bytes(gzip.compress(noise))
    (workshop / "list.json").write_text('[{"text": "a"}]')
    words = ["tokenize", "--tokenizer", "bytes", "--output", "out"]
    before = contents(workshop.folder)
    for name, *parts in (("garbage.parquet", "Parquet", "JSON lines", "--as text"),
                         ("noise.txt.gz", "NUL", "--as text"),
                         ("list.json", "JSON array", "JSON lines")):
        workshop.run(*words, name).refused(3, name, *parts)
        workshop.run("tokenize", "--train-sentencepiece", 300, "--output", "v.model",
                     name).refused(3, name, *parts)
    workshop.run(*words, ".").refused(3, "3 of 3 files", "garbage.parquet", "--skip-others")
    check(contents(workshop.folder) == before, "it wrote files")
    done = workshop.run(*words, "--as", "text", "garbage.parquet").done()
    check("1 .parquet as text" in done.out, "the kinds are not listed:", done.out)
    (workshop / "a.md").write_text("a")
    done = workshop.run(*words, "--skip-others", "a.md", "list.json").done()
    check("1 .md as text" in done.out and "skipping 1 files: list.json" in done.out, done.out)


def gpt2_folder(folder, extra="th"):
    """A Hugging Face folder: a byte is its own id, one merge, and an end of document."""
    characters = [chr(b) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b else None
                  for b in range(256)]
    others = iter(range(256, 512))
    vocabulary = {c or chr(next(others)): b for b, c in enumerate(characters)}
    vocabulary[extra] = 256
    end = {"id": 257, "content": "<stop>", "single_word": False, "lstrip": False, "rstrip": False,
           "normalized": False, "special": True}
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [end],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [list(extra)]}}))
    (folder / "special_tokens_map.json").write_text('{"eos_token": "<stop>"}')


@fact
def a_hugging_face_folder_is_a_tokenizer(workshop):
    gpt2_folder(workshop / "model")
    (workshop / "text.txt").write_text("the thing " * 500)
    done = workshop.run("tokenize", "--tokenizer", "model", "--output", "tokens", "text.txt").done()
    check("tokenizer: model/tokenizer.json" in done.out, done.out)
    done = workshop.run("data", "info", "tokens").done()
    check("id 257" in done.out, done.out)
    data = {"train": [{"path": "tokens"}], "tokenizer": "model"}
    config = workshop.config("run", {"data": data, "training": {"steps": 2}})
    workshop.run("train", config).done()
    workshop.run("tokenize", "--tokenizer", ".", "--output", "none", "text.txt").refused(
        3, "neither tokenizer.json nor tokenizer.model")


@fact
def the_tokenizer_of_the_config_is_that_of_the_data(workshop):
    gpt2_folder(workshop / "mine")
    gpt2_folder(workshop / "other", "in")
    (workshop / "text.txt").write_text("the thing " * 500)
    workshop.run("tokenize", "--tokenizer", "mine", "--output", "tokens", "text.txt").done()

    def config(tokenizer):
        data = {"train": [{"path": "tokens"}], "tokenizer": tokenizer}
        return workshop.config("run", {"data": data, "training": {"steps": 2}})

    for code, name, *words in ((2, "absent.json", "no such file", workshop / "absent.json"),
                               (3, "other", "mine/tokenizer.json", workshop / "tokens"),
                               (3, "bytes", "bytes-257")):
        workshop.run("train", config(name)).refused(code, "data.tokenizer", *words)
        check(not (workshop / "run").exists(), "it made the run folder")
    # Tokens of others do not say what made them.
    (workshop / "tokens.json").unlink()
    workshop.run("train", config("other")).done()


@fact
def a_flipped_bit_is_found_before_training_where_that_is_asked_for(workshop):
    workshop.corpus(words=400000)  # of which the hash that every start looks at is a sample
    tokens, index = workshop / "corpus.bin", workshop / "corpus.idx"
    verify = "--data.verify=true"
    config = workshop.config("whole", {"training": {"steps": 2}})
    told = workshop.run("train", config, verify).done()
    check("token files: " in told.err and "match their hashes" in told.err, told)
    for path, at in ((tokens, tokens.stat().st_size * 5 // 7), (index, index.stat().st_size // 2)):
        whole = path.read_bytes()
        flipped = bytearray(whole)
        flipped[at] ^= 1
        path.write_bytes(flipped)
        refused(workshop, "corpus", path, "differs from the file that trireme tokenize wrote", "Copy the file again",
                options=[verify])
        path.write_bytes(whole)
    (workshop / "corpus.json").unlink()
    told = workshop.run("train", workshop.config("others", {"training": {"steps": 2}}), verify).done()
    check("no hashes recorded for " in told.err, told)


if __name__ == "__main__":
    main()
