#!/usr/bin/python3
"""trireme audit finds a run clean however often it was killed, moved, rolled back; and it finds
what was changed in its ledger or in its token files."""
import fcntl
import re
import shutil

from checks import check, note
from facts import fact, main
from run_folder import checkpoints, events, steps_done

BATCH, STEPS = 4, 36
CONFIG = {"model": {"flavor": "tiny", "num_hidden_layers": 2},
          "training": {"steps": STEPS, "local_batch_size": 1, "global_batch_size": BATCH},
          "lr_scheduler": {"name": "constant"},
          "checkpoint": {"interval": 6}}


def options_of(layout):
    ranks, *options = layout
    return ranks, [f"--parallelism.{option}" for option in options]


def killed_after(workshop, config, run, layout, step):
    ranks, options = options_of(layout)
    workshop.kill_in(step + 1, "train", config, *options, ranks=ranks)
    with (run / "LEASE.json").open() as lease:
        fcntl.flock(lease, fcntl.LOCK_EX)  # mpirun's ranks outlive it by a moment
    note(f"{layout}: killed after step {steps_done(run)}, checkpoints {checkpoints(run)}")


def clean(workshop, run, *options):
    """The table's rows by their names."""
    result = workshop.run("audit", run, *options).done()
    check(result.out.endswith("\nclean\n"), result)
    return {line[:13].rstrip(): line[14:] for line in result.out.splitlines()[:-1]}


def numbers(row):
    return [int(number) for number in re.findall(r"\d+", row)]


@fact
def a_run_that_is_killed_and_moved_to_other_layouts_is_clean(workshop):
    workshop.corpus()
    run = workshop / "run"
    config = workshop.config("run", {**CONFIG, "job": {"reproducible": True, "threads": 1}})
    killed_after(workshop, config, run, (1,), 8)
    killed_after(workshop, config, run, (2, "data_shard=2"), 14)
    killed_after(workshop, config, run, (2, "pipeline=2"), 20)
    workshop.run("train", config).done()
    numbered = [event["incarnation"] for event in events(run) if event["event"] in
                ("start", "resume")]
    check(numbered == [1, 2, 3, 4], numbered)
    table = clean(workshop, "run", "--data")
    note(table)
    check(table["steps"] == f"1 to {STEPS}, {STEPS} lines", table)
    check(numbers(table["samples"]) == [BATCH * STEPS, 0], table)
    again = numbers(table["repeated"])
    check(again[0] >= 3 and len(set(again)) == 1, "all had the same bits, and had to:", table)
    check(numbers(table["checkpoints"]) == [len(checkpoints(run))], table)
    check(numbers(table["data"])[0] >= BATCH * STEPS, table)


@fact
def a_layout_that_promises_no_bits_has_to_have_the_samples(workshop):
    workshop.corpus()
    run = workshop / "run"
    config = workshop.config("run", CONFIG)
    killed_after(workshop, config, run, (1,), 9)
    workshop.run_ranks(2, "train", config, "--parallelism.tensor=2").done()
    again = numbers(clean(workshop, "run", "--data")["repeated"])
    check(again[0] == again[1] and again[0] >= 1 and again[3] == 0, again)


@fact
def a_run_that_goes_on_from_memory_is_clean(workshop):
    """Validation, a blend and an epoch that ends are in it, too."""
    workshop.corpus(words=2000)
    workshop.corpus("second", seed=2, words=900)
    run = workshop / "run"
    (workshop / "shm").mkdir()
    config = workshop.config("run", {
        **CONFIG, "elastic": {"memory_interval": 3, "memory_folder": workshop / "shm"},
        "data": {"train": [{"path": "corpus"}, {"path": "second", "weight": 3}], "split": 0.2,
                 "document_mask": True},
        "training": {**CONFIG["training"], "dtype": "float16", "seq_len": 128},
        "validation": {"freq": 7, "steps": 2}})
    for step in (4, 11, 20, 27):
        killed_after(workshop, config, run, (1,), step)
    workshop.run("train", config).done()
    check(any(event["in_memory"] for event in events(run, "resume")), events(run, "resume"))
    table = clean(workshop, "run", "--data")
    note(table)
    again = numbers(table["repeated"])
    check(again[0] >= 1 and len(set(again)) == 1, table)


@fact
def what_was_left_out_has_its_reason(workshop):
    workshop.corpus()
    injection = "step={} rank=0 parameter=layers.1.mlp.up.weight value=nan"
    for policy, left_out in (("skip", 3 + BATCH), ("rollback", 3 + 3 * BATCH)):
        changes = {**CONFIG, "data": {"train": [{"path": "corpus"}], "skip": [[5, 8]]},
                   "training": {**CONFIG["training"], "on_nonfinite": policy}}
        config = workshop.config(policy, changes)
        workshop.run("train", config, "--training.steps=15",
                     env={"TRIREME_INJECT_GRADIENT": injection.format(9)}).done()
        workshop.run_ranks(2, "train", config, "--parallelism.data_shard=2").done()
        table = clean(workshop, policy, "--data")
        note(policy, table)
        check(numbers(table["samples"]) == [BATCH * STEPS, left_out], table)
        check(numbers(table["incarnations"]) == [2, int(policy == "rollback")], table)
        log = workshop / policy / "events.jsonl"
        log.write_text("".join(line + "\n" for line in log.read_text().splitlines()
                               if f'"event":"{policy}"' not in line))
        result = workshop.run("audit", policy)
        result.refused(3, "not clean", "events.jsonl:")
        check(re.search(r"^ledger\.jsonl:.* are excluded", result.out, re.MULTILINE), result)


@fact
def a_ledger_that_was_changed_is_not_clean(workshop):
    workshop.corpus()
    workshop.run("train", workshop.config("run", CONFIG)).done()
    path = workshop / "run/ledger.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    check(len(lines) == STEPS + 1, lines)

    def refused(changed, *words):
        path.write_text("".join(changed))
        workshop.run("audit", "run").refused(3, "run is not clean", *words)

    refused(lines[:7] + lines[8:], "ledger.jsonl:8: step 8", "was modified")
    refused(lines[:7] + lines[6:], "ledger.jsonl:8: step 6", "was modified")
    refused(lines[:-1], f"metrics.jsonl:{STEPS}: step {STEPS}", "the ledger does not have this step")
    digit = re.search('"hash":"(.)', lines[4]).group(1)
    flipped = lines[4].replace(f'"hash":"{digit}', f'"hash":"{"0" if digit == "1" else "1"}')
    refused(lines[:4] + [flipped] + lines[5:], "ledger.jsonl:5: step 4", "was modified")
    path.write_text("".join(lines) + lines[-1][:40])  # torn by a kill
    clean(workshop, "run")
    path.unlink()
    workshop.run("audit", "run").refused(3, "has no ledger.jsonl")
    workshop.run("audit", "nowhere").refused(2, "no such run folder")


def live(workshop, run):
    """A running run: what it lacks is being written, neither the audit nor the report is red."""
    result = workshop.run("audit", run).done()
    check(result.out.startswith("running       process ") and result.out.endswith("\nclean so far\n"), result)
    workshop.run("report", run, "--output", "live.html").done()
    page = (workshop / "live.html").read_text()
    check('class="state bad"' not in page, "the report of a live run is red")
    check(page.count('<span class="state open">running</span>') == 1, "it does not say running")
    check('<span class="state good">clean so far</span>' in page, "it does not say clean so far")


@fact
def a_run_that_is_held_at_any_stage_is_running(workshop):
    workshop.corpus()
    config = workshop.config("run", CONFIG)
    run = workshop / "run"
    workshop.kill_in(9, "train", config)
    result = workshop.run("audit", "run").done()
    check("running" not in result.out and result.out.endswith("\nclean\n"), result)
    stages = ("data", "forward", "backward", "gradient-norm", "optimizer", "report", "snapshot",
              "save")
    for count, stage in enumerate(stages):
        step = 12 if stage in ("snapshot", "save") else 10 + count
        with workshop.start_held(step, "train", config, phase=stage):
            note(f"{stage} of step {step}")
            live(workshop, "run")
            # What a write that is under way leaves for a moment.
            for name in ("ledger.jsonl", "metrics.jsonl", "events.jsonl"):
                whole = (run / name).read_bytes()
                (run / name).write_bytes(whole[:-20])
                if name != "ledger.jsonl":  # the metrics and events follow it
                    live(workshop, "run")
                (run / name).write_bytes(whole + b'{"step":')
                live(workshop, "run")
                (run / name).write_bytes(whole)
    workshop.run("train", config).done()
    clean(workshop, "run")


@fact
def a_run_that_starts_is_running(workshop):
    workshop.corpus()
    config = workshop.config("run", {**CONFIG, "checkpoint": {"interval": 6, "async": False}})
    with workshop.start_held(0, "train", config, phase="start"):
        result = workshop.run("audit", "run").done()
        check(result.out.startswith("running       ") and "steps         none" in result.out, result)
    workshop.run("audit", "run").refused(3, "has no ledger.jsonl")
    workshop.kill_in(9, "train", config)
    metrics = workshop / "run/metrics.jsonl"
    whole = metrics.read_bytes()
    with workshop.start_held(7, "train", config, phase="data"):
        # It has told the ledger where it goes on, and is about to cut the metrics.
        metrics.write_bytes(whole)
        live(workshop, "run")


@fact
def a_run_is_audited_while_it_trains(workshop):
    workshop.corpus()
    config = workshop.config("run", {**CONFIG, "checkpoint": {"interval": 10},
                                     "training": {**CONFIG["training"], "seq_len": 16,
                                                  "steps": 100000}})
    audits = 0
    with workshop.start("train", config) as process:
        process.wait_for(lambda: steps_done(workshop / "run") > 20, "20 steps")
        while audits < 60:
            check(process.running(), process.text())
            live(workshop, "run")
            audits += 1
    note(f"{audits} audits, the last after step {steps_done(workshop / 'run')}")


@fact
def other_token_files_are_not_the_runs(workshop):
    workshop.corpus()
    workshop.run("train", workshop.config("run", CONFIG)).done()
    clean(workshop, "run", "--data")
    tokens = workshop / "corpus.bin"
    good = tokens.read_bytes()
    tokens.write_bytes(bytes(byte ^ 1 if place % 16 == 0 and byte >= ord("a") else byte
                             for place, byte in enumerate(good)))
    clean(workshop, "run")
    message = workshop.run("audit", "run", "--data").refused(3, "run is not clean")
    check("token files" in message, message)
    tokens.write_bytes(good)
    clean(workshop, "run", "--data")


@fact
def events_that_were_lost_cut_or_edited_are_found(workshop):
    workshop.corpus()
    run = workshop / "run"
    config = workshop.config("run", CONFIG)
    killed_after(workshop, config, run, (1,), 14)
    workshop.run("train", config).done()
    clean(workshop, run)
    file = run / "events.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    resumed = next(n for n, line in enumerate(lines) if '"event":"resume"' in line)

    def found(lines, *words):
        file.write_text("".join(lines))
        workshop.run("audit", run).refused(3, "events.jsonl", *words)

    for number, line in enumerate(lines):
        edited = line.replace('"step":', '"step":1', 1)
        found(lines[:number] + [edited] + lines[number + 1:], f"events.jsonl:{number + 1}")
        if number + 1 < len(lines):
            found(lines[:number] + lines[number + 1:], f"events.jsonl:{number + 1}")
    found(lines[:1], "lines were lost")
    found(lines[:resumed], "resume of incarnation 2")
    file.unlink()
    workshop.run("audit", run).refused(3, "events.jsonl", "lines were lost")
    # Those of an earlier version have neither numbers nor chains.
    file.write_text('{"time":"2026-03-01T12:00:00.123Z","event":"warning","step":0,"text":"x"}\n')
    (run / "ledger.jsonl").unlink()
    for name in "metrics.jsonl", "checkpoints":
        path = run / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    workshop.run("train", config).done()
    clean(workshop, run)


if __name__ == "__main__":
    main()
