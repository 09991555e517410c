"""Texts and token files for runs of seconds."""
import pathlib
import random
import sys

try:
    import numpy as np
except ImportError:
    print("skipped: python3-numpy is not installed")
    sys.exit(77)


def made_up_text(seed, words):
    rng = random.Random(seed)
    known = ("the ship rows over dark water and nobody speaks of three banks "
             "oars rise fall wind stars shore night").split()
    return " ".join(rng.choice(known) + rng.choice(["", "", "", ",", ".\n"])
                    for _ in range(words))


def write_tokens(prefix, ids, dtype="uint16"):
    """A Megatron indexed dataset of one document."""
    codes = {"uint16": 8, "int32": 4}
    tokens = np.asarray(ids, dtype)
    tokens.tofile(f"{prefix}.bin")
    pathlib.Path(f"{prefix}.idx").write_bytes(
        b"MMIDIDX\x00\x00" + np.array([1], "<u8").tobytes() + bytes([codes[dtype]]) +
        np.array([1, 2], "<u8").tobytes() + np.array([tokens.size], "<i4").tobytes() +
        np.array([0], "<i8").tobytes() + np.array([0, 1], "<i8").tobytes())
