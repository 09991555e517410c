#!/usr/bin/env python3
"""Compares one rank with all threads to as many ranks with one thread each.

    ranks.py --trireme PROGRAM [--quick] [--only TEXT]

Called by `scripts/bench --ranks`. The contestants are sampled in turn, as in compare.py: tensor
parallelism with one micro-batch per step, a pipeline with 16, and data parallelism that splits one
rank's micro-batch, for a model with experts also with the experts divided among these ranks; context
parallelism with one sequence of 8,192 tokens, one document, by each method.
"""

import os
import shutil
import sys
import tempfile
import pathlib

from compare import SHAPES, Contestant, arguments, make_tokens, median_speed, print_head, take_turns
from compare import write_config

GPT2_124M = "GPT-2 124M, 4 x 64"
SHAPES = dict(SHAPES)
SHAPES["GPT-2 124M, 8 x 256"] = dict(SHAPES[GPT2_124M], batch=8, seq=256)
SHAPES["Llama 11M, 4 x 256"] = dict(
    SHAPES["Llama 6.6M, 4 x 256"], hidden=384, heads=6, ffn=1024,
)  # fmt: skip
SHAPES["Llama 11M, 1 x 8192"] = dict(
    SHAPES["Llama 11M, 4 x 256"], batch=1, seq=8192, positions=8192,
)  # fmt: skip
# (axis, shape, micro-batches on a single rank)
ROWS = [("tensor", GPT2_124M, 1), ("pipeline", GPT2_124M, 16)]
ROWS += [("data", shape, 1) for shape in (
    GPT2_124M, "GPT-2 124M, 8 x 256", "GPT-2 5M, 4 x 256", "Llama 11M, 4 x 256")]  # fmt: skip
ROWS += [("context", "Llama 11M, 1 x 8192", 1)]
ROWS += [("expert", shape, 1) for shape in SHAPES if "experts" in SHAPES[shape]]


def trireme(options, name, folder, shape, ranks, *layout):
    """Trains `folder`/`name`.toml; the threads are divided among the ranks."""
    warm_up = write_config(shape, options, folder, name, options.threads // ranks)
    launch = ["mpirun", "--bind-to", "core", "-n", str(ranks)] if ranks > 1 else []

    def command():
        shutil.rmtree(folder / name, ignore_errors=True)
        return [*launch, str(options.trireme), "train", str(folder / f"{name}.toml"), *layout]

    return Contestant(name, command, lambda _: median_speed(folder / name, warm_up))


def compare(axis, shape, micro_batches, options, folder):
    """(contestant with one rank, contestants with `options.threads` ranks)"""
    ranks = options.threads
    whole = dict(shape, micro_batches=micro_batches)
    alone = trireme(options, f"one_{axis}", folder, whole, 1)
    if axis in ("data", "expert"):
        part = dict(shape, batch=shape["batch"] // ranks, micro_batches=ranks)
        shared = [trireme(options, f"data_{ranks}", folder, part, ranks)]
    if axis == "expert":
        shared.append(trireme(options, f"expert_{ranks}", folder, part, ranks,
                              f"--parallelism.expert={ranks}"))  # fmt: skip
    elif axis == "data":
        shared.append(trireme(options, f"data_{ranks} reproducible", folder, part, ranks,
                              "--job.reproducible=true"))  # fmt: skip
    elif axis == "context":
        shared = [trireme(options, f"context_{ranks} {method}", folder, whole, ranks,
                          f"--parallelism.context={ranks}", f"--parallelism.context_method={method}")
                  for method in ("all_gather", "ring", "ulysses")]  # fmt: skip
    else:
        shared = [trireme(options, f"{axis}_{ranks}", folder, whole, ranks,
                          f"--parallelism.{axis}={ranks}")]  # fmt: skip
    take_turns([alone, *shared], options, folder, quiet=True)
    return alone, shared


def main():
    options = arguments(__doc__)
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if not shutil.which("mpirun"):
        sys.exit("mpirun is not installed")
    rows = [row for row in ROWS if options.only.lower() in f"{row[0]} {row[1]}".lower()]
    if not rows:
        sys.exit(f"no row has an axis and shape containing {options.only!r}")
    print_head(options)
    print(f"\n| global batch | micro-batches | one rank, {options.threads} threads, tokens/s "
          f"| {options.threads} ranks of one thread each | tokens/s | of one rank |\n"
          "|---|--:|--:|---|--:|--:|")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="trireme-bench-") as scratch:
        folder = pathlib.Path(scratch)
        make_tokens(options, folder)
        for axis, name, micro_batches in rows:
            alone, shared = compare(axis, SHAPES[name], micro_batches, options, folder)
            for contestant in shared:
                layout = contestant.name.replace("_", " = ", 1)
                print(f"| {name} | {micro_batches} | {alone.median:,.0f} | {layout} "
                      f"| {contestant.median:,.0f} "
                      f"| {100 * contestant.median / alone.median:.0f} % |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
