#!/usr/bin/python3
"""The faults of test_restarts.py where the ranks are steps of a real Slurm: some of them, others each
time. scripts/fault_matrix --under slurm goes through all."""
import os

from checks import note, random_of
from facts import fact, main
from fault_matrix import CASES, LAYOUTS, faults_of_one_run, go_through, job_of, left_alone, slurm

COUNT = 6


@fact
def some_of_all_faults_under_slurm(workshop):
    rng = random_of("faults")
    layout = rng.choice(list(LAYOUTS))
    note(f"layout {layout}")
    with slurm() as cluster:
        job = job_of(cluster)
        whole = left_alone(workshop, LAYOUTS[layout], job=job)
        faults = faults_of_one_run(CASES[layout], COUNT, rng)
        go_through(workshop, "run", LAYOUTS[layout], faults, whole, job)


if __name__ == "__main__":
    # A sync costs nothing there, and what survives a kill is the same.
    if os.access("/dev/shm", os.W_OK):
        os.environ.setdefault("TMPDIR", "/dev/shm")
    main()
