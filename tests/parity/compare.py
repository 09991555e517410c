#!/usr/bin/python3
"""Judges a parity dump by the PyTorch reference: compare.py FOLDER...

Recomputes logits, loss, every gradient and the loss curve from the dumped weights and
batches, in float32 and in float64, and holds the dump against both. Exit code 0 when all
of it agrees, 1 when anything does not.
"""

import dataclasses
import hashlib
import json
import sys

import numpy
import torch

import architecture
import exchange
import reference

# Largest relative difference by the dump's own dtype: what float32 is promised, and what
# float64 rounding leaves of a right formula.
LIMIT = {"F32": 1e-5, "F64": 1e-10}
NORM_LIMIT = {"F32": 1e-4, "F64": 1e-8}  # gradient norms along the curve, twenty updates on


def relative(ours, theirs):
    """max|ours - theirs| / max|theirs| over a whole tensor."""
    ours, theirs = (numpy.asarray(x, dtype=numpy.float64) for x in (ours, theirs))
    if ours.shape != theirs.shape:
        return float("inf")
    scale = numpy.abs(theirs).max()
    difference = numpy.abs(ours - theirs).max()
    if not numpy.isfinite(difference):
        return float("inf")
    return float(difference / scale) if scale > 0 else float(difference)


def zero_by_symmetry(name, config):
    """Where positions do not rotate them (GPT-2, NoPE layers), a key bias adds the same to every
    score of a row, which the softmax drops: in exact arithmetic its gradient is zero, so that
    there is nothing to be relative to."""
    if not name.endswith("attention.k.bias"):
        return False
    return config.layers[int(name.split(".")[1])].rope is None


def as_weights(tensors, dtype):
    return {
        name[len("weight/"):]: torch.tensor(array).to(dtype).requires_grad_()
        for name, array in tensors.items()
        if name.startswith("weight/")
    }


def read(folder):
    """Config, tensors, batch, curve and the load balancing loss of a dump."""
    curve = exchange.read_json(folder, "curve.json")
    balance = reference.load_balance_by_layer
    if "micro_batch_tokens" in curve:
        balance = reference.load_balance_of_micro_batches(curve["micro_batch_tokens"])
    return (
        architecture.read_config(exchange.read_json(folder, "config.json")),
        exchange.read_tensors(folder),
        exchange.batch_of(exchange.read_json(folder, "batch.json")),
        curve,
        balance,
    )


@dataclasses.dataclass
class Computed:
    """What the reference computes from a dump's weights and batches."""

    logits: numpy.ndarray
    loss: numpy.ndarray
    gradients: dict
    losses: list
    norms: list
    rates: list
    closest: float  # smallest difference between two scores that decide a token's experts


computed_of = {}  # digest of what it is computed from -> Computed


def digest_of(folder, tensors, curve, dtype):
    results = ("losses", "grad_norms", "learning_rates")
    digest = hashlib.sha256(str(dtype).encode())
    for name in ("config.json", "batch.json"):
        digest.update(json.dumps(exchange.read_json(folder, name)).encode())
    digest.update(json.dumps({k: v for k, v in curve.items() if k not in results}).encode())
    for name, array in sorted(tensors.items()):
        if name.startswith("weight/"):
            digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.digest()


def computed(folder, dtype):
    """Once for the dumps of equal weights and batches, whose results may differ."""
    config, tensors, batch, curve, balance = read(folder)
    key = digest_of(folder, tensors, curve, dtype)
    if key not in computed_of:
        model = reference.Model(config, as_weights(tensors, dtype), balance)
        logits, loss = model.outputs(batch)
        loss.backward()
        fresh = reference.Model(config, as_weights(tensors, dtype), balance)
        batches = [exchange.batch_of(b) for b in curve["batches"]]
        curves = reference.train(
            fresh, batches, curve["optimizer"], curve["max_norm"], curve["schedule"]
        )
        computed_of[key] = Computed(
            logits.detach().numpy(), loss.detach().numpy(), reference.gradients(model.weights),
            *curves, min(model.closest, fresh.closest),
        )  # fmt: skip
    return computed_of[key]


def judge(folder, dtype):
    """(what, difference, limit) of everything in the folder against the reference in `dtype`."""
    config, tensors, _, curve, _ = read(folder)
    own = "F64" if tensors["logits"].dtype == numpy.float64 and dtype == torch.float64 else "F32"
    limit = LIMIT[own]

    right = computed(folder, dtype)
    yield "logits", relative(tensors["logits"], right.logits), limit
    yield "loss", relative(tensors["loss"].reshape(()), right.loss), limit
    gradients = right.gradients
    dumped = {n[len("gradient/"):] for n in tensors if n.startswith("gradient/")}
    if dumped != set(gradients):
        yield f"names of gradients: {sorted(dumped ^ set(gradients))}", float("inf"), limit
    for name in sorted(dumped & set(gradients)):
        ours, theirs = tensors[f"gradient/{name}"], gradients[name]
        if zero_by_symmetry(name, config):
            beside = numpy.abs(gradients[name.replace(".k.", ".q.")]).max()
            yield f"gradient of {name} (zero)", float(numpy.abs(ours).max() / beside), limit
        else:
            yield f"gradient of {name}", relative(ours, theirs), limit

    for what, ours, theirs, most in (
        ("losses", curve["losses"], right.losses, limit),
        ("gradient norms", curve["grad_norms"], right.norms, NORM_LIMIT[own]),
        ("learning rates", curve["learning_rates"], right.rates, limit),
    ):
        each = [relative(a, b) for a, b in zip(ours, theirs)]
        worst = max(each) if len(ours) == len(theirs) and each else float("inf")
        yield f"{what} of {len(theirs)} steps", worst, most


# Scores of experts closer than this may change places by rounding in float32.
TIE = 1e-5


def has_tie(folder):
    """Whether rounding may route a token of the dump to another expert, so that nothing can be
    compared."""
    config, *_ = read(folder)
    return config.experts > 0 and computed(folder, torch.float64).closest < TIE


def compare(folder, out=sys.stdout):
    """Prints a line a dtype and one for every disagreement; true when there is none."""
    good = True
    for dtype in (torch.float32, torch.float64):
        findings = list(judge(folder, dtype))
        what, difference, limit = max(findings, key=lambda f: f[1] / f[2])
        print(
            f"{folder} against {str(dtype).split('.')[1]}: {len(findings)} comparisons, "
            f"worst {difference:.1e} of {limit:.0e} allowed ({what})",
            file=out,
        )
        for what, difference, limit in findings:
            if not difference <= limit:
                good = False
                print(f"  {what}: differs by {difference:.3e}, allowed {limit:.0e}", file=out)
    return good


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: compare.py FOLDER...")
    torch.set_num_threads(1)
    sys.exit(0 if all([compare(folder) for folder in sys.argv[1:]]) else 1)
