#!/usr/bin/env python3
"""Times a training step of a plain PyTorch decoder, the reference of scripts/bench.

    torch_step.py --arch gpt2|llama --layers L --hidden D --heads H --ffn F --vocab V
                  --positions P --seq T --batch B [--threads 2] [--steps 8] [--setting NAME]

A step is forward, backward and AdamW in float32 on random tokens; gradients are not clipped.
Runs on PyTorch 1.13 and later. Settings: plain (tutorial style), foreach (multi-tensor AdamW), sdpa
(fused attention and fused AdamW, if available), compile (sdpa, and torch.compile over the model).
Prints METRIC lines; exit code 77 if this PyTorch does not support the setting.
"""

import argparse
import math
import statistics
import sys
import time

import torch
import torch.nn.functional as functional
from torch import nn

SKIPPED = 77


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def rotate(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Block(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.o, self.llama = o, o.arch == "llama"
        norm = RmsNorm if self.llama else nn.LayerNorm
        bias = not self.llama
        self.norm1, self.norm2 = norm(o.hidden), norm(o.hidden)
        self.qkv = nn.Linear(o.hidden, 3 * o.hidden, bias=bias)
        self.out = nn.Linear(o.hidden, o.hidden, bias=bias)
        self.up = nn.Linear(o.hidden, 2 * o.ffn if self.llama else o.ffn, bias=bias)
        self.down = nn.Linear(o.ffn, o.hidden, bias=bias)

    def attention(self, x, hidden_mask, rotation):
        o = self.o
        batch, seq, width = x.shape
        split = (batch, seq, o.heads, width // o.heads)
        q, k, v = (t.view(split).transpose(1, 2) for t in self.qkv(x).split(width, -1))
        if self.llama:
            q, k = rotate(q, *rotation), rotate(k, *rotation)
        if o.setting in ("sdpa", "compile"):
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) / math.sqrt(width // o.heads)
            y = functional.softmax(scores.masked_fill(hidden_mask, -math.inf), -1) @ v
        return self.out(y.transpose(1, 2).reshape(batch, seq, width))

    def forward(self, x, hidden_mask, rotation):
        x = x + self.attention(self.norm1(x), hidden_mask, rotation)
        h = self.up(self.norm2(x))
        if self.llama:
            gate, up = h.chunk(2, -1)
            h = functional.silu(gate) * up
        else:
            h = functional.gelu(h, approximate="tanh")
        return x + self.down(h)


class Model(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.tokens = nn.Embedding(o.vocab, o.hidden)
        self.positions = nn.Embedding(o.positions, o.hidden) if o.arch == "gpt2" else None
        self.blocks = nn.ModuleList([Block(o) for _ in range(o.layers)])
        self.norm = nn.LayerNorm(o.hidden) if o.arch == "gpt2" else RmsNorm(o.hidden)
        self.head = nn.Linear(o.hidden, o.vocab, bias=False)
        if o.arch == "gpt2":
            self.head.weight = self.tokens.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.02)
        width = o.hidden // o.heads
        turn = 10000 ** (-torch.arange(0, width, 2).float() / width)
        angles = torch.arange(o.seq).float()[:, None] * turn
        angles = torch.cat((angles, angles), -1)
        mask = torch.triu(torch.ones(o.seq, o.seq, dtype=torch.bool), 1)
        for name, value in (("cos", angles.cos()), ("sin", angles.sin()), ("mask", mask)):
            self.register_buffer(name, value, persistent=False)

    def forward(self, ids, targets):
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, self.mask, (self.cos, self.sin))
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def optimizer(model, setting):
    how = dict(lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1)
    if setting == "foreach":
        return torch.optim.AdamW(model.parameters(), foreach=True, **how)
    if setting in ("sdpa", "compile"):
        try:
            return torch.optim.AdamW(model.parameters(), fused=True, **how)
        except (TypeError, RuntimeError):
            pass
    return torch.optim.AdamW(model.parameters(), **how)


def measure(o, model, adamw, loss):
    """Times `loss()`, its backward and the update, and prints METRIC lines."""
    warm_up, seconds = 3, []
    for step in range(warm_up + o.steps):
        start = time.perf_counter()
        loss().backward()
        adamw.step()
        adamw.zero_grad(set_to_none=True)
        if step >= warm_up:
            seconds.append(time.perf_counter() - start)
    print("METRIC tok_s", o.batch * o.seq / statistics.median(seconds))
    print("METRIC ms_step", statistics.median(seconds) * 1e3)
    print("METRIC parameters", sum(p.numel() for p in model.parameters()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", choices=("gpt2", "llama"), required=True)
    for name in ("layers", "hidden", "heads", "ffn", "vocab", "positions", "seq", "batch"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8)
    settings = ("plain", "foreach", "sdpa", "compile")
    parser.add_argument("--setting", default="plain", choices=settings)
    o = parser.parse_args()
    if o.setting == "sdpa" and not hasattr(functional, "scaled_dot_product_attention"):
        return SKIPPED
    if o.setting == "compile" and not hasattr(torch, "compile"):
        return SKIPPED
    torch.set_num_threads(o.threads)
    torch.manual_seed(0)
    model = Model(o)
    adamw = optimizer(model, o.setting)
    ids = torch.randint(0, o.vocab, (o.batch, o.seq))
    targets = torch.randint(0, o.vocab, (o.batch, o.seq))
    forward = torch.compile(model) if o.setting == "compile" else model
    measure(o, model, adamw, lambda: forward(ids, targets))
    return 0


if __name__ == "__main__":
    sys.exit(main())
