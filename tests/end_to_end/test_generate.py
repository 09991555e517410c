#!/usr/bin/python3
"""A trained model continues text and is measured as its run measured it."""
import re
import subprocess

from checks import check, note
from facts import fact, main
from run_folder import events, metrics

SENTENCE = "Three banks of oars rise and fall as the ship goes home. "

LEARNER = {"training": {"seq_len": 128, "local_batch_size": 4, "global_batch_size": 4,
                        "steps": 120},
           "optimizer": {"lr": 1e-2}, "lr_scheduler": {"warmup_steps": 10},
           "checkpoint": {"interval": 0}}


def learned_by_heart(workshop):
    """A run whose model has seen nothing but SENTENCE."""
    (workshop / "sentence.txt").write_text(SENTENCE * 300)
    workshop.run("tokenize", "--tokenizer", "bytes", "--output", "sentence",
                 "sentence.txt").done()
    config = workshop.config("run", {**LEARNER, "data": {"train": [{"path": "sentence"}]}})
    workshop.run("train", config).done()
    note("loss after the last step:", metrics(workshop / "run")[-1]["loss"])


def short_run(workshop, changes=None):
    workshop.corpus()
    workshop.run("train", workshop.config("run", {"training": {"steps": 10}, **(changes or {})}
                                          )).done()


def generated(workshop, *options):
    return workshop.run("generate", "run", "--threads=1", *options).done().out


@fact
def a_sentence_learned_by_heart_comes_back(workshop):
    learned_by_heart(workshop)
    for start in 0, 6, 20:
        prompt = (SENTENCE + SENTENCE)[start:start + 24]
        text = generated(workshop, "--prompt", prompt, "--temperature=0", "--max-tokens=80")
        note(repr(text))
        check(text == (SENTENCE * 4)[start:start + 24 + 80] + "\n", "expected another text")


@fact
def the_same_seed_gives_the_same_text(workshop):
    short_run(workshop)
    ask = ["--prompt", "the ship", "--max-tokens=40"]
    one, same, other = (generated(workshop, *ask, f"--seed={seed}") for seed in (1, 1, 2))
    check(one == same and one != other, [one, same, other])
    cold = [generated(workshop, *ask, "--temperature=0", f"--seed={seed}") for seed in (1, 2)]
    check(cold[0] == cold[1], cold)
    only = generated(workshop, *ask, "--top-k=1", "--seed=3")
    check(only == cold[0], "top-k 1 is not temperature 0:", [only, cold[0]])


@fact
def what_a_model_draws_is_printed_as_text(workshop):
    short_run(workshop)
    command = [workshop.trireme, "generate", "run", "--threads=1", "--prompt=é ", "--temperature=100", "--max-tokens=200"]
    done = subprocess.run(command, cwd=workshop.folder, env=workshop.env, capture_output=True, check=True)
    text = done.stdout.decode()  # fails if it is no UTF-8
    check(text.startswith("é ") and "\N{REPLACEMENT CHARACTER}" in text, repr(text))


@fact
def a_prompt_in_utf8_comes_first_and_max_tokens_is_kept(workshop):
    learned_by_heart(workshop)
    for prompt in "déjà vu, 漢字 🙂 ", "Three banks ", "":
        for most in 1, 17:
            text = generated(workshop, "--prompt", prompt, "--temperature=0",
                             f"--max-tokens={most}")
            check(text.startswith(prompt) and text.endswith("\n"), repr(text))
            # A token is a byte here. Half a character at the end is one replacement mark.
            added = text[len(prompt):-1]
            check(len(added) <= most, repr(text))
            if prompt == "Three banks ":
                check(len(added) == most, repr(text))


@fact
def a_prompt_longer_than_the_model_is_refused(workshop):
    short_run(workshop)
    workshop.run("generate", "run", "--prompt", "x" * 600).refused(2, "600 tokens", "512")
    workshop.run("generate", "run", "--prompt", "x" * 512).refused(2, "512 tokens", "512")
    text = generated(workshop, "--prompt", "x" * 510, "--max-tokens=100", "--temperature=0")
    check(510 < len(text) <= 514, len(text))


@fact
def wrong_options_are_refused(workshop):
    short_run(workshop)
    workshop.run("generate", "run", "--max-tokens=0").refused(2, "--max-tokens")
    workshop.run("generate", "run", "--temperature=-1").refused(2, "--temperature")
    workshop.run("generate", "run", "--tokenizer", "absent.model").refused(3, "absent.model")
    workshop.run("eval", "run").refused(2, "no data.validation", "--data PREFIX")
    workshop.run("eval", "run", "--data", "absent").refused(3, "absent.idx")


@fact
def eval_measures_what_the_run_measured(workshop):
    for dtype in "float32", "bfloat16", "float16":
        short_run(workshop, {"training": {"steps": 10, "dtype": dtype},
                             "job": {"dump_folder": dtype},
                             "data": {"split": 0.2},
                             "validation": {"freq": 5, "steps": 3}})
        last, event = metrics(workshop / dtype)[-1], events(workshop / dtype, "validation")[-1]
        out = workshop.run("eval", dtype, "--samples=12", "--threads=1").done().out
        values = dict(re.findall(r"^(.+?) {2,}([\d.,]+)", out, re.MULTILINE))
        note(dtype, values, "in the metrics:", last["validation_loss"])
        # 3 batches of 4 sequences of 32 tokens
        check(int(values["tokens"].replace(",", "")) == event["tokens"] == 3 * 4 * 32, out, event)
        check(abs(float(values["loss"]) - float(last["validation_loss"])) <= 1e-6, out, last)
        check(abs(float(values["bits per byte"]) - float(last["validation_bits_per_byte"]))
              <= 1e-6, out, last)


@fact
def eval_of_other_data_takes_all_of_it(workshop):
    short_run(workshop)
    workshop.corpus("other", seed=5, words=3000)
    out = workshop.run("eval", "run", "--data", "other", "--threads=1").done().out
    tokens = int(re.search(r"tokens +([\d,]+)", out)[1].replace(",", ""))
    size = (workshop / "other.bin").stat().st_size // 2
    note(out.replace("\n", "; "), f"{size} tokens in the file")
    check(size - 33 <= tokens < size, out)


if __name__ == "__main__":
    main()
