#!/usr/bin/python3
"""h5py reads what eight ranks wrote: every tensor, of every shard and of the whole, is the
trainer's own."""
import json
import re
import shutil

from checks import Skip, check, note
from corpora import np
from facts import fact, main
from run_folder import checkpoint, events

MODEL = {"model": {"flavor": "tiny", "num_hidden_layers": 4, "vocab_size": 509,
                   "num_key_value_heads": 2},
         "training": {"seq_len": 32, "local_batch_size": 1, "global_batch_size": 4, "steps": 4,
                      "dtype": "bfloat16"},
         "optimizer": {"lr": 3e-3, "state_dtype": "bfloat16"}}
LAYOUT = ["--parallelism.tensor=2", "--parallelism.pipeline=2", "--parallelism.data_shard=2",
          "--parallelism.zero=3"]


def hdf5():
    try:
        import h5py
    except ImportError as why:
        raise Skip("python3-h5py is not installed") from why
    return h5py


def as_numbers(raw, dtype):
    """Raw bytes as numpy's numbers; a bfloat16 is the upper half of a float32."""
    if dtype == "bfloat16":
        return (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
    return np.frombuffer(raw, {"float32": "<f4"}[dtype])


def boxes(rectangle):
    return tuple(slice(first, first + count)
                 for first, count in zip(rectangle["from"], rectangle["extent"]))


def same(one, other):
    return one.dtype == other.dtype and one.shape == other.shape and \
        one.tobytes() == other.tobytes()


def read(folder):
    """Every logical tensor as h5py shows it in state.h5, after a comparison with what it shows
    in the shards and with the bytes that the manifest points to. Maps a name to (dtype, array)."""
    h5py = hdf5()
    manifest = json.loads((folder / "manifest.json").read_text())
    shards = [h5py.File(folder / shard["file"], "r") for shard in manifest["shards"]]
    raw = [(folder / shard["file"]).read_bytes() for shard in manifest["shards"]]
    found = {}
    with h5py.File(folder / "state.h5", "r") as state:
        for tensor in manifest["tensors"]:
            name, shape = tensor["name"], tuple(tensor["shape"])
            whole = state[name][...]
            covered = np.zeros(shape, bool)
            for part in tensor["rectangles"]:
                everything = part["extent"] == tensor["shape"]
                local = name if everything else name + "@" + ",".join(map(str, part["from"]))
                bytes_of_part = raw[part["shard"]][part["offset"]:part["offset"] + part["bytes"]]
                own = as_numbers(bytes_of_part, tensor["dtype"]).reshape(part["extent"])
                check(same(shards[part["shard"]][local][...], own), local, "in its shard")
                check(same(np.ascontiguousarray(whole[boxes(part)]), own), local, "in state.h5")
                check(not covered[boxes(part)].any(), name, "is stored twice")
                covered[boxes(part)] = True
            check(covered.all(), name, "is not whole")
            found[name] = tensor["dtype"], whole
    return manifest, found


def statistics(workshop, folder, name):
    """What the program says of a tensor."""
    text = workshop.run("checkpoint", "show", folder, "--tensor", name).done().out
    return dict(re.findall(r"^ *([a-z ]+?)  +(\S+)$", text, re.MULTILINE)), text


@fact
def every_tensor_of_eight_ranks_is_the_trainers_own(workshop):
    hdf5()
    workshop.corpus()
    workshop.run_ranks(8, "train", workshop.config("run", MODEL), *LAYOUT).done()
    folder = checkpoint(workshop / "run", 4)
    manifest, tensors = read(folder)
    check(len(manifest["shards"]) == 8, manifest["shards"])
    cut = [t for t in manifest["tensors"] if len(t["rectangles"]) > 1]
    check(len(cut) > 20, "hardly anything was cut")
    # One rank that starts from these weights writes them as they are in its memory.
    workshop.run("train", workshop.config("alone", MODEL),
                 f"--checkpoint.initial_load_path={folder}",
                 "--training.on_nonfinite=rollback", "--training.steps=1",
                 "--lr_scheduler.warmup_steps=0", "--checkpoint.keep_latest_k=0").done()
    _, alone = read(checkpoint(workshop / "alone", 0))
    weights = [name for name in tensors if name.startswith("model/")]
    check(set(weights) == {name for name in alone if name.startswith("model/")}, "other weights")
    for name in weights:
        check(same(tensors[name][1], alone[name][1]), name, "differs in one rank's memory")
    note(f"{len(tensors)} tensors in {len(manifest['shards'])} shards, {len(cut)} of them cut; "
         f"{len(weights)} weights as one rank has them")
    check(events(workshop / "alone", "start")[0]["weights"] == manifest["digests"]["weights"],
          "another hash")


@fact
def a_view_without_its_shards_reads_as_nan(workshop):
    h5py = hdf5()
    workshop.corpus()
    for dtype in "bfloat16", "float32":
        workshop.run_ranks(2, "train", workshop.config(dtype, MODEL), "--parallelism.tensor=2",
                           "--training.steps=1", "--lr_scheduler.warmup_steps=0",
                           f"--optimizer.state_dtype={dtype}").done()
        folder = checkpoint(workshop / dtype, 1)
        alone = workshop / f"{dtype}-alone"
        alone.mkdir()
        shutil.copy(folder / "state.h5", alone)
        manifest = json.loads((folder / "manifest.json").read_text())
        for missing in "both", "the second":
            with h5py.File(alone / "state.h5", "r") as state:
                check("read as NaN" in state.attrs["missing_shards"].decode(), dict(state.attrs))
                for tensor in manifest["tensors"]:
                    whole = state[tensor["name"]][...].astype("<f4")
                    for part in tensor["rectangles"]:
                        there = missing != "both" and part["shard"] == 0
                        lost = np.isnan(whole[boxes(part)])
                        check(not lost.any() if there else lost.all(), tensor["name"], missing)
            shutil.copy(folder / manifest["shards"][0]["file"], alone)


@fact
def moments_in_bfloat16_have_their_values(workshop):
    hdf5()
    workshop.corpus()
    workshop.run_ranks(8, "train", workshop.config("run", MODEL), *LAYOUT).done()
    folder = checkpoint(workshop / "run", 4)
    _, tensors = read(folder)
    moments = {name: array for name, (dtype, array) in tensors.items() if dtype == "bfloat16"}
    check(len(moments) == 2 * len([n for n in tensors if n.startswith("model/")]), sorted(moments))
    for name, array in moments.items():
        said, text = statistics(workshop, folder, name)
        check(np.isfinite(array).all() and array.any(), name, "is empty")
        check((array >= 0).all() or "adam.m/" in name, name, "is negative")
        for key, value in (("least", array.min()), ("most", array.max()),
                           ("mean", array.mean(dtype=np.float64))):
            check(key in said, text)
            check(np.isclose(float(said[key]), float(value), rtol=1e-5, atol=1e-12),
                  name, key, said[key], float(value))
    note(f"{len(moments)} moments as the program sees them")


if __name__ == "__main__":
    main()
