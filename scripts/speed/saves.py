#!/usr/bin/env python3
"""Measures checkpoint cost: ten steps after a save against ten steps without, alternating in one run.

    saves.py --trireme PROGRAM [--quick]

Called by `scripts/bench --saves`. GPT-2 124M, 4 x 64, on all threads. Each round measures on the same
disk, one after the other: a run that saves every 20 steps; copies of the state in memory by as many
threads; alternately `dd` with fsync of as many bytes and a run of one step that ends with a save; and
alternately loading a checkpoint of the same layout and one of another layout. Prints medians over the
rounds of each round's median.
"""

import concurrent.futures
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

from compare import SHAPES, arguments, make_tokens, print_head, wait_until_quiet, write_config

SHAPE = SHAPES["GPT-2 124M, 4 x 64"]
INTERVAL = 10
TURNS = 5


def json_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def events(run, name):
    return [event for event in json_lines(run / "events.jsonl") if event["event"] == name]


def copy_seconds(count, threads):
    """Seconds to copy `count` bytes in memory that is already mapped."""
    source = numpy.ones(count // 4, numpy.float32)
    target = numpy.zeros_like(source)
    parts = [slice(len(source) * i // threads, len(source) * (i + 1) // threads)
             for i in range(threads)]  # fmt: skip
    taken = []
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for _ in range(TURNS):
            start = time.monotonic()
            list(pool.map(lambda part: numpy.copyto(target[part], source[part]), parts))
            taken.append(time.monotonic() - start)
    return statistics.median(taken)


def dd_seconds(count, folder):
    path, block = folder / "dd", 8 << 20
    start = time.monotonic()
    subprocess.run(["dd", "if=/dev/zero", f"of={path}", f"bs={block}", "conv=fsync",
                    f"count={count // block}"], check=True, capture_output=True)  # fmt: skip
    seconds = (time.monotonic() - start) * count / (count // block * block)
    path.unlink()
    return seconds


def train(options, folder, name, *layout, ranks=1):
    launch = ["mpirun", "--bind-to", "core", "-n", str(ranks)] if ranks > 1 else []
    command = [*launch, str(options.trireme), "train", str(folder / f"{name}.toml"), *layout]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")


def slower_after_saves(run, saves):
    """Relative slowdown of the ten steps after a save, including the time it blocked training, which is
    the cost of saving every ten steps. Median over the saves, each compared with the following ten
    steps, in which nothing is written."""
    seconds = {step["step"]: step["step_seconds"] for step in json_lines(run / "metrics.jsonl")}
    ratios = []
    for save in saves:
        after, without = (sum(seconds[save["step"] + first + i] for i in range(INTERVAL))
                          for first in (1, 1 + INTERVAL))  # fmt: skip
        if save["seconds"] > after:
            sys.exit(f"the save of step {save['step']} took {save['seconds']:.1f} s, longer than "
                     f"the {INTERVAL} steps after it: the disk is too slow for this test")
        ratios.append((after + save["stopped_seconds"]) / without - 1)
    return statistics.median(ratios)


def written_in_turns(options, folder, count, run, resume):
    """Median bytes per second of (a save without concurrent training, dd)."""
    saved, copied = [], []
    for _ in range(TURNS):
        wait_until_quiet(options.wait)
        copied.append(count / dd_seconds(count, folder))
        step = events(run, "checkpoint")[-1]["step"] + 1
        train(options, folder, "saves", *resume, f"--training.steps={step}")
        saved.append(count / events(run, "checkpoint")[-1]["write_seconds"])
    return statistics.median(saved), statistics.median(copied)


def loaded_in_turns(options, folder, run, resume):
    """Median seconds to load with tensor = 2 a checkpoint of (one rank, the same layout)."""
    step = events(run, "checkpoint")[-1]["step"]
    layout = [*resume, "--parallelism.tensor=2", f"--job.threads={options.threads // 2}"]
    own = folder / "own"  # the run continues for one step in the loading layout
    newest = f"step-{step:08}"
    shutil.copytree(run, own, ignore=lambda _, names: [
        name for name in names if name.startswith("step-") and name != newest])  # fmt: skip
    into = [f"--job.dump_folder={own}", f"--training.steps={step + 1}"]
    train(options, folder, "saves", *layout, *into, ranks=2)
    shutil.rmtree(own / "checkpoints" / newest)
    os.sync()
    other, same = [], []
    for _ in range(TURNS):  # both runs are complete: they only load
        for taken, place, last in ((other, run, step), (same, own, step + 1)):
            wait_until_quiet(options.wait)
            train(options, folder, "saves", *layout, f"--job.dump_folder={place}",
                  f"--training.steps={last}", ranks=2)  # fmt: skip
            taken.append(events(place, "resume")[-1]["load_seconds"])
    shutil.rmtree(own)
    return statistics.median(other), statistics.median(same)


def one_round(options, folder):
    run = folder / "saves"
    resume = ["--checkpoint.resume=auto", '--checkpoint.allow_changes=["training.steps"]']
    shutil.rmtree(run, ignore_errors=True)
    write_config(dict(SHAPE), options, folder, "saves", options.threads)
    wait_until_quiet(options.wait)
    train(options, folder, "saves", f"--checkpoint.interval={2 * INTERVAL}")
    newest = json_lines(run / "metrics.jsonl")[-1]["step"]
    saves = [save for save in events(run, "checkpoint")
             if save["step"] + 2 * INTERVAL <= newest]  # fmt: skip
    count = saves[-1]["bytes"]
    result = {
        "copy": copy_seconds(count, options.threads),
        "stopped": statistics.median(save["stopped_seconds"] for save in saves),
        "during": count / statistics.median(save["write_seconds"] for save in saves),
        "slower": slower_after_saves(run, saves),
    }
    result["written"], result["dd"] = written_in_turns(options, folder, count, run, resume)
    result["other"], result["same"] = loaded_in_turns(options, folder, run, resume)
    return result


def main():
    options = arguments(__doc__)
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    options.steps = 2 * INTERVAL * (3 if options.quick else 7)
    rounds = min(options.rounds, 3)
    print_head(options)
    with tempfile.TemporaryDirectory(prefix="trireme-bench-", dir=os.getcwd()) as scratch:
        folder = pathlib.Path(scratch)
        make_tokens(options, folder)
        results = []
        for number in range(rounds):
            results.append(one_round(options, folder))
            print(f"  round {number + 1}/{rounds}  "
                  + "  ".join(f"{k} {v:.4g}" for k, v in results[-1].items()), flush=True)  # fmt: skip
    median = {key: statistics.median(result[key] for result in results) for key in results[0]}
    giga = 1e-9
    print("\n| GPT-2 124M, 4 x 64, a save every 10 steps | measured | compared with | ratio |\n"
          "|---|--:|--:|--:|\n"
          f"| training blocked by a save | {median['stopped']:.2f} s "
          f"| {median['copy']:.2f} s, a copy of the state in memory "
          f"| {median['stopped'] / median['copy']:.2f} |\n"
          f"| write rate without training | {median['written'] * giga:.2f} GB/s "
          f"| {median['dd'] * giga:.2f} GB/s, dd with fsync | {median['written'] / median['dd']:.2f} |\n"
          f"| write rate during training | {median['beside'] * giga:.2f} GB/s "
          f"| {median['dd'] * giga:.2f} GB/s | {median['beside'] / median['dd']:.2f} |\n"
          f"| ten steps after a save, including blocked time | | ten without "
          f"| {1 + median['slower']:.3f} |\n"
          f"| one rank's checkpoint loaded by tensor = 2 | {median['other']:.2f} s "
          f"| {median['same']:.2f} s, a checkpoint of tensor = 2 | {median['other'] / median['same']:.2f} |"
          )  # fmt: skip


if __name__ == "__main__":
    main()
