#!/usr/bin/python3
"""What metrics.trace writes, and the bubble measured from it beside the predicted one."""
import json
import statistics

from checks import check, note, some_of
from facts import fact, main
from run_folder import events, metrics

# Enough work in a micro-batch for a message to be nothing beside it.
MODEL = {"model": {"flavor": "tiny", "num_hidden_layers": 8, "hidden_size": 256,
                   "intermediate_size": 1024},
         "training": {"seq_len": 128, "local_batch_size": 1, "steps": 12},
         "checkpoint": {"interval": 0}, "metrics": {"trace": True, "trace_steps": 10}}


def well_formed(folder, rank):
    """What the trace event format asks of a file, for a viewer to show all of it."""
    found = json.loads((folder / f"trace-{rank}.json").read_text())
    named = {kind: {(e["pid"], e["tid"] if kind == "thread_name" else None)
                    for e in found if e["ph"] == "M" and e["name"] == kind and e["args"]["name"]}
             for kind in ("process_name", "thread_name")}
    begun, rows = {}, {}
    for event in found:
        check(set(event) >= {"ph", "name", "pid", "tid", "ts", "cat"}, event)
        check(event["ph"] in "MXbe", event)
        check(isinstance(event["ts"], (int, float)) and isinstance(event["pid"], int), event)
        check((event["pid"], None) in named["process_name"], "a process without a name", event)
        check((event["pid"], event["tid"]) in named["thread_name"], "a row without a name", event)
        key = (event["cat"], event.get("id"), event["name"])
        if event["ph"] == "X":
            check(event["dur"] >= 0 and event["cat"], event)
            rows.setdefault((event["pid"], event["tid"]), []).append(event)
        elif event["ph"] == "b":
            check(isinstance(event["id"], (int, str)), event)
            check(key not in begun, "begun twice", event)
            begun[key] = event["ts"]
        elif event["ph"] == "e":
            check(begun.pop(key, event["ts"] + 1) <= event["ts"], "ends before it begins", event)
    check(not begun, "begun and never ended", begun)
    for row in rows.values():
        nested(row)


def nested(row):
    """A row's spans lie beside or inside each other: a viewer draws no others."""
    around = []
    for event in sorted(row, key=lambda e: (e["ts"], -e["dur"])):
        end = event["ts"] + event["dur"]
        while around and around[-1][0] <= event["ts"] + 1e-6:
            around.pop()
        check(not around or end <= around[-1][0] + 1e-6, "spans overlap", event, around[-1:])
        around.append((end, event))


def spans(folder, rank, category):
    """(name, start, end) in microseconds, by step."""
    found = json.loads((folder / f"trace-{rank}.json").read_text())
    whole = [(e["ts"], e["ts"] + e["dur"]) for e in found
             if e["ph"] == "X" and e["name"].startswith("step ")]
    whole.sort()
    return [[(e["name"], e["ts"], e["ts"] + e["dur"]) for e in found
             if e["ph"] == "X" and e["cat"] == category and start <= e["ts"] < end]
            for start, end in whole]


def bubble_of(folder, ranks, step):
    """From the files alone: the time until the last rank is done in which ranks do not work."""
    work = [spans(folder, rank, "compute")[step] for rank in range(ranks)]
    start = min(a for rank in work for _, a, _ in rank)
    end = max(b for rank in work for _, _, b in rank)
    busy = sum(b - a for rank in work for _, a, b in rank)
    return 1 - busy / (ranks * (end - start))


ATTEMPTS = 6


def measured(workshop, name, micro_batches):
    workshop.corpus()
    config = workshop.config(name, {**MODEL, "training": {**MODEL["training"],
                                                          "global_batch_size": micro_batches}})
    # A rank that loses its core to others lets the next one wait: of several runs one is left alone.
    for attempt in range(ATTEMPTS):
        folder = workshop / f"{name}-{attempt}"
        result = workshop.run_ranks(2, "train", config, "--parallelism.pipeline=2",
                                    f"--job.dump_folder={folder}").done()
        told = events(folder, "bubble")
        check(len(told) == 1, told)
        traced = statistics.median(bubble_of(folder, 2, step) for step in range(1, 10))
        told, predicted = told[0]["measured"], told[0]["predicted"]
        note(f"{micro_batches} micro-batches: predicted {predicted:.3f}, measured {told:.3f}, "
             f"from the traces {traced:.3f}")
        check(abs(predicted - 1 / (micro_batches + 1)) < 1e-9, predicted)
        check(abs(told - traced) < 0.05, "the reported bubble is not that of the traces")
        check("bubble:" in result.err, result)
        check(sum("bubble" in line for line in metrics(folder)) == 9, "metrics lack the bubble")
        if abs(told - predicted) < 0.10:
            return folder
    raise AssertionError("measured and predicted differ by more than 10 points")


@fact
def the_measured_bubble_is_near_the_predicted_one(workshop):
    measured(workshop, "run", 16)


@fact
def a_trace_shows_work_messages_and_waiting(workshop):
    """Of a run whose bubble is large."""
    folder = measured(workshop, "run", 4)
    for rank in (0, 1):
        well_formed(folder, rank)
        steps = spans(folder, rank, "compute")
        check(len(steps) == 10, len(steps), "steps traced")
        names = [f"{rank}{letter}{m}" for letter in "FB" for m in range(4)]
        for step in steps:
            check(sorted(name for name, _, _ in step) == sorted(names), step)
            ends = sorted((start, end) for _, start, end in step)
            check(all(a[1] <= b[0] for a, b in zip(ends, ends[1:])), "a rank works twice at once")
        check(all(spans(folder, rank, "idle")), "no waiting")
        for part in ("data", "gradients", "update"):
            check(all(any(name == part for name, _, _ in step)
                      for step in spans(folder, rank, "step")), part)
        found = json.loads((folder / f"trace-{rank}.json").read_text())
        begun = [e["id"] for e in found if e["ph"] == "b"]
        check(sorted(begun) == sorted(e["id"] for e in found if e["ph"] == "e"), "torn messages")
        check(len(begun) == 10 * 8, len(begun), "messages")  # 4 there, 4 back


def beside(folder, rank, name):
    """(start, end) in microseconds of what went on beside the rank's work."""
    found = json.loads((folder / f"trace-{rank}.json").read_text())
    ends = {e["id"]: e["ts"] for e in found if e["ph"] == "e"}
    return [(e["ts"], ends[e["id"]]) for e in found if e["ph"] == "b" and name in e["name"]]


@fact
def data_ranks_show_how_much_of_their_exchange_is_hidden(workshop):
    workshop.corpus()
    config = workshop.config("run", {**MODEL, "training": {**MODEL["training"],
                                                           "global_batch_size": 4}})
    for zero in some_of([0, 1, 2, 3], 2):
        result = workshop.run_ranks(2, "train", config, f"--parallelism.zero={zero}",
                                    f"--job.dump_folder=run{zero}").done()
        folder = workshop / f"run{zero}"
        told = events(folder, "hidden_communication")
        check(len(told) == 1 and 0 <= told[0]["measured"] <= 1, told)
        check("is hidden by compute (median)" in result.err, result)
        shares = [float(line["hidden_communication"]) for line in metrics(folder)
                  if "hidden_communication" in line]
        check(len(shares) == 9 and all(0 <= share <= 1 for share in shares), shares)
        note(f"zero {zero}: {told[0]['measured']:.3f} is hidden")
        for rank in (0, 1):
            well_formed(folder, rank)
            ran = beside(folder, rank, " in data")
            check(ran and all(start < end for start, end in ran), ran)
            check(any(start < end_of and start_of < end for start, end in ran
                      for step in spans(folder, rank, "compute") for _, start_of, end_of in step),
                  "nothing runs beside the work")


@fact
def one_rank_is_traced_too_and_a_run_may_be_shorter_than_its_trace(workshop):
    workshop.corpus()
    config = workshop.config("run", {"metrics": {"trace": True, "trace_steps": 1000},
                                     "training": {"steps": 3}, "lr_scheduler": {"warmup_steps": 0}})
    workshop.run("train", config).done()
    well_formed(workshop / "run", 0)
    check(len(spans(workshop / "run", 0, "compute")) == 3)
    check(not events(workshop / "run", "bubble"), "one rank has no bubble")


if __name__ == "__main__":
    main()
