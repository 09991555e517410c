#!/usr/bin/python3
"""A run measures several validation sets, answers questions and writes samples of text, and
'trireme eval' finds the same."""
import json
import random
import re

from checks import check, note
from facts import fact, main
from run_folder import events, metrics

QUESTIONS = 12
SEEN = {"training": {"steps": 10}, "data": {"validation": [
    {"path": "corpus", "name": "seen"}, {"path": "other", "name": "unseen", "weight": 3}]},
        "validation": {"freq": 5, "steps": 2, "multiple_choice": ["quiz.jsonl"],
                       "sample_freq": 10, "sample_prompt": "the ship ", "sample_tokens": 12}}


def prepared(workshop):
    """Two corpora, and questions whose right endings are words of theirs."""
    workshop.corpus()
    workshop.corpus("other", seed=5, words=3000)
    rng = random.Random(3)
    words = "ship rows over dark water and nobody speaks of three banks".split()
    lines = []
    for number in range(QUESTIONS):
        label = number % 3
        endings = ["".join(rng.choice("qxzjkv") for _ in range(rng.randint(2, 9)))
                   for _ in range(3)]
        endings[label] = rng.choice(words)
        lines.append({"ind": number, "ctx": " ".join(rng.choices(words, k=rng.randint(1, 4))),
                      "endings": endings, "label": str(label)})
    (workshop / "quiz.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def last_values(run):
    last = metrics(run)[-1]
    return {key: float(last[key]) for key in last if key.startswith(("validation", "accuracy"))}


@fact
def sets_questions_and_samples_are_measured_in_the_run_as_by_eval(workshop):
    prepared(workshop)
    for mask in False, True:
        name = f"mask{int(mask)}"
        changes = {**SEEN, "data": {**SEEN["data"], "document_mask": mask}}
        out = workshop.run("train", workshop.config(name, changes)).done().err
        values = last_values(workshop / name)
        note(values)
        check(sorted(values) == ["accuracy/quiz", "accuracy_norm/quiz", "validation_bits_per_byte",
                                 "validation_bits_per_byte/seen", "validation_bits_per_byte/unseen",
                                 "validation_loss", "validation_loss/seen",
                                 "validation_loss/unseen"], values)
        mean = (values["validation_loss/seen"] + 3 * values["validation_loss/unseen"]) / 4
        check(abs(mean - values["validation_loss"]) < 1e-9, mean, values)

        told = workshop.run("eval", name, "--samples=8", "--threads=1").done().out
        evaled = dict(re.findall(r"^(\D+?) +([\d.]+)", told, re.MULTILINE))
        for ours, theirs in ("validation_loss", "loss"), ("validation_loss/seen", "loss seen"), \
                ("validation_bits_per_byte/unseen", "bits per byte unseen"):
            check(abs(values[ours] - float(evaled[theirs])) < 2e-6, ours, values, told)
        told = workshop.run("eval", name, "--multiple-choice", "quiz.jsonl",
                            "--threads=1").done().out
        found = re.search(r"^questions +12 of quiz\naccuracy +([\d.]+) \+- ([\d.]+) .*acc\)\n"
                          r"accuracy_norm +([\d.]+)", told, re.MULTILINE)
        check(found and abs(float(found[1]) - values["accuracy/quiz"]) < 1e-6 and
              abs(float(found[3]) - values["accuracy_norm/quiz"]) < 1e-6, told, values)
        # Words of the training text against letters it has not got.
        check(values["accuracy_norm/quiz"] > 0.5, values)

        answered = events(workshop / name, "multiple_choice")
        check([e["step"] for e in answered] == [5, 10], answered)
        p, n = answered[-1]["accuracy"], answered[-1]["questions"]
        check(n == QUESTIONS and
              abs(answered[-1]["accuracy_stderr"] - (p * (1 - p) / (n - 1)) ** 0.5) < 1e-12,
              answered[-1])
        samples = events(workshop / name, "sample")
        check([e["step"] for e in samples] == [10] and samples[0]["prompt"] == "the ship ",
              samples)
        check("step 10 | sample: \"the ship " in out, out)
        check(events(workshop / name, "validation")[-1]["sets"][1]["name"] == "unseen", name)
    text = workshop.run("report", "mask1", "--text").done().out
    check("accuracy/quiz" in text and "validation_loss/unseen" in text, text)


@fact
def every_layout_gives_the_same_answers(workshop):
    prepared(workshop)
    changes = {**SEEN, "training": {"steps": 4, "local_batch_size": 2},
               "validation": {"freq": 4, "steps": 1, "multiple_choice": ["quiz.jsonl"]}}
    workshop.run("train", workshop.config("alone", changes)).done()
    expected = last_values(workshop / "alone")
    for number, (ranks, layout) in enumerate([(2, {"tensor": 2, "sequence": True}),
                                              (4, {"pipeline": 2, "zero": 3})]):
        name = f"layout{number}"
        config = workshop.config(name, {**changes, "parallelism": layout})
        workshop.run_ranks(ranks, "train", config).done()
        found = last_values(workshop / name)
        note(layout, found)
        check(sorted(found) == sorted(expected), found)
        for key, value in found.items():
            # An answer may turn on the last bits.
            most = 1.01 / QUESTIONS if key.startswith("accuracy") else 1e-4
            check(abs(value - expected[key]) <= most, key, found, expected)


@fact
def data_ranks_sample_and_go_on_together(workshop):
    prepared(workshop)
    changes = {"training": {"steps": 4, "local_batch_size": 2},
               "validation": {"sample_freq": 2, "sample_tokens": 5}}
    workshop.run_ranks(2, "train", workshop.config("run", changes)).done()
    samples = events(workshop / "run", "sample")
    check([e["step"] for e in samples] == [2, 4], samples)


@fact
def what_cannot_be_asked_is_refused(workshop):
    prepared(workshop)
    (workshop / "bad.jsonl").write_text('{"question": "a", "endings": ["b", "c"], "label": 0}\n')
    bad = {"validation": {"freq": 5, "multiple_choice": ["bad.jsonl"]}}
    workshop.run("train", workshop.config("run", bad)).refused(3, "bad.jsonl:1", "question")
    bad = {"validation": {"sample_freq": 5, "sample_tokens": 8, "sample_prompt": "x" * 30}}
    workshop.run("train", workshop.config("run", bad)).refused(2, "30 tokens")
    bad = {"validation": {"sample_freq": 5, "sample_tokens": 8}, "parallelism": {"zero": 3}}
    workshop.run("train", workshop.config("run", bad)).refused(2, "parallelism.zero is 3")


if __name__ == "__main__":
    main()
