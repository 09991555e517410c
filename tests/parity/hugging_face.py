"""Hugging Face's names for the tensors of the reference, and folders of such models."""

import json
import pathlib

import numpy
import torch

import reference


def names(config):
    """Logical name -> Hugging Face name; None for the parts of GPT-2's c_attn."""
    gpt2 = config.family == "gpt2"
    found = {}
    for name in reference.weight_shapes(config):
        parts = name.split(".")
        end = parts[-1]
        if parts[0] == "embedding":
            found[name] = "transformer.wte.weight" if gpt2 else "model.embed_tokens.weight"
        elif parts[0] == "position":
            found[name] = "transformer.wpe.weight"
        elif parts[0] == "norm":
            found[name] = f"transformer.ln_f.{end}" if gpt2 else "model.norm.weight"
        elif parts[0] == "head":
            found[name] = "lm_head.weight"
        elif gpt2:
            inside = {
                "attention_norm": "ln_1", "mlp_norm": "ln_2", "attention.o": "attn.c_proj",
                "mlp.up": "mlp.c_fc", "mlp.down": "mlp.c_proj",
            }.get(".".join(parts[2:-1]))  # fmt: skip
            found[name] = f"transformer.h.{parts[1]}.{inside}.{end}" if inside else None
        else:
            inside = ".".join(parts[2:-1])
            norms = {"attention_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm"}
            inside = norms.get(inside, inside.replace("attention.", "self_attn."))
            projection = inside.split(".")[-1] in ("q", "k", "v", "o", "gate", "up", "down")
            found[name] = f"model.layers.{parts[1]}.{inside}{'_proj' if projection else ''}.{end}"
    return found


def read_safetensors(path):
    """Name -> float32 tensor of one file, by the format's description alone."""
    raw = pathlib.Path(path).read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + at for at in entry["data_offsets"])
        if entry["dtype"] == "BF16":
            words = numpy.frombuffer(raw[begin:end], "<u2").astype("<u4") << 16
            values = words.view("<f4")
        else:
            values = numpy.frombuffer(raw[begin:end], {"F32": "<f4", "F16": "<f2"}[entry["dtype"]])
        tensors[name] = torch.tensor(values.astype("<f4").reshape(entry["shape"]))
    return tensors


def read_folder(folder):
    """The Config and weights, by logical name, of an exported model."""
    folder = pathlib.Path(folder)
    index = folder / "model.safetensors.index.json"
    files = ["model.safetensors"]
    if index.exists():
        files = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    tensors = {}
    for file in files:
        tensors.update(read_safetensors(folder / file))
    config = reference.read_config(json.loads((folder / "config.json").read_text()))
    weights, used = {}, set()
    for name, theirs in names(config).items():
        if theirs is None:
            _, layer, _, which, end = name.split(".")
            theirs = f"transformer.h.{layer}.attn.c_attn.{end}"
            part = (tensors[theirs].T if end == "weight" else tensors[theirs]).chunk(3)
            weights[name] = part["qkv".index(which)]
        else:
            turned = config.family == "gpt2" and ".h." in theirs and tensors[theirs].dim() == 2
            weights[name] = tensors[theirs].T if turned else tensors[theirs]
        used.add(theirs)
    if used != set(tensors):
        raise ValueError(f"tensors that no parameter has: {sorted(set(tensors) - used)}")
    return config, weights
