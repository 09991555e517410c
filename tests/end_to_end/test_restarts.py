#!/usr/bin/python3
"""`trireme launch` over ranks that are killed, stopped, aborted, leave or throw, in every phase: the
run ends by itself with the bits of one that was left alone, each verdict names rank and phase, and
nothing is left."""
import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import time

from checks import PATIENCE, check, note, random_of
from facts import fact, main
from fault_matrix import (CASES, LAYOUTS, RANKS, SECTIONS, faults_of_one_run, go_through,
                          left_alone)
from flight_recorder import held_rank
from launched import Fault, Launched, tell_recoveries, when
from run_folder import events, steps_done
from workshop import inject_fault


def changed(**changes):
    return {section: {**SECTIONS.get(section, {}), **changes.get(section, {})}
            for section in {**SECTIONS, **changes}}


@contextlib.contextmanager
def held_in_step(workshop, step, sections):
    """A run whose first rank has stopped itself in that step, and that rank's process."""
    token = workshop / "held"
    with Launched(workshop, "run", RANKS, sections,
                  env=inject_fault("stop", step, once=token)) as run:
        check(run.process.wait_for(lambda: held_rank(run.folder, token), f"step {step}"),
              run.process.text())
        yield run, held_rank(run.folder, token)


COUNT = 4
HOST = re.escape(socket.gethostname())


def some_cases_of(workshop, name):
    """Others each time; scripts/fault_matrix goes through all."""
    start, whole = time.monotonic(), left_alone(workshop, LAYOUTS[name])
    faults = faults_of_one_run(CASES[name], COUNT, random_of(name))
    go_through(workshop, "run", LAYOUTS[name], faults, whole)
    note(f"{len(faults)} faults in {time.monotonic() - start:.0f} s")


@fact
def faults_of_ranks_that_share_the_batch(workshop):
    some_cases_of(workshop, "data")


@fact
def faults_of_ranks_that_share_the_products(workshop):
    some_cases_of(workshop, "tensor")


@fact
def faults_of_ranks_that_share_the_layers(workshop):
    some_cases_of(workshop, "pipeline")


@fact
def five_faults_in_ten_steps(workshop):
    rng = random.Random(5)
    sections = changed(training={"steps": 20}, elastic={"memory_interval": 1})
    whole = left_alone(workshop, sections=sections)
    faults = [Fault("kill", phase, rng.randrange(RANKS), step) for step, phase in
              [(3, "forward"), (5, "reduction"), (7, "snapshot"), (9, "data"), (12, "backward")]]
    with Launched(workshop, "run", RANKS, sections, faults=faults) as run:
        run.end()
        recoveries = tell_recoveries(run)
        check(len(recoveries) == len(faults), recoveries)
        run.like(whole)


@fact
def a_rank_that_hangs_or_stops_while_it_leaves(workshop):
    sections = changed(training={"steps": 12}, elastic={"stall_timeout_s": 4 * PATIENCE})
    whole = left_alone(workshop, sections=sections)
    for action in "hang", "stop":
        fault = Fault(action, "end", 2, 12)
        with Launched(workshop, action, RANKS, sections, faults=[fault]) as run:
            run.inject(fault)
            run.end()
            run.like(whole)


@fact
def a_crash_that_comes_back_ends_the_run_until_it_is_mended(workshop):
    sections = changed(training={"steps": 20}, elastic={"restart_wait_s": 1})
    whole = left_alone(workshop, sections=sections)
    fault = "rank=3 step=8 phase=backward action=throw"
    env = {"TRIREME_INJECT_FAULT": fault}
    with Launched(workshop, "run", RANKS, sections, env=env) as run:
        result = run.end(93)
        launches, last = events(run.folder, "launch"), events(run.folder, "give_up")[-1]
        check(last["exit_code"] == 93, last)
        check(fault in events(run.folder, "failure")[-1]["text"], events(run.folder, "failure"))
        told = result.err.strip().splitlines()[-1]
        note(f"{len(launches)} incarnations, step {steps_done(run.folder)}: {told}")
        check(len(launches) <= 4 and steps_done(run.folder) == 7, launches)
        run.process = run.start(TRIREME_INJECT_FAULT="rank=9 step=1 phase=data action=kill")
        run.end()
        run.like(whole)


@fact
def no_more_restarts_than_allowed(workshop):
    sections = changed(training={"steps": 20}, elastic={"max_restarts": 2})
    whole = left_alone(workshop, sections=sections)
    faults = [Fault("kill", "forward", 1, step) for step in (4, 8, 12)]
    with Launched(workshop, "run", RANKS, sections, faults=faults) as run:
        result, last = run.end(7), events(run.folder, "give_up")[-1]
        note(last["why"])
        check(last["exit_code"] == 7, result)
        check(len(events(run.folder, "failure")) == 3, events(run.folder, "failure"))
        run.process = run.start()
        run.end()
        run.like(whole)


@fact
def a_killed_supervisor_takes_its_ranks_with_it(workshop):
    whole = left_alone(workshop)
    with Launched(workshop, "run", RANKS, SECTIONS) as run:
        for injected, step in enumerate((10, 30, 50)):
            run.injected = injected
            run.ledger(0)  # mpirun has come so far that it cleans up behind itself
            check(run.process.wait_for(lambda at=step: steps_done(run.folder) >= at, "steps"),
                  run.process.text())
            run.process.send(signal.SIGKILL)
            run.process.wait()
            for process in run.left() if injected == 1 else ():  # mpirun too, before it has cleaned up
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            start = time.monotonic()
            while run.left() and time.monotonic() - start < 20 * PATIENCE:
                time.sleep(0.01)
            check(not run.left(), "processes are left after 20 s:", run.left())
            note(f"all gone after {time.monotonic() - start:.1f} s, step {steps_done(run.folder)}")
            run.process = run.start()
        run.end()
        run.like(whole)


def stat_of(process):
    """Its state and its parent, as /proc has them."""
    return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()[:2]


@fact
def all_ranks_killed_at_once_are_a_failure_that_the_supervisor_tells(workshop):
    sections = changed(training={"steps": 20}, elastic={"heartbeat_timeout_s": 30 * PATIENCE})
    whole = left_alone(workshop, sections=sections)
    with held_in_step(workshop, 7, sections) as (run, _):
        for process in [run.ledger(rank).pid for rank in range(RANKS)]:
            os.kill(process, signal.SIGKILL)
        run.end()
        failure, = events(run.folder, "failure")
        note(failure["text"])
        check(failure["health"] in ("lost", "stalled") and failure["exit_code"] == 7, failure)
        run.like(whole)


@fact
def no_rank_is_said_to_have_stood_still_when_its_launcher_ends(workshop):
    """mpirun passes SIGABRT on: which rank goes first is chance."""
    whole = left_alone(workshop)
    with Launched(workshop, "run", RANKS, SECTIONS) as run:
        for injected in range(2):
            run.injected = injected
            ledger, step = run.ledger(0), steps_done(run.folder)
            check(run.process.wait_for(lambda: steps_done(run.folder) > step + 5, "steps"),
                  run.process.text())
            os.kill(int(stat_of(ledger.pid)[1]), signal.SIGABRT)
        run.end()
        failures = events(run.folder, "failure")
        for failure in failures:
            note(failure["text"])
            check(failure["health"] == "lost" and "no progress" not in failure["text"], failure)
            check("(SIGABRT); every rank was making progress until then: step " in failure["text"] or
                  "was killed or crashed" in failure["text"], failure)
        check(len(failures) == 2, failures)
        run.like(whole)


@fact
def a_rank_that_is_alone_is_missed_by_the_supervisor(workshop):
    """Nobody else is there to see that it is stopped, or gone."""
    sections = changed(training={"steps": 200}, elastic={"stall_timeout_s": 600 * PATIENCE})
    whole = left_alone(workshop, sections=sections, ranks=1)
    with Launched(workshop, "run", 1, sections) as run:
        for injected, number, words in (
                (0, signal.SIGSTOP, rf"every rank is stopped: rank 0 \({HOST}\) sent no heartbeat"),
                (1, signal.SIGKILL, rf"rank 0 \({HOST}\) was killed or crashed")):
            run.injected = injected
            ledger, step = run.ledger(0), steps_done(run.folder)
            check(run.process.wait_for(lambda: steps_done(run.folder) > step + 5, "steps"),
                  run.process.text())
            injected_at = time.time()
            os.kill(ledger.pid, number)
            check(run.process.wait_for(lambda: len(run.verdicts()) > injected, "the verdict"),
                  run.process.text())
            failure = run.verdicts()[injected]
            note(f"{when(failure) - injected_at:.2f} s later: {failure['text']}")
            check(re.match(words, failure["text"]) and failure["ranks"] == [0], failure)
        run.end()
        run.like(whole)


@fact
def a_launcher_that_starts_no_rank_is_given_up(workshop):
    """Though ranks that load may stand still for much longer. Those that are started then are not
    hurried."""
    whole = left_alone(workshop)
    tools = workshop / "tools"
    tools.mkdir()
    (tools / "mpirun").write_text(f"""#!/bin/bash
[ -e {tools}/called ] || {{ touch {tools}/called; exec sleep 1000; }}
exec {shutil.which("mpirun")} "$@" --elastic.heartbeat_timeout_s={30 * PATIENCE} \\
  --elastic.stall_timeout_s={60 * PATIENCE}
""")
    (tools / "mpirun").chmod(0o755)
    sections = changed(elastic={"heartbeat_timeout_s": 1, "stall_timeout_s": 1})
    with Launched(workshop, "run", RANKS, sections,
                  env={"PATH": f"{tools}:{os.environ['PATH']}"}) as run:
        run.end()
        failure = events(run.folder, "failure")[0]
        check(failure["text"] == "no rank has made progress for 13 s" and failure["ranks"] == [], failure)
        check(events(run.folder, "ended")[0]["verdict"] == failure["text"], events(run.folder))
        check(len(events(run.folder, "launch")) == 2, events(run.folder, "launch"))
        run.like(whole)


@fact
def ranks_that_are_killed_before_they_know_each_other_are_told_with_the_phase(workshop):
    whole = left_alone(workshop)
    tools = workshop / "tools"
    tools.mkdir()
    (tools / "mpirun").write_text(f"""#!/bin/bash
[ -e {tools}/called ] || {{ touch {tools}/called; exec {shutil.which("mpirun")} -n 2 sh -c 'kill -9 $$'; }}
exec {shutil.which("mpirun")} "$@"
""")
    (tools / "mpirun").chmod(0o755)
    with Launched(workshop, "run", RANKS, SECTIONS,
                  env={"PATH": f"{tools}:{os.environ['PATH']}"}) as run:
        run.end()
        failure, = events(run.folder, "failure")
        note(failure["text"])
        check("exited with 137 (SIGKILL) while its ranks were starting (MPI_Init)" in failure["text"] and
              failure["phase"] == "start" and failure["ranks"] == [], failure)
        run.like(whole)


@fact
def a_signal_that_the_launcher_loses_is_sent_again(workshop):
    tools = workshop / "tools"
    tools.mkdir()
    (tools / "mpirun").write_text(f"""#!/bin/bash
{shutil.which("mpirun")} "$@" & run=$!
trap '[ -e {tools}/lost ] && kill -USR1 $run || touch {tools}/lost' USR1
while wait $run; code=$?; kill -0 $run 2>/dev/null; do :; done
exit $code
""")
    (tools / "mpirun").chmod(0o755)
    # An mpirun that ends slowly must not be killed: the supervisor knows the wrapper's process only and
    # would not find the folder that mpirun leaves then.
    sections = changed(training={"steps": 1000000}, elastic={"heartbeat_timeout_s": 30 * PATIENCE})
    with Launched(workshop, "run", RANKS, sections,
                  env={"PATH": f"{tools}:{os.environ['PATH']}"}) as run:
        check(run.process.wait_for(lambda: steps_done(run.folder) > 5, "steps"),
              run.process.text())
        run.process.send(signal.SIGUSR1)
        run.end(75)
        check((tools / "lost").exists(), "no signal was lost")
        check([event["reason"] for event in events(run.folder, "stop")] == ["SIGUSR1"],
              events(run.folder))


@fact
def a_second_supervisor_is_refused_and_told_of_the_first(workshop):
    whole = left_alone(workshop)
    sections = changed(elastic={"heartbeat_timeout_s": 60 * PATIENCE})
    with held_in_step(workshop, 7, sections) as (run, held):
        with run.start() as second:
            result = second.wait()
        note(result.err.strip().splitlines()[-1])
        check(result.code == 4 and run.process.running(), f"exit {result.code}:", result)
        for word in socket.gethostname(), str(run.process.popen.pid):
            check(word in result.err, f"it does not tell {word}:", result)
        os.kill(held, signal.SIGCONT)
        run.end()
        check(len(events(run.folder, "launch")) == 1, events(run.folder, "launch"))
        run.like(whole)


if __name__ == "__main__":
    # A sync costs nothing there, and what survives a kill is the same.
    if os.access("/dev/shm", os.W_OK):
        os.environ.setdefault("TMPDIR", "/dev/shm")
    main(at_once=2)  # they mostly wait
