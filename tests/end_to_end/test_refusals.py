#!/usr/bin/python3
"""Machines, devices and folders a run cannot have, and runs that cannot go on."""
import shutil
import signal
import subprocess

from checks import Skip, check, note
from facts import fact, main
from run_folder import checkpoints, contents, curve, events, metrics, same_curve
from workshop import MPI


@fact
def a_folder_that_cannot_be_made_is_refused(workshop):
    workshop.corpus()
    config = workshop.config("run", {"job": {"dump_folder": "corpus.bin/run"}})
    before = contents(workshop.folder)
    workshop.run("train", config).refused(5, workshop / "corpus.bin/run", "Not a directory")
    check(contents(workshop.folder) == before, "it wrote files")


@fact
def a_device_that_is_not_there_is_refused(workshop):
    workshop.corpus()
    config = workshop.config("run")
    message = workshop.run("train", config, "--job.device=cuda").refused(
        5, 'job.device = "cuda": ', 'use "cpu" or "auto"')
    check("\n" not in message, "more than a line:", message)
    known = ("this program was built without CUDA; build the preset", "driver",
             "does not train on GPUs")
    check(any(reason in message for reason in known), "no reason is named:", message)
    check(not (workshop / "run").exists(), "it made the run folder")


@fact
def ranks_that_were_launched_but_cannot_find_each_other_are_refused(workshop):
    """A plain srun starts every rank as if it were alone."""
    workshop.corpus()
    config = workshop.config("run")
    for launcher in [{"PMI_SIZE": "2", "PMI_RANK": "0"},
                     {"SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0"}]:
        workshop.run("train", config, env=launcher).refused(5, "2 processes",
                                                            "srun --mpi=pmix")
        check(not (workshop / "run").exists(), "it made the run folder")


@fact
def a_lone_rank_of_a_launcher_tells_what_a_run_without_one_does(workshop):
    if not shutil.which("mpirun"):
        raise Skip("mpirun is not installed")
    workshop.corpus()
    for number, (word, code) in enumerate([("--data.tokenizer=absent.json", 2),
                                           ("--model.vocab_size=100", 3),
                                           ("--job.dump_folder=corpus.bin/run", 5)]):
        config = workshop.config(f"run-{number}")
        alone = workshop.run("train", config, word).refused(code)
        launched = subprocess.run(
            ["mpirun", "-n", "1", str(workshop.trireme), "train", config, word],
            cwd=workshop.folder, env={**workshop.env, **MPI}, capture_output=True, text=True)
        check(launched.returncode == code, f"exit {launched.returncode} instead of {code}")
        check(alone in launched.stderr, launched.stderr, "lacks", alone)
        check("MPI_ABORT" not in launched.stderr, launched.stderr)


@fact
def a_second_run_on_the_same_folder_is_refused_and_the_first_goes_on(workshop):
    workshop.corpus()
    workshop.run("train", workshop.config("alone")).done()
    config, run = workshop.config("run"), workshop / "run"
    with workshop.start_held(3, "train", config) as first:
        before = contents(run)
        workshop.run("train", config).refused(4, run, f"process {first.popen.pid} on ",
                                              "job.dump_folder")
        workshop.run("checkpoint", "list", "alone").done()
        check({k: v for k, v in contents(run).items() if "partial" not in k} ==
              {k: v for k, v in before.items() if "partial" not in k}, "it changed the folder")
        first.send(signal.SIGCONT)
        first.wait().done()
    same_curve(run, curve(workshop / "alone"))
    check(not (run / "LEASE.json").exists(), "the lease outlived its holder")


@fact
def run_files_that_are_links_are_not_written_through(workshop):
    workshop.corpus()
    run, target = workshop / "run", workshop / "precious"
    config = workshop.config("run", {"lr_scheduler": {"name": "constant"}})
    workshop.run("train", config, "--training.steps=6").done()
    for name in "metrics.jsonl", "events.jsonl", "ledger.jsonl", "LEASE.json":
        kept = (run / name).read_bytes() if (run / name).exists() else None
        target.write_bytes(b"precious\n")
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(target)
        workshop.run("train", config).refused(5, run / name, "symbolic link", "regular file")
        check(target.read_bytes() == b"precious\n", name, "was written through")
        (run / name).unlink()
        if kept is not None:
            (run / name).write_bytes(kept)
    check("every user" not in workshop.run("train", config, "--training.steps=8").done().err)
    run.chmod(0o777)
    warned = workshop.run("train", config).done().err
    check(warned.count(f"{run.name}: every user of this machine can replace its files") == 1, warned)


@fact
def a_run_that_diverges_says_so_and_keeps_its_checkpoints(workshop):
    """Weight decay 100 times the learning rate 100 multiplies the weights by -9999 a step."""
    workshop.corpus()
    config = workshop.config("run", {
        "optimizer": {"lr": 100, "weight_decay": 100},
        "lr_scheduler": {"name": "constant", "warmup_steps": 0},
        "checkpoint": {"interval": 1}})
    run = workshop / "run"
    message = workshop.run("train", config).refused(6, "step", "not both finite", "optimizer.lr")
    newest = max(checkpoints(run))
    check(f"newest checkpoint: step {newest}" in message, newest)
    check(events(run)[-1]["event"] == "failure", events(run)[-1])
    check([line["step"] for line in metrics(run)] == [str(i + 1) for i in range(newest)],
          "a step that failed is in the metrics")
    workshop.run("checkpoint", "verify", "run").done()
    again = workshop.run("train", config).refused(6, f"step {newest + 1}")
    check(again == message, "another verdict the second time:", again)
    note(f"diverged at step {newest + 1} both times")


@fact
def an_address_space_that_is_too_small_is_refused_before_a_library_loops_in_it(workshop):
    version = workshop.run("--version").done().out
    for kilobytes in 200_000, 300_000:
        done = subprocess.run(["sh", "-c", f'ulimit -v {kilobytes} && exec "$0" --version',
                               str(workshop.trireme)], capture_output=True, text=True, timeout=30)
        # CUDA's libraries do not even fit in: the loader says so before any of the program runs.
        if "built without CUDA" not in version and done.returncode == 127:
            check("failed to map" in done.stderr or "cannot" in done.stderr, done.stderr)
            continue
        check(done.returncode == 5, f"exit {done.returncode}:", done.stderr)
        check(done.stderr.count("\n") == 1 and "ulimit -v" in done.stderr, done.stderr)
    enough = subprocess.run(["sh", "-c", 'ulimit -v 16000000 && exec "$0" --version',
                             str(workshop.trireme)], capture_output=True, text=True, timeout=30)
    check(enough.returncode == 0, enough.stderr)


if __name__ == "__main__":
    main()
