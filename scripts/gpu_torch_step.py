#!/usr/bin/env python3
"""Times a training step of a plain PyTorch decoder on a GPU, the reference of scripts/gpu_hour:

    gpu_torch_step.py SHAPE.json [--steps 8] [--masters float32|bfloat16]

SHAPE has layers, hidden, heads, key_value_heads, head (its width), ffn, vocab, seq, batch, micro_batches, family
(gpt2, llama, or moe: a llama whose MLPs are experts, top_k of them for each token, in turn; queries and keys have
norms), tied and qkv_bias. A step is forward and backward of all micro-batches and fused AdamW on random
tokens, with scaled_dot_product_attention; blocks, head and loss go through torch.compile. With float32 masters,
weights, gradients and moments are float32 and products bfloat16 (autocast); with bfloat16 all are bfloat16.
Prints METRIC lines.
"""

import argparse
import json
import statistics
import time
from types import SimpleNamespace

import torch
import torch.nn.functional as functional
from torch import nn


def rotate(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return functional.rms_norm(x, x.shape[-1:], self.weight, 1e-6)


class Experts(nn.Module):
    """Rows sorted by expert, whose products are grouped, as in torchtitan."""

    def __init__(self, o):
        super().__init__()
        self.o = o
        self.router = nn.Linear(o.hidden, o.experts, bias=False)
        self.up = nn.Parameter(torch.empty(o.experts, 2 * o.ffn, o.hidden))
        self.down = nn.Parameter(torch.empty(o.experts, o.hidden, o.ffn))

    def forward(self, x):
        o, rows = self.o, x.flatten(0, 1)
        scores = self.router(rows).float().softmax(-1)
        turn = torch.arange(rows.shape[0] * o.top_k, device=x.device) % o.experts
        weights = scores.gather(1, turn.view(-1, o.top_k))
        weights = (weights / weights.sum(-1, keepdim=True)).flatten()
        order = turn.argsort(stable=True)
        ends = torch.bincount(turn, minlength=o.experts).cumsum(0).int()
        h = functional.grouped_mm(rows[order // o.top_k], self.up.bfloat16().transpose(1, 2), offs=ends)
        gate, up = h.chunk(2, -1)
        h = functional.silu(gate) * up
        h = functional.grouped_mm(h, self.down.bfloat16().transpose(1, 2), offs=ends)
        h = h.float() * weights[order, None]
        y = torch.zeros(rows.shape, device=x.device).index_add(0, order // o.top_k, h)
        return y.view(x.shape).bfloat16()


class Block(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.o, gpt2 = o, o.family == "gpt2"
        norm = nn.LayerNorm if gpt2 else RmsNorm
        self.widths = [o.heads * o.head, o.key_value_heads * o.head, o.key_value_heads * o.head]
        self.norm1, self.norm2 = norm(o.hidden), norm(o.hidden)
        self.qkv = nn.Linear(o.hidden, sum(self.widths), bias=gpt2 or o.qkv_bias)
        self.out = nn.Linear(o.heads * o.head, o.hidden, bias=gpt2)
        if o.family == "moe":
            self.experts = Experts(o)
            self.query_norm, self.key_norm = norm(o.head), norm(o.head)
            return
        self.up = nn.Linear(o.hidden, o.ffn if gpt2 else 2 * o.ffn, bias=gpt2)
        self.down = nn.Linear(o.ffn, o.hidden, bias=gpt2)

    def attention(self, x, cos, sin):
        batch, seq, _ = x.shape
        parts = self.qkv(x).split(self.widths, -1)
        q, k, v = (part.view(batch, seq, -1, self.o.head).transpose(1, 2) for part in parts)
        if self.o.family == "moe":
            q, k = self.query_norm(q), self.key_norm(k)
        if self.o.family != "gpt2":
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        grouped = self.o.heads != self.o.key_value_heads
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        return self.out(y.transpose(1, 2).reshape(batch, seq, -1))

    def forward(self, x, cos, sin):
        x = x + self.attention(self.norm1(x), cos, sin)
        if self.o.family == "moe":
            return x + self.experts(self.norm2(x))
        h = self.up(self.norm2(x))
        if self.o.family == "gpt2":
            h = functional.gelu(h, approximate="tanh")
        else:
            gate, up = h.chunk(2, -1)
            h = functional.silu(gate) * up
        return x + self.down(h)


class Model(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.o = o
        self.tokens = nn.Embedding(o.vocab, o.hidden)
        self.positions = nn.Embedding(o.seq, o.hidden) if o.family == "gpt2" else None
        self.blocks = nn.ModuleList(Block(o) for _ in range(o.layers))
        self.norm = (nn.LayerNorm if o.family == "gpt2" else RmsNorm)(o.hidden)
        self.head = nn.Linear(o.hidden, o.vocab, bias=False)
        if o.tied:
            self.head.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0, 0.02)
        turn = 10000 ** (-torch.arange(0, o.head, 2).float() / o.head)
        angles = torch.arange(o.seq).float()[:, None] * turn
        angles = torch.cat((angles, angles), -1)
        self.register_buffer("cos", angles.cos().bfloat16(), persistent=False)
        self.register_buffer("sin", angles.sin().bfloat16(), persistent=False)

    def loss(self, x, targets):
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    def forward(self, ids, targets):
        x = self.tokens(ids).bfloat16()
        if self.positions is not None:
            x = x + self.positions.weight[: ids.shape[1]].to(x.dtype)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.loss(x, targets)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--masters", choices=("float32", "bfloat16"), default="float32")
    arguments = parser.parse_args()
    with open(arguments.shape, encoding="utf-8") as file:
        o = SimpleNamespace(**json.load(file))
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = Model(o)
        ids = torch.randint(o.vocab, (o.micro_batches, o.batch, o.seq + 1))
    if arguments.masters == "bfloat16":
        model.bfloat16()
    for block in model.blocks:
        block.compile()
    model.loss = torch.compile(model.loss)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    def step():
        for batch in ids:
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(batch[:, :-1], batch[:, 1:]) / o.micro_batches
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss) * o.micro_batches

    seconds, losses = [], []
    for _ in range(arguments.steps + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        losses.append(step())
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    print(f"METRIC step_seconds {statistics.median(seconds[2:])}")
    print(f"METRIC losses {losses[0]:.4f} {losses[-1]:.4f}")
    print(f"METRIC memory_gib {torch.cuda.max_memory_allocated() / 2**30:.1f}")
    print(f"METRIC version {torch.__version__}")


if __name__ == "__main__":
    main()
