#!/usr/bin/python3
"""Runs as jobs of a real Slurm, by the scripts that trireme slurm prints."""
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time

from checks import TIMEOUT, check, note
from commands import has_pending
from facts import fact, main
from flight_recorder import held_rank
from run_folder import checkpoints, events, same_curve, steps_done
from slurm_jobs import (ENDLESS, SHARED, SLOW_STEPS, Job, cluster_for, options, script, shared_files, stops,
                        train_alone)
from workshop import inject_fault, slurm_cluster


@fact
def a_script_asks_for_what_the_layout_needs(workshop):
    layout = {"job": {"threads": 3}, "parallelism": {"tensor": 2, "data_shard": 4},
              "training": {"global_batch_size": 16}}
    config = workshop.config("run", layout)
    text = workshop.run("slurm", config, "--nodes=2", "--time=1-12", "--partition=long",
                        "--sbatch=--account=me", "--optimizer.lr=0.001").done().out
    asked = options(text)
    for option in ("--nodes=2", "--ntasks-per-node=4", "--cpus-per-task=3", "--time=1-12",
                   "--partition=long", "--account=me", "--requeue", "--open-mode=append",
                   "--signal=USR1@180", "--job-name=run"):
        check(option in asked, option, "is not in", asked)
    check("--gpus-per-node=4" not in asked and "--no-kill" not in asked, asked)
    command = next(line for line in text.splitlines() if line.startswith("srun "))
    check(shlex.split(command)[-4:-1] == ["train", str(workshop / config),
                                          "--optimizer.lr=0.001"], command)
    open_layout = workshop.config("open", {"parallelism": {"data_shard": 0},
                                           "training": {"global_batch_size": 16}})
    text = workshop.run("slurm", open_layout, "--ranks=4", "--gpus-per-node=4", "--launch",
                        "--chain=array", "--jobs=7", "--nodes=2", "--spares=1").done().out
    for option in ("--nodes=3", "--no-kill", "--ntasks-per-node=2", "--gpus-per-node=4", "--signal=B:USR1@180",
                   "--no-requeue", "--array=1-7%1"):
        check(option in options(text), option, "is not in", options(text))
    check(f"launch -n 4 {workshop / open_layout} &" in text, text)
    # Where nothing tells the ranks: one a node, or a GPU; more where the other axes need them.
    for words, each in (([], 1), (["--gpus-per-node=2"], 2), (["--parallelism.pipeline=2", "--parallelism.tensor=4"], 2)):
        asked = options(workshop.run("slurm", open_layout, "--nodes=4",
                                     "--training.global_batch_size=32", *words).done().out)
        check(f"--ntasks-per-node={each}" in asked, words, asked)


@fact
def a_script_holds_any_path_and_is_the_shells(workshop):
    home = workshop / "it's a $HOME; \"folder\""
    home.mkdir()
    (home / workshop.config("run", {"job": {"dump_folder": "a b"}})).write_text(
        (workshop / "run.toml").read_text())
    text = workshop.run("slurm", home / "run.toml", "--job.description=a \"b\" 'c' $d").done().out
    command = next(line for line in text.splitlines() if line.startswith("srun "))
    words = shlex.split(command)
    check(words[-3:-1] == [str(home / "run.toml"), "--job.description=a \"b\" 'c' $d"], words)
    check("--job-name=a-b" in options(text), options(text))
    checked = subprocess.run(["bash", "-n"], input=text.encode(), capture_output=True, check=False)
    check(checked.returncode == 0 and not checked.stderr, checked)
    workshop.run("slurm", "run.toml", "--sbatch=--comment=a\nb").refused(2, "control character")


@fact
def what_no_job_can_be_is_refused(workshop):
    config = workshop.config("run", {"parallelism": {"data_shard": 4},
                                     "training": {"global_batch_size": 16}})
    workshop.run("slurm", config, "--nodes=3").refused(2, "4 ranks", "equally")
    workshop.run("slurm", config, "--ranks=6").refused(2, "[parallelism] needs 4 ranks")
    for limit in ("3", "3:00", "0:03:00", "0-0:3", "0-0:3:00"):
        workshop.run("slurm", config, f"--time={limit}").refused(2, f"--time {limit} ", "180 s")
    for limit in ("4", "3:01", "0:03:01", "0-1", "0-0:4", "0-0:3:01"):
        workshop.run("slurm", config, f"--time={limit}").done()
    workshop.run("slurm", config, "--time=soon").refused(2, "'soon'", "12:00:00")
    workshop.run("slurm", config, "--spares=1").refused(2, "--launch")
    workshop.run("slurm", config, "--chain=forever").refused(2, "--chain")
    workshop.run("slurm", config, "--training.stepz=3").refused(2, "training.steps")


@fact
def a_job_that_anything_stops_goes_on_to_the_same_curve(workshop):
    workshop.corpus()
    with cluster_for(workshop, nodes=4, grace=30) as slurm:
        begun = time.monotonic()
        slurm.env |= SLOW_STEPS
        run, limited = workshop / "asked", workshop / "limited"
        # Slurm looks for jobs near their time limit 30 s after its start, and every 30 s on: it warns
        # this one the first time that it looks.
        late = Job(slurm, limited, slurm.submit(script(
            workshop, "limited", workshop.config("limited", ENDLESS), "--nodes=2", "--time=2",
            "--warning=90", "--sbatch=--nodelist=n[3-4]", "--sbatch=--begin=now+20"),
            folder=workshop.folder))
        job = Job(slurm, run, slurm.submit(script(
            workshop, "asked", workshop.config("asked", ENDLESS), "--nodes=2",
            "--sbatch=--nodelist=n[1-2]"), folder=workshop.folder))

        def goes_on(what):
            before = steps_done(run)
            job.start_again()
            job.wait_for_steps(before + 5)
            note(f"{time.monotonic() - begun:.1f} s: {what}; stopped by {stops(run)}, goes on "
                 f"after step {before}")

        job.wait_for_steps(5)
        shared = shared_files(slurm.processes("n1") | slurm.processes("n2"))
        slurm.ask("scancel", "--signal=USR1", job.number)
        check(job.wait_for_stops(1) == ["SIGUSR1"], stops(run))
        goes_on("scancel --signal=USR1")
        slurm.ask("scancel", "--batch", "--signal=USR1", job.number)
        check(job.wait_for_stops(2)[1:] == ["SIGUSR1"], stops(run))
        goes_on("scancel --batch --signal=USR1")
        saved = checkpoints(run)[-1]
        shared |= shared_files(slurm.processes("n1") | slurm.processes("n2"))
        slurm.power_off("n2")
        slurm.report_lost("n2")
        slurm.wait_for(job.number, "PENDING")
        slurm.power_on("n2")
        goes_on(f"a lost node, back to step {saved}")
        # A warning that comes before its ranks have begun ends them, and the next is waited for.
        while (known := slurm.job(late.number))["JobState"] != "PENDING" or not stops(limited):
            if known["JobState"] == "PENDING" and int(known["Restarts"]):
                late.start_again()
            check(time.monotonic() < begun + TIMEOUT, "no warning came:", known)
            time.sleep(0.1)
        check(set(stops(limited)) == {"SIGUSR1"}, stops(limited))
        slurm.ask("scontrol", "update", f"JobId={late.number}", "TimeLimit=60")
        note(f"{time.monotonic() - begun:.1f} s: the time limit after {steps_done(limited)} steps")
        late.start_again()
        late.wait_for_steps(steps_done(limited) + 3)
        late.cancel()
        urgent = slurm.submit("--partition=urgent", "--nodelist=n[1-2]", "--exclusive",
                              "--output=/dev/null", "--wrap=true")
        check(job.wait_for_stops(3)[2:] == ["SIGTERM"], stops(run))
        slurm.wait_for(urgent, "COMPLETED")
        goes_on("a job of higher priority")
        check(int(slurm.job(job.number)["Restarts"]) >= 4, slurm.job(job.number))
        job.cancel()
    check(not [path for path in shared if pathlib.Path(path).exists()], shared)
    alone = train_alone(workshop, max(steps_done(run), steps_done(limited)))
    for folder in (run, limited):
        same_curve(folder, alone[:steps_done(folder)])


@fact
def a_supervised_job_is_requeued_too(workshop):
    workshop.corpus()
    with cluster_for(workshop, nodes=1, grace=30,
                     more="SlurmctldParameters=preempt_send_user_signal") as slurm:
        run = workshop / "watched"
        slurm.env |= SLOW_STEPS
        job = Job(slurm, run, slurm.submit(script(
            workshop, "watched", workshop.config("watched", ENDLESS), "--launch"),
            folder=workshop.folder))
        urgent = ("sbatch", "--partition=urgent", "--exclusive", "--output=/dev/null", "--wrap=true")
        for count, words in enumerate([("scancel", "--batch", "--signal=USR1", job.number),
                                       ("scontrol", "requeue", job.number), urgent], 1):
            job.wait_for_steps(steps_done(run) + 5)
            slurm.ask(*words)
            note(f"{words[0]} {words[1]}: stopped by {job.wait_for_stops(count)[-1]}")
            slurm.wait_for(job.number, "PENDING")
            check(checkpoints(run)[-1] == steps_done(run), checkpoints(run), steps_done(run))
            if words != urgent:
                job.start_again()
        # The last came by the signal that the script asks for, and 30 s before a SIGTERM would.
        check(stops(run)[::2] == ["SIGUSR1", "SIGUSR1"], stops(run))
        slurm.ask("scancel", job.number)
        slurm.wait_for(job.number, "CANCELLED")
        starts = [event["why"] for event in events(run, "launch")]
        check(len(starts) >= 2 and set(starts) == {"start"}, starts)
    same_curve(run, train_alone(workshop, steps_done(run)))


@fact
def a_chain_without_requeue_ends_with_the_run(workshop):
    workshop.corpus()
    runs = {kind: workshop / kind for kind in ("array", "singleton")}
    with cluster_for(workshop, nodes=2) as slurm:
        for kind in runs:
            script(workshop, kind, workshop.config(kind, SHARED), f"--chain={kind}", "--jobs=3")

        def submit(kind):
            slurm.env |= inject_fault("stop", 6, once=workshop / f"{kind}-held")
            return slurm.submit(f"{kind}.sbatch", folder=workshop.folder)

        array = submit("array")
        chain = [submit("singleton") for _ in range(3)]
        for kind, first in (("array", f"{array}_1"), ("singleton", chain[0])):
            Job(slurm, runs[kind], first).wait_until(
                lambda kind=kind: held_rank(runs[kind], workshop / f"{kind}-held"),
                lambda: "no rank has stopped")
            # A job array's signal takes seconds to arrive: the rank is released when it has it.
            slurm.start("scancel", "--signal=USR1", first)
            rank = held_rank(runs[kind], workshop / f"{kind}-held")
            Job(slurm, runs[kind], first).wait_until(
                lambda rank=rank: has_pending(rank, signal.SIGUSR1), lambda: "no signal came")
            os.kill(rank, signal.SIGCONT)
        for first, second, third in (tuple(f"{array}_{i}" for i in (1, 2, 3)), chain):
            check(slurm.wait_for(first, "FAILED")["ExitCode"] == "75:0", slurm.job(first))
            slurm.wait_for(second, "COMPLETED")
            slurm.wait_for(third, "CANCELLED")
    alone = train_alone(workshop, SHARED["training"]["steps"])
    for run in runs.values():
        check(len(stops(run)) == 2, stops(run))
        same_curve(run, alone)


@fact
def a_job_that_cannot_succeed_is_not_requeued(workshop):
    workshop.corpus()
    with cluster_for(workshop, nodes=2) as slurm:
        config = workshop.config("wrong", SHARED)
        job = script(workshop, "wrong", config, "--nodes=2")
        with open(workshop / config, "a", encoding="ascii") as file:
            file.write("[job2]\n")
        number = slurm.submit(job, folder=workshop.folder)
        ended = slurm.wait_for(number, "FAILED")
        told = (workshop / f"wrong-{number}.out").read_text()
        check((ended["ExitCode"], ended["Restarts"]) == ("2:0", "0"), ended, told)
        check(told.count("trireme: error: ") == 1 and "job2" in told, told)
        check("exit 2: the config" in told, told)

        config = workshop.config("alone", SHARED)
        done = slurm.run("srun", "--nodes=2", "--ntasks=2", workshop.trireme, "train", config,
                         cwd=workshop.folder)
        note(done.err.strip())
        check(done.code == 5, done)
        check(done.err.count("trireme: error: ") == 1, done)
        check("srun --mpi=pmix" in done.err, done)
        check(not (workshop / "alone").exists(), "a run folder was made")


@fact
def a_job_whose_srun_fails_is_requeued_twice(workshop):
    with cluster_for(workshop, nodes=1) as slurm:
        slurm.env["SLURM_STEP_GRES"] = "gpu:1"  # no node has one
        config = workshop.config("unstarted", {"training": {"global_batch_size": 16}})
        job = Job(slurm, workshop / "unstarted", slurm.submit(
            script(workshop, "unstarted", config), folder=workshop.folder))
        for restarts in "1", "2":
            job.wait_until(lambda: slurm.job(job.number)["Restarts"] == restarts,
                           lambda: f"less than {restarts} restarts")
            job.start_again()
        ended = slurm.wait_for(job.number, "FAILED")
        told = (workshop / f"unstarted-{job.number}.out").read_text()
        check((ended["ExitCode"], ended["Restarts"]) == ("93:0", "2"), ended, told)
        check(told.count("exit 128: a rank or a node was lost") == 3, told)
        check(told.count("Unable to create step") >= 3 and told.count("third loss in a row") == 1,
              told)


def mentions(text):
    """The processes whose words or environment have the text."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:  # ended meanwhile
            continue
        if text.encode() in told:
            found.append(process.name)
    return found


@fact
def a_cluster_ends_even_with_a_test_that_is_killed(workshop):
    with slurm_cluster() as slurm:
        module = sys.modules[type(slurm).__module__].__file__
        check(len(mentions(str(slurm.folder))) > 3, mentions(str(slurm.folder)))
    check(not mentions(str(slurm.folder)) and not slurm.folder.exists(), "it is still there")
    words = 'echo "$SLURM_CONF"; exec srun --nodes=2 bash -c "echo runs; sleep 1000"'
    with subprocess.Popen([sys.executable, "-B", module, "2", "bash", "-c", words],
                          stdout=subprocess.PIPE, text=True) as test:
        folder = pathlib.Path(test.stdout.readline().strip()).parent
        check([test.stdout.readline() for _ in range(2)] == 2 * ["runs\n"], "no step")
        test.send_signal(signal.SIGKILL)
        end = time.monotonic() + TIMEOUT
        while mentions(str(folder)) or folder.exists():
            check(time.monotonic() < end, "left:", mentions(str(folder)), folder)
            time.sleep(0.1)


if __name__ == "__main__":
    main(at_once=2)  # each has its own cluster, and it is mostly Slurm that is waited for
