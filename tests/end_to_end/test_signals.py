#!/usr/bin/python3
"""Signals stop a run after its step, with a checkpoint; the next start goes on."""
import signal
import time

from checks import check, note, random_of
from commands import Process
from facts import fact, main
from run_folder import checkpoints, curve, events, partials, same_checkpoint, same_curve, steps_done
from workshop import MPI

# Steps that take long enough to be interrupted, and a checkpoint only when asked for.
SLOW = {"training": {"seq_len": 64, "local_batch_size": 8, "global_batch_size": 8},
        "checkpoint": {"interval": 0}}


def stops_and_goes_on(workshop, number):
    name = signal.Signals(number).name
    rng = random_of(name)
    workshop.corpus()
    workshop.run("train", workshop.config("whole", SLOW)).done()
    config, run = workshop.config("stopped", SLOW), workshop / "stopped"
    after = rng.randint(1, 12)
    phase = rng.choice(["data", "forward", "backward", "optimizer"])
    with workshop.start_held(after + 1, "train", config, phase=phase) as process:
        process.send(number)
        process.send(signal.SIGCONT)
        stopped = process.wait()
    note(f"{name} after step {after}, in the next one's {phase}: exit {stopped.code}, "
         f"checkpoints {checkpoints(run)}")
    check(stopped.code == 75, stopped)
    check(checkpoints(run) == [steps_done(run)], checkpoints(run), steps_done(run), "steps done")
    check(steps_done(run) == after + 1, steps_done(run), "steps done")
    stop = events(run, "stop")[-1]
    check((stop["reason"], stop["exit_code"]) == (name, 75), stop)
    check(f"stopped by {name}" in stopped.err, stopped)
    workshop.run("train", config).done()
    same_curve(run, curve(workshop / "whole"))
    same_checkpoint(workshop, "stopped", "whole")


@fact
def sigterm_commits_the_step_and_the_next_start_goes_on(workshop):
    stops_and_goes_on(workshop, signal.SIGTERM)


@fact
def sigusr1_commits_the_step_and_the_next_start_goes_on(workshop):
    stops_and_goes_on(workshop, signal.SIGUSR1)


@fact
def sigint_commits_the_step_and_the_next_start_goes_on(workshop):
    stops_and_goes_on(workshop, signal.SIGINT)


@fact
def a_signal_before_the_first_step_leaves_a_checkpoint_to_go_on_from(workshop):
    workshop.corpus()
    workshop.run("train", workshop.config("whole", SLOW)).done()
    config, run = workshop.config("early", SLOW), workshop / "early"
    with workshop.start_held(0, "train", config, phase="load") as process:
        process.send(signal.SIGTERM)
        process.send(signal.SIGCONT)
        stopped = process.wait()
    note(f"exit {stopped.code}, checkpoints {checkpoints(run)}")
    check(stopped.code == 75 and checkpoints(run) == [steps_done(run)], stopped)
    workshop.run("train", config).done()
    same_curve(run, curve(workshop / "whole"))
    same_checkpoint(workshop, "early", "whole")


@fact
def a_signal_to_mpirun_leaves_a_checkpoint_and_sigusr1_its_exit_code(workshop):
    workshop.corpus()
    sections = {**SLOW, "training": {**SLOW["training"], "global_batch_size": 16, "steps": 100000},
                "lr_scheduler": {"name": "constant"}}
    for number, expected in ((signal.SIGUSR1, 75), (signal.SIGTERM, 1)):
        name = signal.Signals(number).name.lower()
        words = workshop.launch(2, "train", workshop.config(name, sections))
        with Process(words, workshop.folder, {**workshop.env, **MPI}) as process:
            check(process.wait_for(lambda at=workshop / name: steps_done(at) >= 2, "steps"),
                  process.text())
            process.send(number)
            done = process.wait()
        run = workshop / name
        check(done.code == expected and checkpoints(run) == [steps_done(run)], done)
        stop = events(run, "stop")[-1]
        check(stop["exit_code"] == 75, stop)
        note(f"{number.name}: mpirun ends with {done.code}, its ranks with {stop['exit_code']}")


@fact
def a_second_sigint_ends_at_once_and_loses_no_checkpoint(workshop):
    workshop.corpus()
    slow = {"training": {"seq_len": 256, "local_batch_size": 8, "global_batch_size": 256,
                         "steps": 4},
            "lr_scheduler": {"name": "constant", "warmup_steps": 0},
            "checkpoint": {"interval": 1, "async": False}}  # the first is there in the second step
    config, run = workshop.config("run", slow), workshop / "run"
    # With most of the second step ahead: between two steps one SIGINT is enough.
    with workshop.start_held(2, "train", config, phase="backward") as process:
        check(checkpoints(run) == [1] and not partials(run), checkpoints(run), partials(run))
        process.send(signal.SIGINT)
        process.send(signal.SIGCONT)
        check(process.wait_for(lambda: not process.has_pending(signal.SIGINT), "the first SIGINT"),
              process.text())
        start = time.monotonic()
        process.send(signal.SIGINT)
        code = process.wait().code
        seconds = time.monotonic() - start
    note(f"exit {code} {1000 * seconds:.0f} ms after the second SIGINT, {steps_done(run)} steps "
         f"done, checkpoints {checkpoints(run)}")
    check(code == 130, "exit", code)
    check(1 in checkpoints(run), checkpoints(run))
    workshop.run("train", config, "--training.steps=2").done()
    check([line[0] for line in curve(run)] == ["1", "2"], curve(run))


if __name__ == "__main__":
    main()
