#!/usr/bin/python3
"""Whatever a power cut leaves of a run's files, the newest committed checkpoint is among it."""
import os
import subprocess
import time

from checks import SEED, check, note
from facts import fact, main
from run_folder import checkpoints
from workshop import Faults

SMALL = {"model": {"flavor": "tiny", "vocab_size": 257, "num_hidden_layers": 2, "hidden_size": 16,
                   "intermediate_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2},
         "training": {"seq_len": 16, "local_batch_size": 1, "global_batch_size": 2},
         "checkpoint": {"interval": 2, "keep_latest_k": 2}}


def every_state_is_good(workshop, ranks, parts):
    """Of a run that is started anew for each part of it, which are further options."""
    workshop.corpus()
    disk = workshop / "disk"
    disk.mkdir()
    faults, log = Faults(workshop, disk), workshop / "log"
    config = workshop.config("run", {**SMALL, "job": {"dump_folder": disk / "run"}})
    for part in parts:
        with faults.start(ranks, "train", config, *part, log=log) as process:
            process.wait().done()
    note(f"{log.stat().st_size:,} bytes logged, checkpoints left: {checkpoints(disk / 'run')}")
    start = time.monotonic()
    program = workshop.trireme.parent / "tests/checkpoint/power_loss"
    done = subprocess.run([program, log, disk, "run", workshop / "copy", str(SEED)],
                          capture_output=True, text=True, check=False)
    note(f"TRIREME_SEED={SEED}, {time.monotonic() - start:.1f} s: {done.stdout.strip()}")
    check(done.returncode == 0, done.stdout, done.stderr)


@fact
def of_a_run_of_two_ranks(workshop):
    every_state_is_good(workshop, 2, [["--training.steps=12", "--parallelism.tensor=2"]])


@fact
def of_a_run_that_is_resumed_from_an_older_step(workshop):
    """And writes steps again that are there."""
    every_state_is_good(workshop, 1, [["--training.steps=10"],
                                      ["--training.steps=14", "--checkpoint.resume=8",
                                       '--checkpoint.allow_changes=["all"]']])


if __name__ == "__main__":
    # Which operations there are and in what order does not depend on the disk.
    if os.access("/dev/shm", os.W_OK):
        os.environ.setdefault("TMPDIR", "/dev/shm")
    main()
