#!/usr/bin/env python3
"""What checkpoints cost: a run that saves every 10 steps beside one that does not.

    saves.py --trireme PROGRAM [--quick]

Called by `scripts/bench --saves`. GPT-2 124M, 4 x 64, on all threads. Each round measures, on
the same disk and one after the other: one copy of the state in memory by as many threads, `dd` with
fsync of as many bytes, both runs, and what it takes to load the checkpoint in the layout that wrote
it and in another. Medians of the rounds.
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


def json_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def events(run, name):
    return [event for event in json_lines(run / "events.jsonl") if event["event"] == name]


def copy_seconds(count, threads):
    """Of `count` bytes in memory that is in use already."""
    source = numpy.ones(count // 4, numpy.float32)
    target = numpy.zeros_like(source)
    parts = [slice(len(source) * i // threads, len(source) * (i + 1) // threads)
             for i in range(threads)]  # fmt: skip
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        start = time.monotonic()
        list(pool.map(lambda part: numpy.copyto(target[part], source[part]), parts))
        return time.monotonic() - start


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


def steady_seconds(run, warm_up):
    """Of the steps after the warm-up, with the time training stood for checkpoints between them."""
    steps = json_lines(run / "metrics.jsonl")
    saves = [save for save in events(run, "checkpoint") if save["step"] < steps[-1]["step"]]
    return (sum(step["step_seconds"] for step in steps[warm_up:])
            + sum(save["stopped_seconds"] for save in saves), saves)  # fmt: skip


def one_round(options, folder):
    for name in ("quiet", "saves"):
        shutil.rmtree(folder / name, ignore_errors=True)
        warm_up = write_config(dict(SHAPE), options, folder, name, options.threads)
    resumes = "--checkpoint.resume=auto"
    wait_until_quiet(options.wait)
    train(options, folder, "quiet")
    wait_until_quiet(options.wait)
    train(options, folder, "saves", f"--checkpoint.interval={INTERVAL}")
    plain, _ = steady_seconds(folder / "quiet", warm_up)
    saving, saves = steady_seconds(folder / "saves", warm_up)
    last = events(folder / "saves", "checkpoint")[-1]
    count = last["bytes"]
    result = {
        "copy": copy_seconds(count, options.threads),
        "stopped": statistics.median(save["stopped_seconds"] for save in saves),
        "dd": count / dd_seconds(count, folder),
        "written": count / last["write_seconds"],
        "beside": count / statistics.median(save["write_seconds"] for save in saves),
        "slower": saving / plain - 1,
    }
    shutil.rmtree(folder / "quiet")
    one = f"--job.threads={options.threads // 2}"
    for name, steps in (("other", 1), ("same", 2)):
        wait_until_quiet(options.wait)
        train(options, folder, "saves", resumes, "--parallelism.tensor=2", one, ranks=2)
        result[name] = events(folder / "saves", "resume")[-1]["load_seconds"]
        if name == "other":  # the last step again, saved in the new layout
            newest = max(step["step"] for step in events(folder / "saves", "checkpoint"))
            shutil.rmtree(folder / "saves" / "checkpoints" / f"step-{newest:08}")
            train(options, folder, "saves", resumes, "--parallelism.tensor=2", one, ranks=2)
    return result


def main():
    options = arguments(__doc__)
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    options.steps = 2 * INTERVAL if options.quick else 4 * INTERVAL
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
    print("\n| of GPT-2 124M, 4 x 64, a save every 10 steps | measured | beside | ratio |\n"
          "|---|--:|--:|--:|\n"
          f"| training stands for a save | {median['stopped']:.2f} s "
          f"| {median['copy']:.2f} s, a copy of the state in memory "
          f"| {median['stopped'] / median['copy']:.2f} |\n"
          f"| writing, training over | {median['written'] * giga:.2f} GB/s "
          f"| {median['dd'] * giga:.2f} GB/s, dd with fsync | {median['written'] / median['dd']:.2f} |\n"
          f"| writing, beside training | {median['beside'] * giga:.2f} GB/s "
          f"| {median['dd'] * giga:.2f} GB/s | {median['beside'] / median['dd']:.2f} |\n"
          f"| steps, with what they stand | | without saves | {1 + median['slower']:.3f} |\n"
          f"| one rank's checkpoint loaded by tensor = 2 | {median['other']:.2f} s "
          f"| {median['same']:.2f} s, that of tensor = 2 | {median['other'] / median['same']:.2f} |"
          )  # fmt: skip


if __name__ == "__main__":
    main()
