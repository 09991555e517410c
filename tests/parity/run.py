#!/usr/bin/python3
"""run.py PROGRAM FAMILY: has PROGRAM dump a tiny model of FAMILY for three seeds, packed and
with the document mask, in float32 and in float64, with and without recomputation, and judges
every dump. Exit code 77,
which the suite counts as skipped, when PyTorch is not installed."""

import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77
CASES = [(seed, mask, "float32", "none") for seed in (1, 2, 3) for mask in (False, True)]
CASES += [(1, True, "float32", "selective"), (1, True, "float32", "full")]
CASES += [(1, False, "float64", "none"), (2, True, "float64", "full")]


def main(program, family):
    try:
        import torch
    except ImportError:
        print("skipped: needs PyTorch (Debian: python3-torch)")
        return SKIPPED
    import compare

    torch.set_num_threads(1)
    good = True
    with tempfile.TemporaryDirectory(prefix="trireme-parity-") as scratch:
        for seed, mask, dtype, recompute in CASES:
            for seed in range(seed, seed + 100, 10):
                name = f"{family}-seed{seed}-{dtype}-{recompute}{'-mask' if mask else ''}"
                folder = pathlib.Path(scratch, name)
                command = [program, "--family", family, "--seed", str(seed), "--dtype", dtype]
                command += ["--recompute", recompute, "--output", str(folder)]
                command += ["--document-mask"] * mask
                subprocess.run(command, check=True)
                if not compare.has_tie(folder):
                    break
                print(f"{name}: two experts are equally good for a token; another seed")
            good &= compare.compare(folder)
    return 0 if good else 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: run.py PROGRAM FAMILY")
    sys.exit(main(sys.argv[1], sys.argv[2]))
