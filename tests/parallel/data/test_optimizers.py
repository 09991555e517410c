#!/usr/bin/python3
"""test_optimizers.py PROGRAM: 50 steps of every optimizer, sharded and not, against NumPy.

PROGRAM is optimizer_dump. float32 must stay within 1e-5 of float64's losses, float64 within
1e-11: the definitions are the same, not only alike. Where PyTorch is installed, its own SGD,
AdamW and automatic gradients judge the reference. Exit code 77 without NumPy.
"""

import json
import subprocess
import sys

try:
    import numpy as np
except ImportError:
    print("skipped: needs NumPy (Debian: python3-numpy)")
    sys.exit(77)
import reference_rules as reference

STEPS = 50
BASE = {"beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1, "momentum": 0.9,
        "nesterov": False, "trust_coefficient": 0.01, "adjust_lr": "match_rms_adamw",
        "adamw_lr": 0.0, "grad_scale": 0.8}
CASES = [
    ("AdamW", {"lr": 0.02}),
    ("SGD", {"lr": 0.2, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.2, "weight_decay": 0.01, "nesterov": True}),
    ("Lion", {"lr": 0.005, "beta2": 0.99}),
    ("LAMB", {"lr": 0.02, "eps": 1e-6}),
    ("LARS", {"lr": 1.0}),
    ("Muon", {"lr": 0.02, "momentum": 0.95, "nesterov": True}),
    ("Muon", {"lr": 0.02, "adjust_lr": "original"}),
    ("Muon", {"lr": 0.02, "adamw_lr": 0.002}),
]
LAYOUTS = [(1, 1), (2, 1), (4, 1), (1, 2), (2, 2)]  # shard x tensor


def dump(program, name, how, dtype, shard, tensor):
    command = [program, "--name", name, "--dtype", dtype, "--steps", str(STEPS)]
    command += ["--shard", str(shard), "--tensor", str(tensor)]
    for key, value in how.items():
        flag = "--" + key.replace("_", "-")
        command += ([flag] if value else []) if isinstance(value, bool) else [flag, str(value)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def shaped(tensors):
    shapes = {"embedding.weight": (12, 6), "gain": (6,), "layers.0.up.weight": (10, 6),
              "layers.0.down.weight": (6, 10)}
    return {name: np.reshape(tensors[name], shape) for name, shape in shapes.items()}


def off(ours, theirs):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    return float(np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs)))


def judge(program, name, how, dtype, shard, tensor):
    got = dump(program, name, how, dtype, shard, tensor)
    losses, weights = reference.train(name, shaped(got["initial"]), STEPS, how)
    if losses[-1] > 0.7 * losses[0]:
        raise SystemExit(f"{name}: the reference hardly learns: {losses[0]} to {losses[-1]}")
    curve = max(abs(a - b) / b for a, b in zip(got["losses"], losses))
    end = max(off(values, weights[key]) for key, values in shaped(got["weights"]).items())
    allowed = 1e-5 if dtype == "float32" else 1e-11
    good = len(got["losses"]) == STEPS and curve <= allowed and end <= 20 * allowed
    print(f"{'ok  ' if good else 'FAIL'} {name:5} {dtype} shard {shard} tensor {tensor}: "
          f"loss {losses[0]:.4f} to {losses[-1]:.4f}, off by {curve:.1e}, weights by {end:.1e}")
    return good


def torch_agrees():
    """Holds the reference's gradients, SGD and AdamW against PyTorch's."""
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed: the reference is judged by nobody")
        return True
    random = np.random.default_rng(1)
    shapes = {"embedding.weight": (12, 6), "gain": (6,), "layers.0.up.weight": (10, 6),
              "layers.0.down.weight": (6, 10)}
    initial = {name: random.normal(0, 0.5, shape) for name, shape in shapes.items()}
    good = True
    for name, changes in CASES[:3]:
        how = {**BASE, **changes, "grad_scale": 1.0}
        weights = {key: torch.tensor(value, requires_grad=True) for key, value in initial.items()}
        groups = [{"params": [w], "weight_decay": reference.decay_of(key, how)}
                  for key, w in weights.items()]
        if name == "AdamW":
            optimizer = torch.optim.AdamW(groups, lr=how["lr"], betas=(how["beta1"], how["beta2"]),
                                          eps=how["eps"])
        else:
            optimizer = torch.optim.SGD(groups, lr=how["lr"], momentum=how["momentum"],
                                        nesterov=how["nesterov"])
        losses = []
        token, k = torch.arange(12.0)[:, None].double(), torch.arange(6.0)[None, :].double()
        for step in range(1, STEPS + 1):
            target = torch.sin(0.7 * token + 1.3 * k) + 0.1 * torch.sin(0.37 * step + token * k)
            h = torch.tanh((weights["embedding.weight"] * weights["gain"])
                           @ weights["layers.0.up.weight"].T)
            loss = 0.5 * ((h @ weights["layers.0.down.weight"].T - target) ** 2).sum() / 12
            losses.append(loss.item())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        ours, _ = reference.train(name, initial, STEPS, how)
        same = off(ours, losses) < 1e-10
        print(f"{'ok  ' if same else 'FAIL'} {name:5} reference and PyTorch: off by "
              f"{off(ours, losses):.1e}")
        good &= same
    return good


def main(program):
    good = torch_agrees()
    for name, changes in CASES:
        for dtype in ("float32", "float64"):
            for shard, tensor in LAYOUTS:
                good &= judge(program, name, {**BASE, **changes}, dtype, shard, tensor)
    return 0 if good else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: test_optimizers.py PROGRAM")
    sys.exit(main(sys.argv[1]))
