#!/usr/bin/python3
"""A damaged checkpoint is told from a good one, and another run's from the own."""
import json
import os
import random
import re
import shutil

from checks import check, note, random_of
from corpora import write_tokens
from facts import fact, main
from run_folder import checkpoint, checkpoints, contents, curve, events, same_checkpoint, same_curve

STEPS = 20
LONGER = ["--training.steps=22", '--checkpoint.allow_changes=["training.steps"]']


def trained(workshop, name="run"):
    """A run of 20 steps with checkpoints at 10, 15 and 20. Returns its config and folder."""
    if not (workshop / "corpus.idx").exists():
        workshop.corpus()
    config = workshop.config(name, {"training": {"steps": STEPS}})
    workshop.run("train", config).done()
    check(checkpoints(workshop / name) == [10, 15, 20], checkpoints(workshop / name))
    return config, workshop / name


def shard(folder):
    return next(folder.glob("shard-*.h5"))


def truncate(folder, rng):
    path = shard(folder)
    size = path.stat().st_size
    keep = rng.randrange(size)
    with open(path, "r+b") as file:
        file.truncate(keep)
    return f"{path.name} cut from {size} to {keep} bytes"


def flip_a_bit(folder, rng):
    """In the numbers of a tensor; what lies between them nobody reads."""
    tensor = rng.choice(json.loads((folder / "manifest.json").read_text())["tensors"])
    part = tensor["rectangles"][0]
    at = part["offset"] + rng.randrange(part["bytes"])
    path, bit = shard(folder), rng.randrange(8)
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << bit]))
    return f"bit {bit} of byte {at} of {path.name} flipped, in {tensor['name']}"


def flip_a_bit_of_the_manifest(folder, rng):
    path = folder / "manifest.json"
    text = bytearray(path.read_bytes())
    at, bit = rng.randrange(len(text)), rng.randrange(8)
    text[at] ^= 1 << bit
    path.write_bytes(text)
    return f"bit {bit} of byte {at} of manifest.json flipped"


def remove_the_shard(folder, _):
    shard(folder).unlink()
    return "the shard removed"


def remove_the_manifest(folder, _):
    (folder / "manifest.json").unlink()
    return "the manifest removed"


def zero_a_block(folder, rng):
    """As a disk does that lost a write."""
    path = shard(folder)
    at = path.stat().st_size // 2 // 4096 * 4096
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(bytes(4096))
    return f"4096 bytes of {path.name} zeroed at {at}"


DAMAGES = [truncate, flip_a_bit, flip_a_bit_of_the_manifest, remove_the_shard,
           remove_the_manifest, zero_a_block]


@fact
def a_run_goes_on_from_the_last_good_checkpoint_and_says_why(workshop):
    rng = random_of("damages")
    config, run = trained(workshop)
    shutil.copytree(run, workshop / "whole")
    for damage in DAMAGES:
        shutil.rmtree(run)
        shutil.copytree(workshop / "whole", run)
        note(damage(checkpoint(run, 20), rng))
        check(workshop.run("checkpoint", "verify", "run").code == 4, "verify finds nothing")
        result = workshop.run("train", config).done()
        rejected = events(run, "checkpoint_rejected")
        note("rejected:", rejected[0]["why"] if rejected else None)
        check(len(rejected) == 1 and "step-00000020" in rejected[0]["why"], rejected)
        check("checkpoint rejected: " in result.err, result)
        check([e["step"] for e in events(run, "resume")] == [15], events(run, "resume"))
        same_curve(run, curve(workshop / "whole"))
        same_checkpoint(workshop, "run", "whole")
        workshop.run("checkpoint", "verify", "run").done()


@fact
def two_damaged_checkpoints_leave_the_third(workshop):
    config, run = trained(workshop)
    shutil.copytree(run, workshop / "whole")
    truncate(checkpoint(run, 20), random.Random(1))
    remove_the_shard(checkpoint(run, 15), None)
    workshop.run("train", config).done()
    check([e["step"] for e in events(run, "resume")] == [10], events(run, "resume"))
    check(len(events(run, "checkpoint_rejected")) == 2, events(run, "checkpoint_rejected"))
    same_curve(run, curve(workshop / "whole"))
    same_checkpoint(workshop, "run", "whole")


@fact
def generate_and_eval_say_which_checkpoint_they_pass_over(workshop):
    _, run = trained(workshop)
    note(flip_a_bit_of_the_manifest(checkpoint(run, 20), random.Random(3)))
    for command in ["generate", "run", "--prompt", "x", "--max-tokens=2"], ["eval", "run", "--data",
                                                                            "corpus"]:
        result = workshop.run(*command, "--threads=1").done()
        check("checkpoint rejected: " in result.err and "step-00000020" in result.err, result)
    check("(step 15)" in result.out, result)


@fact
def a_run_never_starts_over_when_all_its_checkpoints_are_damaged(workshop):
    config, run = trained(workshop)
    rng = random.Random(2)
    for step, damage in zip((10, 15, 20), (flip_a_bit, truncate, flip_a_bit_of_the_manifest)):
        damage(checkpoint(run, step), rng)
    before = contents(run)
    workshop.run("train", config).refused(
        4, "none of the 3 checkpoints", run / "checkpoints", "step-00000010", "step-00000015",
        "step-00000020", "job.dump_folder")
    check(contents(run) == before, "it changed the run folder")
    workshop.run("generate", "run", "--prompt", "x").refused(4, "step-000000")
    workshop.run("eval", "run", "--data", "corpus").refused(4, "step-000000")


@fact
def a_folder_with_the_checkpoints_of_another_model_is_refused(workshop):
    config, run = trained(workshop)
    before = contents(run)
    for option, word in [("--model.num_hidden_layers=3", "model.num_hidden_layers: 2 -> 3\n"),
                         ("--model.hidden_size=128", "model.hidden_size: 64 -> 128\n"),
                         ("--model.tie_word_embeddings=false", "model.tie_word_embeddings: true -> false\n")]:
        workshop.run("train", config, option).refused(4, checkpoint(run, 20), "a different model", word)
        check(contents(run) == before, "it changed the run folder")


@fact
def a_folder_with_the_checkpoints_of_other_data_is_refused(workshop):
    config, run = trained(workshop)
    write_tokens(workshop / "other", range(500))
    before = contents(run)
    other = f'[{{path="{workshop / "other"}"}}]'
    for option, *words in [
            ("--job.seed=3", "job.seed: 0 -> 3"),
            (f"--data.train={other}", "data.train", "other"),
            ("--training.seq_len=16", "training.seq_len: 32 -> 16"),
            ("--training.global_batch_size=8", "training.global_batch_size: 4 -> 8")]:
        workshop.run("train", config, option).refused(4, checkpoint(run, 20), "job.dump_folder",
                                                      *words)
        check(contents(run) == before, "it changed the run folder")


@fact
def token_files_that_were_replaced_under_a_run_are_noticed(workshop):
    config, run = trained(workshop)
    before = contents(run)
    workshop.corpus(seed=99)
    workshop.run("train", config).refused(4, checkpoint(run, 20), "token files themselves")
    check(contents(run) == before, "it changed the run folder")


@fact
def token_files_that_were_moved_under_a_run_are_taken_and_it_says_so(workshop):
    config, run = trained(workshop)
    (workshop / "elsewhere").mkdir()
    for end in "bin", "idx", "json":
        (workshop / f"corpus.{end}").rename(workshop / f"elsewhere/corpus.{end}")
    moved = f'--data.train=[{{path="{workshop / "elsewhere/corpus"}"}}]'
    done = workshop.run("train", config, moved, *LONGER).done()
    check(done.err.count("moved, with the same tokens") == 1, done)
    check([event["step"] for event in events(run, "resume")] == [20], events(run, "resume"))
    workshop.run("audit", run, "--data").done()
    # Another file of that name is no move.
    (workshop / "other").mkdir()
    workshop.corpus("other/corpus", seed=99)
    other = f'--data.train=[{{path="{workshop / "other/corpus"}"}}]'
    workshop.run("train", config, other, *LONGER).refused(4, "data.train", "other/corpus")


@fact
def asking_for_what_is_not_there_is_refused(workshop):
    config, run = trained(workshop)
    before = contents(run)
    workshop.run("train", config, "--checkpoint.resume=none").refused(
        4, run, "step 20", "job.dump_folder")
    workshop.run("train", config, "--checkpoint.resume=7").refused(4, "step 7", "20, 15, 10")
    workshop.run("generate", "corpus.jsonl", "--prompt", "x").refused(4, "corpus.jsonl")
    workshop.run("eval", "absent", "--data", "corpus").refused(4, "absent")
    check(contents(run) == before, "it changed the run folder")


@fact
def a_run_can_go_back_to_an_older_step(workshop):
    config, run = trained(workshop)
    shutil.copytree(run, workshop / "whole")
    workshop.run("train", config, "--checkpoint.resume=10").done()
    check([e["step"] for e in events(run, "resume")] == [10], events(run, "resume"))
    same_curve(run, curve(workshop / "whole"))
    same_checkpoint(workshop, "run", "whole")


@fact
def what_is_no_regular_file_is_refused_at_once(workshop):
    """A FIFO would let its reader wait for ever."""
    config, run = trained(workshop)
    newest = checkpoint(run, 20)

    def each_kind(file):
        kept = file.with_name("kept-" + file.name)
        file.rename(kept)
        for make, word in (os.mkfifo, "FIFO"), (os.mkdir, "directory"), (
                lambda path: path.symlink_to("/dev/zero"), "device"):
            make(file)
            yield word
            file.rmdir() if file.is_dir() else file.unlink()
        kept.rename(file)

    for word in each_kind(newest / "manifest.json"):
        for command in ["checkpoint", "list"], ["checkpoint", "verify"]:
            done = workshop.run(*command, run, timeout=60)
            check("manifest.json" in done.out + done.err and word in done.out + done.err, done)
    for word in each_kind(shard(newest)):
        done = workshop.run("checkpoint", "verify", run, timeout=60)
        check(done.code == 4 and shard(newest).name in done.out + done.err, done)
        check(word in done.out + done.err, done)
    for name in "ledger.jsonl", "metrics.jsonl", "events.jsonl":
        for word in each_kind(run / name):
            workshop.run("audit", run, timeout=60).refused(5, run / name, word)
            # a writer follows no link at all, wherever it leads
            written = "symbolic link" if word == "device" else word
            workshop.run("train", config, *LONGER, timeout=60).refused(5, run / name, written)
    for word in each_kind(workshop / "corpus.bin"):
        workshop.run("data", "check", "corpus", timeout=60).refused(3, "corpus.bin", word)
    for word in each_kind(workshop / config):
        workshop.run("config", "show", config, timeout=60).refused(2, config, word)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def resealed(manifest, was, becomes):
    """The manifest with one text for another, and a seal that fits."""
    body = manifest.read_bytes().decode().rpartition(',\n  "crc32c"')[0]
    check(len(re.findall(was, body)) == 1, was, re.findall(was, body))
    body = re.sub(was, becomes, body)
    manifest.write_text(f'{body},\n  "crc32c": "{crc32c(body.encode()):08x}"\n}}\n')


@fact
def a_sealed_manifest_with_absurd_numbers_is_refused_by_their_range(workshop):
    config, run = trained(workshop)
    manifest = checkpoint(run, 20) / "manifest.json"
    whole = manifest.read_bytes()
    nan = '"7ff8000000000000"'
    for was, becomes, *words in [
            (r'"loss":\s*"[0-9a-f]{16}"', f'"loss":{nan}', "digests.loss", "nan"),
            (r'"grad_norm":\s*"[0-9a-f]{16}"', '"grad_norm":"bff0000000000000"',
             "digests.grad_norm", "-1"),
            (r'"samples":\s*\d+', '"samples":18446744073709551615', "data.samples"),
            (r'"tokens":\s*\d+', '"tokens":-5', "data.tokens", "-5"),
            (r'"optimizer_step":\s*\d+', '"optimizer_step":9000000000000', "optimizer_step")]:
        resealed(manifest, was, becomes)
        workshop.run("train", config).refused(4, checkpoint(run, 20), *words)
        manifest.write_bytes(whole)
    workshop.run("train", config).done()


if __name__ == "__main__":
    main()
