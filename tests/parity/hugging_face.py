"""Hugging Face's names for the tensors of the reference, and folders of such models."""

import dataclasses
import json
import pathlib

import numpy
import torch

from architecture import is_buffer, read_config, weight_shapes

GPT2 = {
    "attention_norm": "ln_1", "attention.q": "attn.c_attn", "attention.k": "attn.c_attn",
    "attention.v": "attn.c_attn", "attention.o": "attn.c_proj", "mlp_norm": "ln_2",
    "mlp.up": "mlp.c_fc", "mlp.down": "mlp.c_proj",
}  # fmt: skip
LLAMA = {
    "attention": "self_attn",  # of what has no name of its own there: sinks
    "attention_norm": "input_layernorm", "attention.q": "self_attn.q_proj",
    "attention.k": "self_attn.k_proj", "attention.v": "self_attn.v_proj",
    "attention.o": "self_attn.o_proj", "attention.q_norm": "self_attn.q_norm",
    "attention.k_norm": "self_attn.k_norm", "mlp_norm": "post_attention_layernorm",
    "mlp.gate": "mlp.gate_proj", "mlp.up": "mlp.up_proj", "mlp.down": "mlp.down_proj",
    "mlp.router": "mlp.gate", "mlp.experts.gate": "mlp.experts.{}.gate_proj",
    "mlp.experts.up": "mlp.experts.{}.up_proj", "mlp.experts.down": "mlp.experts.{}.down_proj",
    "mlp.shared_experts.gate": "mlp.shared_experts.gate_proj",
    "mlp.shared_experts.up": "mlp.shared_experts.up_proj",
    "mlp.shared_experts.down": "mlp.shared_experts.down_proj",
}  # fmt: skip
QKV = {f"attention.{part}": "self_attn.qkv_proj" for part in "qkv"}
GATE_UP = {"mlp.gate": "mlp.gate_up_proj", "mlp.up": "mlp.gate_up_proj"}
OLMO = {
    "attention_post_norm": "post_attention_layernorm", "mlp_post_norm": "post_feedforward_layernorm"
}  # fmt: skip
GEMMA = {**OLMO, "mlp_norm": "pre_feedforward_layernorm"}
INSIDE = {  # a layer's names, where they are not Llama's
    "gpt2": GPT2,
    "phi3": {**QKV, **GATE_UP},
    "olmo2": OLMO,
    "olmo3": OLMO,
    "gemma2": GEMMA,
    "gemma3_text": GEMMA,
    "glm4": {
        **GATE_UP, "attention_post_norm": "post_self_attn_layernorm",
        "mlp_post_norm": "post_mlp_layernorm",
    },
    "gpt_oss": {"mlp.router": "mlp.router"},
    "mixtral": {
        "mlp.router": "block_sparse_moe.gate", "mlp.experts.gate": "block_sparse_moe.experts.{}.w1",
        "mlp.experts.up": "block_sparse_moe.experts.{}.w3",
        "mlp.experts.down": "block_sparse_moe.experts.{}.w2",
    },
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a parameter is in their tensors: rows first to last of one, transposed or not."""

    name: str
    transposed: bool
    first: int
    last: int


def places(config):
    """Logical name -> Place."""
    inside = {**LLAMA, **INSIDE.get(config.family, {})}
    outside = {"embedding": "model.embed_tokens", "norm": "model.norm", "head": "lm_head"}
    if config.is_gpt2:
        outside.update(
            embedding="transformer.wte", position="transformer.wpe", norm="transformer.ln_f"
        )
    found, rows = {}, {}
    for name, shape in weight_shapes(config).items():
        parts = name.split(".")
        if parts[0] == "layers":
            layers = "transformer.h" if config.is_gpt2 else "model.layers"
            here = ".".join(part for part in parts[2:-1] if not part.isdigit())
            expert = parts[4] if "experts" in parts else ""
            last = "e_score_correction_bias" if is_buffer(name) else parts[-1]
            theirs = f"{layers}.{parts[1]}.{inside[here].format(expert)}.{last}"
        else:
            theirs = f"{outside[parts[0]]}.{parts[-1]}"
        first = rows.get(theirs, 0)
        rows[theirs] = first + shape[0]
        transposed = config.is_gpt2 and parts[0] == "layers" and len(shape) == 2
        found[name] = Place(theirs, transposed, first, rows[theirs])
    return found


# gpt-oss: a layer's experts are one tensor for each projection, [experts, in, out], and one for its
# biases; the outputs of gate and up alternate.
FUSED = ("gpt_oss",)


def fuse_experts(config, tensors):
    fused = {name: tensor for name, tensor in tensors.items() if ".experts." not in name}
    for i in range(len(config.layers)):
        at = f"model.layers.{i}.mlp.experts"
        for end, suffix in (("weight", ""), ("bias", "_bias")):
            gate, up, down = (
                torch.stack([tensors[f"{at}.{e}.{part}_proj.{end}"] for e in range(config.experts)])
                for part in ("gate", "up", "down")
            )
            both = torch.stack((gate, up), dim=2).flatten(1, 2)
            if end == "weight":
                both, down = both.transpose(1, 2), down.transpose(1, 2)
            fused[f"{at}.gate_up_proj{suffix}"] = both.contiguous()
            fused[f"{at}.down_proj{suffix}"] = down.contiguous()
    return fused


def split_experts(tensors):
    split = {}
    for name, tensor in tensors.items():
        layer, dot, last = name.partition(".mlp.experts.")
        if not dot:
            split[name] = tensor
            continue
        end = "bias" if last.endswith("_bias") else "weight"
        for expert, own in enumerate(tensor if end == "bias" else tensor.transpose(1, 2)):
            parts = {"down_proj": own}
            if last.startswith("gate_up_proj"):
                parts = {"gate_proj": own[::2], "up_proj": own[1::2]}
            for part, rows in parts.items():
                split[f"{layer}.mlp.experts.{expert}.{part}.{end}"] = rows
    return split


def from_hugging_face(config, tensors):
    """Logical name -> tensor (a weight or its gradient) out of theirs by name."""
    if config.family in FUSED:
        tensors = split_experts(tensors)
    found, rows = {}, {}
    for name, place in places(config).items():
        theirs = tensors[place.name].T if place.transposed else tensors[place.name]
        found[name] = theirs[place.first:place.last]
        rows[place.name] = (place.last, len(theirs))
    wrong = {name: sizes for name, sizes in rows.items() if sizes[0] != sizes[1]}
    if wrong or set(tensors) != set(rows):
        unknown = sorted(set(tensors) - set(rows))
        raise ValueError(f"tensors that no parameter has: {unknown}; (needed, found) rows: {wrong}")
    return found


def to_hugging_face(config, weights):
    """Their name -> tensor."""
    parts = {}
    for name, place in places(config).items():
        weight = weights[name].T if place.transposed else weights[name]
        parts.setdefault(place.name, (1 if place.transposed else 0, []))[1].append(weight)
    stored = {name: torch.cat(found, dim=dim) for name, (dim, found) in parts.items()}
    return fuse_experts(config, stored) if config.family in FUSED else stored


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
    config = read_config(json.loads((folder / "config.json").read_text()))
    return config, from_hugging_face(config, tensors)
