#!/usr/bin/env python3
"""Measures recovery of a run of four ranks under `trireme launch`: from the fault to the verdict, to the
end of all ranks, to restarted ranks with loaded state, and to the first new step. The detection time is
listed as measured and as reported by the run.

    recovery.py --trireme PROGRAM [--quick] [--faults N] [--kinds KIND,...] [--json FILE]

Called by `scripts/bench --recovery`. At least 20 faults of each kind, at random times, of random ranks or
nodes:
    kill    SIGKILL of a rank
    stop    SIGSTOP of a rank
    hang    the main thread of a rank sleeps forever
    srun    kill, with ranks started by a real Slurm instead of mpirun
    node    all processes of a Slurm node are killed (slurmd, job steps, ranks); a spare replaces it
    shrink  as node, without a spare: the run continues on two ranks, and on four when the node returns
Prints medians as rows of the table in RESULTS.md and writes them to FILE, which scripts/goodput reads;
results of other kinds in FILE are kept.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import statistics

from compare import print_head
from recoveries import (FOR_EVER, PARTS, RANKS, Disturbed, hanging, losing_nodes, signalled,
                        when)  # isort: skip
from launched import Launched
from checks import Skip
from run_folder import events, metrics
from workshop import Workshop, slurm_cluster

KINDS = ["kill", "stop", "hang", "srun", "node", "shrink"]
HEARTBEAT, STALL, NODE = 1.5, 2.5, 2  # seconds
MOST_STALL = 0.01  # maximum share of time for in-memory snapshots
SECTIONS = {"job": {"threads": 1, "reproducible": True},
            "model": {"flavor": "tiny", "num_hidden_layers": 4, "hidden_size": 128,
                      "intermediate_size": 384},
            "training": {"seq_len": 128, "local_batch_size": 1, "global_batch_size": 8},
            "checkpoint": {"interval": 200},
            "elastic": {"heartbeat_timeout_s": HEARTBEAT, "stall_timeout_s": STALL,
                        "node_timeout_s": NODE, "max_restarts": 1000}}


def sections(steps, interval):
    return {**SECTIONS, "training": {**SECTIONS["training"], "steps": steps},
            "elastic": {**SECTIONS["elastic"], "memory_interval": interval}}


def snapshots_of(run):
    """(stall share, seconds per snapshot, seconds per step) of an undisturbed run."""
    tally, steps = events(run.folder, "memory_snapshots")[-1], metrics(run.folder)
    seconds = when(events(run.folder, "stop")[-1]) - when(events(run.folder, "start")[0])
    step = statistics.median(float(line["step_seconds"]) for line in steps)
    return tally["count"] * tally["mean_seconds"] / seconds, tally["mean_seconds"], step


def undisturbed(workshop, name, steps, interval):
    with Launched(workshop, name, RANKS, sections(steps, interval)) as run:
        run.end(timeout=600)
        return snapshots_of(run)


def disturbed_by(workshop, kind, interval, count, rng) -> Disturbed:
    print(f"{kind}:", flush=True)
    wanted = sections(FOR_EVER, interval)
    if kind == "hang":
        return hanging(workshop, kind, wanted, count, rng)
    if kind == "srun":
        with slurm_cluster(nodes=2, cpus=RANKS // 2) as cluster:
            return signalled(workshop, kind, wanted, signal.SIGKILL, count, rng, cluster)
    if kind in ("node", "shrink"):
        return losing_nodes(workshop, kind, wanted, count, rng, spares=int(kind == "node"))
    return signalled(workshop, kind, wanted, getattr(signal, f"SIG{kind.upper()}"), count, rng)


def print_rows(kinds):
    print("\n| median of " + ", ".join(f"{len(d.rows)} x {k}" for k, d in kinds.items())
          + " | detect | worst | reported | all exited | start | load | first new step | total | "
          "worst | most steps recomputed | right verdict |\n|---|" + "--:|" * 11)  # fmt: skip
    for kind, disturbed in kinds.items():
        most = {part: max(row[part] for row in disturbed.rows)
                for part in ("detect", "total", "again")}  # fmt: skip
        told = disturbed.median("told")
        cells = [disturbed.median("detect"), most["detect"], told,
                 *map(disturbed.median, PARTS[1:]), disturbed.median("total"), most["total"]]
        named = sum(row["named"] for row in disturbed.rows)
        print(f"| {kind} | " + " | ".join("" if s is None else f"{s:.2f} s" for s in cells)
              + f" | {most['again']} | {named} of {len(disturbed.rows)} |", flush=True)


def record_of(disturbed):
    return {"detect": disturbed.median("detect"), "recover": disturbed.median("total"),
            **{part: disturbed.median(part) for part in ["told", *PARTS[1:]]},
            "recomputed_steps": disturbed.median("again"),
            "named": sum(row["named"] for row in disturbed.rows), "faults": len(disturbed.rows)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true", help="five faults of each kind")
    parser.add_argument("--faults", type=int, help="faults of each kind (default 20; quick: 5)")
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=KINDS,
                        help=f"comma-separated kinds of {', '.join(KINDS)} (default: all)")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("build/RECOVERY.json"))
    options = parser.parse_args()
    if unknown := set(options.kinds) - set(KINDS):
        parser.error(f"unknown kind: {', '.join(unknown)}")
    options.threads = os.cpu_count()
    count = options.faults or (5 if options.quick else 20)
    rng, kinds = random.Random(options.seed), {}
    print_head(options)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    record = json.loads(options.json.read_text()) if options.json.exists() else {}
    with Workshop(options.trireme.resolve()) as workshop:
        _, snapshot, step = undisturbed(workshop, "each", 60, 1)
        interval = max(1, -int(-snapshot // (MOST_STALL * step)))
        share, _, step = undisturbed(workshop, "some", max(100, 5 * interval), interval)
        print(f"a snapshot takes {1000 * snapshot:.2f} ms, a step {1000 * step:.1f} ms: one every "
              f"{interval} steps blocks training for {100 * share:.2f} % of the time", flush=True)
        record |= {"snapshot_stall_fraction": share, "step_seconds": step,
                   "memory_interval": interval, "ranks": RANKS}
        for kind in options.kinds:
            try:
                kinds[kind] = disturbed_by(workshop, kind, interval, count, rng)
            except Skip as why:
                print(f"skipped: {why}")
                continue
            record[kind] = record_of(kinds[kind])
            # Saved at once, because later kinds may fail.
            options.json.write_text(json.dumps(record, indent=2) + "\n")
            print_rows({kind: kinds[kind]})
    print_rows(kinds)
    print(f"\nwritten to {options.json}")


if __name__ == "__main__":
    main()
