#!/usr/bin/env python3
"""Compares one rank that has all threads with as many ranks of one thread each.

    ranks.py --trireme PROGRAM [--quick]

Called by `scripts/bench --ranks`. GPT-2 124M in micro-batches of 4 x 64, all contestants in
turns as in compare.py; a tensor split of one micro-batch a step, a pipeline of 16.
"""

import os
import shutil
import sys
import tempfile
import pathlib

from compare import SHAPES, Contestant, arguments, make_tokens, median_speed, print_head, take_turns
from compare import write_config

SHAPE = SHAPES["GPT-2 124M, 4 x 64"]


def trireme(options, name, folder, micro_batches, ranks, *layout):
    """Trains in `folder`/`name`.toml; the ranks share the threads."""
    shape = dict(SHAPE, micro_batches=micro_batches)
    warm_up = write_config(shape, options, folder, name, options.threads // ranks)
    launch = ["mpirun", "--bind-to", "core", "-n", str(ranks)] if ranks > 1 else []

    def command():
        shutil.rmtree(folder / name, ignore_errors=True)
        return [*launch, str(options.trireme), "train", str(folder / f"{name}.toml"), *layout]

    return Contestant(name, command, lambda _: median_speed(folder / name, warm_up))


def main():
    options = arguments(__doc__)
    ranks = options.threads
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if not shutil.which("mpirun"):
        sys.exit("mpirun is not installed")
    print_head(options)
    print("\n| GPT-2 124M, 4 x 64 a micro-batch | tokens/s | of one rank with "
          f"{ranks} threads |\n|---|--:|--:|")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="trireme-bench-") as scratch:
        folder = pathlib.Path(scratch)
        make_tokens(options, folder)
        for axis, micro_batches in (("tensor", 1), ("pipeline", 16)):
            alone = trireme(options, f"one_{axis}", folder, micro_batches, 1)
            shared = trireme(options, f"{axis}_{ranks}", folder, micro_batches, ranks,
                             f"--parallelism.{axis}={ranks}")  # fmt: skip
            take_turns([alone, shared], options, folder, quiet=True)
            print(f"| {micro_batches} micro-batches, one rank, {ranks} threads "
                  f"| {alone.median:,.0f} | |")  # fmt: skip
            print(f"| {micro_batches} micro-batches, {axis} = {ranks}, a thread each "
                  f"| {shared.median:,.0f} | {100 * shared.median / alone.median:.0f} % |",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
