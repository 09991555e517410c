"""The folder in which a parity dump travels. README.md beside this file defines it."""

import json
import pathlib

import numpy
import torch

from reference import Batch

DTYPES = {"F32": numpy.dtype("<f4"), "F64": numpy.dtype("<f8")}
BATCH_KEYS = ("ids", "targets", "positions", "document_start")


def read_json(folder, name):
    return json.loads((pathlib.Path(folder) / name).read_text())


def read_tensors(folder):
    """Name -> NumPy array, in the dtype of the file."""
    raw = (pathlib.Path(folder) / "tensors.bin").read_bytes()
    tensors = {}
    for name, entry in read_json(folder, "tensors.json").items():
        dtype, shape, offset = DTYPES[entry["dtype"]], entry["shape"], entry["offset"]
        count = int(numpy.prod(shape, dtype=numpy.int64))
        if offset + count * dtype.itemsize > len(raw):
            raise ValueError(f"{folder}/tensors.bin ends before {name}")
        tensors[name] = numpy.frombuffer(raw, dtype, count, offset).reshape(shape)
    return tensors


def batch_of(arrays):
    return Batch(**{key: torch.tensor(arrays[key], dtype=torch.int64) for key in BATCH_KEYS})


def arrays_of(batch):
    return {key: getattr(batch, key).tolist() for key in BATCH_KEYS}


def write(folder, config, tensors, batch, curve):
    """Writes a dump; `tensors` are NumPy arrays by name, `batch` a Batch."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names = {dtype: name for name, dtype in DTYPES.items()}
    index, offset = {}, 0
    with open(folder / "tensors.bin", "wb") as out:
        for name, array in tensors.items():
            array = numpy.asarray(array, order="C")
            index[name] = {"dtype": names[array.dtype], "shape": array.shape, "offset": offset}
            offset += out.write(array.tobytes())
    documents = {
        "config.json": config, "tensors.json": index, "batch.json": arrays_of(batch),
        "curve.json": curve,
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document, indent=1))
