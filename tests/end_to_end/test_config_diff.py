#!/usr/bin/python3
"""trireme config diff: what differs between two configs or runs, and what that means for a resume."""
import json

from checks import check
from facts import fact, main


def said(workshop, *words):
    return json.loads(workshop.run("config", "diff", "--json", *words).done().out)["changes"]


@fact
def every_difference_has_its_values_and_its_effect(workshop):
    before = workshop.config("a", {"optimizer": {"lr": 1e-3}})
    after = workshop.config("b", {"optimizer": {"lr": 2e-3}, "parallelism": {"bucket_mb": 3}, "job": {"seed": 7},
                                  "lr_scheduler": {"name": "wsd", "decay_type": "sqrt"}})
    effects = {change["key"]: change["effect"] for change in said(workshop, before, after)}
    check(effects == {"job.dump_folder": "bookkeeping", "job.seed": "changes data",
                      "optimizer.lr": "changes numerics", "lr_scheduler.name": "changes numerics",
                      "lr_scheduler.decay_type": "changes numerics",
                      "parallelism.bucket_mb": "performance only"}, effects)
    (rate,) = (change for change in said(workshop, before, after) if change["key"] == "optimizer.lr")
    check((rate["before"], rate["after"]) == ("0.001", "0.002"), rate)
    text = workshop.run("config", "diff", before, after).done().out
    check(text.startswith("changes data:\n  job.seed "), text)
    check("-> 0.002\n" in text and text.endswith(
        "6 keys differ: 1 changes data, 3 changes numerics, 1 performance only, 1 bookkeeping\n"), text)


@fact
def a_key_that_one_config_does_not_have_is_said_to(workshop):
    adamw = workshop.config("a", {"job": {"dump_folder": "run"}})
    lion = workshop.config("b", {"job": {"dump_folder": "run"}, "optimizer": {"name": "Lion"}})
    changes = {change["key"]: (change["before"], change["after"]) for change in said(workshop, adamw, lion)}
    check(changes["optimizer.name"] == ('"AdamW"', '"Lion"') and changes["optimizer.eps"] == ("1e-08", None), changes)
    check("1e-08 -> (does not apply)" in workshop.run("config", "diff", adamw, lion).done().out)


@fact
def a_run_is_compared_with_the_config_that_made_it(workshop):
    workshop.corpus()
    made = workshop.config("run")
    workshop.run("train", made, "--optimizer.lr=2e-3", "--training.steps=2").done()
    check([change["key"] for change in said(workshop, made, "run")] == ["training.steps", "optimizer.lr"],
          said(workshop, made, "run"))
    check(workshop.run("config", "diff", "run", "run/config.toml").done().out ==
          "The configs have the same values.\n")
    check(said(workshop, made, made) == [])


@fact
def what_cannot_be_compared_is_refused(workshop):
    made = workshop.config("run")
    (workshop / "empty").mkdir()
    workshop.run("config", "diff", made, "absent.toml").refused(2, "absent.toml")
    workshop.run("config", "diff", made, "empty").refused(2, "empty is no run folder")
    workshop.run("config", "diff", made).refused(2, "AFTER")
    workshop.run("config", "diff", made, made, "--optimizer.lr=1").refused(2, "takes no --optimizer.lr")


if __name__ == "__main__":
    main()
