#!/usr/bin/python3
"""A model trained on short sequences is extended to eight times their length: with YaRN and a few more steps it uses
the longer context, by 'trireme eval --by-position'."""
import re

from checks import check, note
from corpora import np, write_tokens
from facts import fact, main
from run_folder import curve

KEYS, VALUES = 32, 8  # a token is a key with a value
DOCUMENT = 8192
SHORT, LONG = 256, 2048
YARN = f'{{rope_type = "yarn", factor = {LONG // SHORT}, original_max_position_embeddings = {SHORT}}}'
CONFIG = {"job": {"threads": 1},
          "model": {"model_type": "llama", "vocab_size": KEYS * VALUES, "hidden_size": 64,
                    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
                    "rope_theta": 1000},
          "data": {"train": [{"path": "corpus"}], "validation": [{"path": "held-out"}]},
          "training": {"seq_len": SHORT, "local_batch_size": 8, "global_batch_size": 8, "steps": 800},
          "optimizer": {"lr": 3e-3}, "lr_scheduler": {"warmup_steps": 20}, "checkpoint": {"interval": 800}}


def corpus(prefix, seed, documents):
    """In each document a table gives every key a value. The keys follow each other, over and over, six in ten with
    their own value and the others with any: the more of a document was seen, the better is its table known."""
    rng = np.random.default_rng(seed)
    size = (documents, DOCUMENT // KEYS, KEYS)
    tables = rng.integers(VALUES, size=(documents, 1, KEYS))
    values = np.where(rng.random(size) < 0.6, tables, rng.integers(VALUES, size=size))
    write_tokens(prefix, (np.arange(KEYS) * VALUES + values).ravel())


def prepared(workshop):
    corpus(workshop / "corpus", seed=1, documents=256)
    corpus(workshop / "held-out", seed=2, documents=8)


def short_run(workshop, steps=CONFIG["training"]["steps"]):
    config = workshop.config("short", base=CONFIG)
    workshop.run("train", config, f"--training.steps={steps}").done()


def extension(workshop, start, name="long"):
    """The config of a run on long sequences that starts from a checkpoint."""
    return workshop.config(name, {
        "training": {"seq_len": LONG, "local_batch_size": 1, "global_batch_size": 2, "steps": 60},
        "optimizer": {"lr": 1e-3}, "lr_scheduler": {"warmup_steps": 5},
        "checkpoint": {"initial_load_path": str(workshop / start)}}, base=CONFIG)


def by_position(text):
    """{first position: (position after the last, tokens, loss)} of the table."""
    rows = re.findall(r"^ *(\d+) - (\d+) +([\d,]+) +([\d.]+) +[\d.]+$", text, re.MULTILINE)
    return {int(first): (int(last) + 1, int(tokens.replace(",", "")), float(loss))
            for first, last, tokens, loss in rows}


def evaluated(workshop, run, *options):
    told = workshop.run("eval", run, "--by-position", *options, "--threads=1").done().out
    note(f"{run} {' '.join(options)}")
    print(told.partition("\n\n")[2], flush=True)
    check("position in sequence" in told, told)
    return by_position(told)


@fact
def the_loss_falls_with_the_position_up_to_the_extended_length(workshop):
    prepared(workshop)
    short_run(workshop)
    before = evaluated(workshop, "short", f"--seq-len={LONG}", "--stride=512")
    long = extension(workshop, "short")
    workshop.run_ranks(2, "train", long, f"--model.rope_scaling={YARN}",
                       "--parallelism.context=2").done()
    after = evaluated(workshop, "long", "--stride=512")
    check([end for end, _, _ in after.values()] == [32, 64, 128, 256, 512, 1024, 2048], after)
    check([row[:2] for row in before.values()] == [row[:2] for row in after.values()], before)
    trained = after[SHORT // 2][2]
    check(before[SHORT // 2][2] < np.log(VALUES) - 0.3, "the short run learned nothing:", before)
    for first, (_, _, loss) in after.items():
        if first >= SHORT:
            check(loss < before[first][2] - 0.03, "no better than before at", first, before, after)
            check(loss < trained + 0.02, "worse than at the trained length, at", first, after)
    check(after[LONG // 2][2] < trained - 0.05, "the long context is not used:", after)


@fact
def the_table_is_of_the_mean_and_positions_restart_at_documents(workshop):
    workshop.corpus()
    changes = {"training": {"steps": 5}, "data": {"validation": [{"path": "corpus"}]}}
    for mask, place in (False, "sequence"), (True, "document"):
        data = {**changes["data"], "document_mask": mask}
        workshop.run("train", workshop.config(place, {**changes, "data": data})).done()
        told = workshop.run("eval", place, "--samples=50", "--by-position", 8, "--threads=1").done().out
        check(f"position in {place} " in told, told)
        rows = list(by_position(told).values())
        counts = [tokens for _, tokens, _ in rows]
        check([end for end, _, _ in rows] == list(range(4, 33, 4)), told)
        check(counts == [200] * 8 if not mask else counts == sorted(counts, reverse=True) and
              counts[-1] < counts[0], told)
        mean = sum(tokens * loss for _, tokens, loss in rows) / sum(counts)
        found = re.search(r"^tokens +([\d,]+)\nloss +([\d.]+)", told, re.MULTILINE)
        check(int(found[1].replace(",", "")) == sum(counts) and abs(float(found[2]) - mean) < 2e-6, told)
        plain = workshop.run("eval", place, "--samples=50", "--threads=1").done().out
        check(f"loss            {found[2]} " in plain and "position" not in plain, plain)
    workshop.run("eval", "sequence", "--by-position", 33).refused(2, "--by-position 33", "32")


@fact
def another_scaling_is_that_of_a_model_with_it(workshop):
    prepared(workshop)
    short_run(workshop, steps=3)
    length = f"--seq-len={LONG}"
    plain = evaluated(workshop, "short", length, "--samples=2")
    scaled = evaluated(workshop, "short", length, "--samples=2", f"--rope-scaling={YARN}")
    # A step of a rate too small to move the weights.
    still = extension(workshop, "short", name="still")
    workshop.run("train", still, f"--model.rope_scaling={YARN}", "--training.steps=1",
                 "--lr_scheduler.warmup_steps=0", "--optimizer.lr=1e-30").done()
    check(evaluated(workshop, "still", "--samples=2") == scaled != plain, scaled, plain)
    unscaled = '--rope-scaling={rope_type = "default"}'
    check(evaluated(workshop, "still", "--samples=2", unscaled) == plain, plain)
    workshop.run("eval", "short", '--rope-scaling={type = "yarn", factor = 8}').refused(
        2, "model.rope_scaling.type", "rope_type")


@fact
def an_extension_starts_from_the_trained_length(workshop):
    prepared(workshop)
    short_run(workshop, steps=1)
    long = extension(workshop, "short")
    table = '--model.rope_scaling={{rope_type = "yarn", factor = 8{}}}'
    workshop.run("train", long, table.format("")).refused(2, "original_max_position_embeddings")
    other = table.format(", original_max_position_embeddings = 1024")
    workshop.run("train", long, other).refused(
        4, "checkpoint.initial_load_path", "model.rope_scaling", "allow_changes")
    told = workshop.run("train", long, "--training.steps=1",
                        f"--model.rope_scaling={YARN.replace('8', '4')}").done().err
    check("1024" in told and "increase factor" in told, told)
    check(len(curve(workshop / "long")) == 1, "steps")
    # What the extended run may start is one that is scaled alike.
    workshop.run("train", extension(workshop, "long"), "--job.dump_folder=again").refused(
        4, "model.rope_scaling", "default")


if __name__ == "__main__":
    main()
