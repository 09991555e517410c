"""GPT-2, Llama 3, Mistral, Qwen2.5 and Qwen3 in plain PyTorch, to judge Trireme by.

Written from the published architectures, sharing nothing with the C++ code but the
names of the tensors. Whole matrices everywhere, no fusion, any floating dtype: slow and
plain on purpose. Runs on PyTorch 1.13 and later.
"""

import dataclasses
import math

import torch
import torch.nn.functional as functional

IGNORED = -1  # a target that counts neither in the loss nor in its average


@dataclasses.dataclass(frozen=True)
class Config:
    """What the mathematics needs of a Hugging Face config.json."""

    family: str
    vocab: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    max_positions: int
    eps: float
    rope_theta: float
    rope_scaling: dict
    tied: bool

    @property
    def rotary(self):
        return self.family != "gpt2"


FAMILIES = ("gpt2", "llama", "mistral", "qwen2", "qwen3")


def read_config(keys):
    """The Config of a parsed config.json."""
    family = keys["model_type"]
    if family not in FAMILIES:
        raise ValueError(f"model_type {family!r} is none of {', '.join(FAMILIES)}")
    if family == "gpt2":
        return Config(
            family=family,
            vocab=keys["vocab_size"],
            hidden=keys["n_embd"],
            layers=keys["n_layer"],
            heads=keys["n_head"],
            kv_heads=keys["n_head"],
            head_dim=keys["n_embd"] // keys["n_head"],
            ffn=keys.get("n_inner") or 4 * keys["n_embd"],
            max_positions=keys["n_positions"],
            eps=keys["layer_norm_epsilon"],
            rope_theta=0.0,
            rope_scaling={},
            tied=keys.get("tie_word_embeddings", True),
        )
    return Config(
        family=family,
        vocab=keys["vocab_size"],
        hidden=keys["hidden_size"],
        layers=keys["num_hidden_layers"],
        heads=keys["num_attention_heads"],
        kv_heads=keys["num_key_value_heads"],
        head_dim=keys.get("head_dim") or keys["hidden_size"] // keys["num_attention_heads"],
        ffn=keys["intermediate_size"],
        max_positions=keys["max_position_embeddings"],
        eps=keys["rms_norm_eps"],
        rope_theta=keys["rope_theta"],
        rope_scaling=keys.get("rope_scaling") or {},
        tied=keys.get("tie_word_embeddings", False),
    )


def weight_shapes(config):
    """Logical name -> shape of every parameter. Linear weights are [out, in]."""
    gpt2 = config.family == "gpt2"
    hidden, ffn = config.hidden, config.ffn
    queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
    shapes = {"embedding.weight": (config.vocab, hidden)}
    if gpt2:
        shapes["position.weight"] = (config.max_positions, hidden)

    def norm(name):
        shapes[f"{name}.weight"] = (hidden,)
        if gpt2:
            shapes[f"{name}.bias"] = (hidden,)

    def linear(name, out, into, bias):
        shapes[f"{name}.weight"] = (out, into)
        if bias:
            shapes[f"{name}.bias"] = (out,)

    for i in range(config.layers):
        at = f"layers.{i}"
        qkv_bias = config.family in ("gpt2", "qwen2")
        norm(f"{at}.attention_norm")
        linear(f"{at}.attention.q", queries, hidden, qkv_bias)
        linear(f"{at}.attention.k", keys, hidden, qkv_bias)
        linear(f"{at}.attention.v", keys, hidden, qkv_bias)
        linear(f"{at}.attention.o", hidden, queries, gpt2)
        if config.family == "qwen3":
            shapes[f"{at}.attention.q_norm.weight"] = (config.head_dim,)
            shapes[f"{at}.attention.k_norm.weight"] = (config.head_dim,)
        norm(f"{at}.mlp_norm")
        if not gpt2:
            linear(f"{at}.mlp.gate", ffn, hidden, False)
        linear(f"{at}.mlp.up", ffn, hidden, gpt2)
        linear(f"{at}.mlp.down", hidden, ffn, gpt2)
    norm("norm")
    if not config.tied:
        shapes["head.weight"] = (config.vocab, hidden)
    return shapes


@dataclasses.dataclass(frozen=True)
class Batch:
    """Integer tensors [sequences, length]. Token t sees tokens document_start[t] to t of
    its own sequence; positions feed the position embedding or the rotation."""

    ids: torch.Tensor
    targets: torch.Tensor
    positions: torch.Tensor
    document_start: torch.Tensor


def rms_norm(x, gain, eps):
    return gain * x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps)


def layer_norm(x, gain, bias, eps):
    centred = x - x.mean(-1, keepdim=True)
    return gain * centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + eps) + bias


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def rotary_frequencies(config):
    """Radians a position turns each pair of elements by, [head_dim / 2], float64."""
    pairs = torch.arange(0, config.head_dim, 2, dtype=torch.float64)
    frequencies = config.rope_theta ** (-pairs / config.head_dim)
    scaling = config.rope_scaling
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return frequencies
    if kind != "llama3":
        raise ValueError(f"rope_type {kind!r} is neither default nor llama3")
    # Llama 3.1: long waves are stretched by `factor`, short ones kept, those between blended.
    factor, low, high = (scaling[k] for k in ("factor", "low_freq_factor", "high_freq_factor"))
    turns = scaling["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return kept * frequencies + (1 - kept) * frequencies / factor


def rotate(x, positions, config):
    """x [sequences, length, heads, head_dim], turned in the half-split form."""
    angles = positions.to(torch.float64)[..., None, None] * rotary_frequencies(config)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Model:
    """A model over a dict of weights under their logical names."""

    def __init__(self, config, weights):
        expected = weight_shapes(config)
        found = {name: tuple(w.shape) for name, w in weights.items()}
        if found != expected:
            wrong = sorted(set(found.items()) ^ set(expected.items()))
            raise ValueError(f"tensors do not fit the config: {wrong}")
        self.config = config
        self.weights = weights

    def _linear(self, name, x):
        y = x @ self.weights[f"{name}.weight"].T
        bias = self.weights.get(f"{name}.bias")
        return y if bias is None else y + bias

    def _norm(self, name, x):
        gain = self.weights[f"{name}.weight"]
        if self.config.family == "gpt2":
            return layer_norm(x, gain, self.weights[f"{name}.bias"], self.config.eps)
        return rms_norm(x, gain, self.config.eps)

    def _attention(self, at, x, batch):
        c = self.config
        sequences, length, _ = x.shape
        query = self._linear(f"{at}.q", x).view(sequences, length, c.heads, c.head_dim)
        key = self._linear(f"{at}.k", x).view(sequences, length, c.kv_heads, c.head_dim)
        value = self._linear(f"{at}.v", x).view(sequences, length, c.kv_heads, c.head_dim)
        if c.family == "qwen3":
            query = rms_norm(query, self.weights[f"{at}.q_norm.weight"], c.eps)
            key = rms_norm(key, self.weights[f"{at}.k_norm.weight"], c.eps)
        if c.rotary:
            query, key = (rotate(z, batch.positions, c) for z in (query, key))
        # query head h reads key and value head h // (heads / kv_heads)
        key, value = (z.repeat_interleave(c.heads // c.kv_heads, dim=2) for z in (key, value))
        scores = torch.einsum("bthd,bshd->bhts", query, key) / math.sqrt(c.head_dim)
        at_t = torch.arange(length)[:, None]
        at_s = torch.arange(length)[None, :]
        visible = (at_s <= at_t) & (at_s >= batch.document_start[:, :, None])
        scores = scores.masked_fill(~visible[:, None], -math.inf)
        mixed = torch.einsum("bhts,bshd->bthd", scores.softmax(-1), value)
        return self._linear(f"{at}.o", mixed.reshape(sequences, length, -1))

    def _mlp(self, at, x):
        up = self._linear(f"{at}.up", x)
        if self.config.family == "gpt2":
            return self._linear(f"{at}.down", gelu_tanh(up))
        gate = self._linear(f"{at}.gate", x)
        return self._linear(f"{at}.down", gate * torch.sigmoid(gate) * up)

    def logits(self, batch):
        x = self.weights["embedding.weight"][batch.ids]
        if not self.config.rotary:
            x = x + self.weights["position.weight"][batch.positions]
        for i in range(self.config.layers):
            at = f"layers.{i}"
            x = x + self._attention(f"{at}.attention", self._norm(f"{at}.attention_norm", x), batch)
            x = x + self._mlp(f"{at}.mlp", self._norm(f"{at}.mlp_norm", x))
        head = "embedding.weight" if self.config.tied else "head.weight"
        return self._norm("norm", x) @ self.weights[head].T

    def loss(self, batch):
        """Mean cross-entropy in nats over the targets that count."""
        return cross_entropy(self.logits(batch), batch.targets)


def cross_entropy(logits, targets):
    logits, targets = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
    return functional.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="mean")


def learning_rate(step, peak, schedule):
    """The rate of update `step`, counted from 1. `schedule` has the keys of [lr_scheduler]
    and `steps`."""
    warmup, steps, least = (schedule[k] for k in ("warmup_steps", "steps", "min_lr_factor"))
    if step <= warmup:
        return peak * step / warmup
    progress = (step - warmup) / max(1, steps - warmup)
    if schedule["name"] == "constant":
        shape = 1.0
    elif schedule["name"] == "linear":
        shape = 1 - progress
    elif schedule["name"] == "cosine":
        shape = (1 + math.cos(math.pi * progress)) / 2
    else:
        raise ValueError(f"the reference has no schedule {schedule['name']!r}")
    return peak * (least + (1 - least) * shape)


def train(model, batches, optimizer, max_norm, schedule):
    """One AdamW update a batch; decay on matrices only, gradients clipped by their global
    norm. Returns losses, gradient norms and learning rates, one of each a step, the loss
    being that before the update."""
    weights = list(model.weights.values())
    groups = [
        {"params": [w for w in weights if w.dim() >= 2], "weight_decay": optimizer["weight_decay"]},
        {"params": [w for w in weights if w.dim() < 2], "weight_decay": 0.0},
    ]
    adamw = torch.optim.AdamW(
        groups, lr=0.0, betas=(optimizer["beta1"], optimizer["beta2"]), eps=optimizer["eps"]
    )
    losses, norms, rates = [], [], []
    for step, batch in enumerate(batches, start=1):
        adamw.zero_grad(set_to_none=True)
        loss = model.loss(batch)
        loss.backward()
        norm = math.sqrt(sum(float((w.grad.double() ** 2).sum()) for w in weights))
        if max_norm > 0 and norm > max_norm:
            for w in weights:
                w.grad.mul_(max_norm / norm)
        rate = learning_rate(step, optimizer["lr"], schedule)
        for group in adamw.param_groups:
            group["lr"] = rate
        adamw.step()
        losses.append(float(loss.detach()))
        norms.append(norm)
        rates.append(rate)
    return losses, norms, rates
