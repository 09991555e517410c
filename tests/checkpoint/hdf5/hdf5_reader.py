"""Reads a checkpoint with h5py, and its manifest with the standard library.

usage: hdf5_reader.py CHECKPOINT EXPECTED
EXPECTED holds one raw file for each tensor ('/' in its name as '+') with the
row-major bytes that were written. Exits 1 with a message on the first difference.
"""
import json
import sys
from pathlib import Path

import h5py
import numpy as np

checkpoint, expected = map(Path, sys.argv[1:])
manifest = json.loads((checkpoint / "manifest.json").read_text())


def check(holds, *why):
    if not holds:
        print(*why)
        sys.exit(1)


def values(tensor, raw):
    """The raw bytes as h5py shows them: bfloat16 appears as float32, float16 as it is."""
    if tensor["dtype"] == "bfloat16":
        return (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(raw, np.dtype(tensor["dtype"]))


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


shards = [h5py.File(checkpoint / shard["file"], "r") for shard in manifest["shards"]]
with h5py.File(checkpoint / "state.h5", "r") as state:
    check(state.attrs["step"] == manifest["step"], "step")
    check(state.attrs["run"].decode() == manifest["run"], "run")
    seen = []
    state.visititems(lambda name, item: seen.append(name) if isinstance(item, h5py.Dataset) else None)
    names = [tensor["name"] for tensor in manifest["tensors"]]
    check(sorted(seen) == names, "datasets", seen, names)
    for tensor in manifest["tensors"]:
        name, shape = tensor["name"], tuple(tensor["shape"])
        raw = (expected / name.replace("/", "+")).read_bytes()
        want = values(tensor, raw).reshape(shape)
        check(state[name].is_virtual, name, "is not virtual")
        check(same(state[name][...], want), name, "differs in state.h5")
        for part in tensor["rectangles"]:
            begin, extent = part["from"], part["extent"]
            whole = extent == list(shape)
            local = name if whole else name + "@" + ",".join(map(str, begin))
            data = shards[part["shard"]][local]
            box = tuple(slice(b, b + e) for b, e in zip(begin, extent))
            check(same(data[...], np.ascontiguousarray(want[box])), local, "differs in its shard")
            check(data.id.get_offset() == part["offset"], local, "lies elsewhere")
            check(data.chunks is None and data.compression is None, local, "is not plain")
            check(tuple(data.attrs["logical_shape"]) == shape, local, "logical_shape")
            check(list(data.attrs["from"]) == begin, local, "from")
print(len(names), "tensors agree")
