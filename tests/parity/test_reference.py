#!/usr/bin/python3
"""Tests of the comparison: the reference agrees with itself, planted mistakes are found."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

try:
    import numpy
    import torch
except ImportError:
    print("skipped: needs PyTorch (Debian: python3-torch)")
    sys.exit(77)

import compare
import exchange
import reference
import tiny

CURVE = {
    "optimizer": {"lr": 3e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1},
    "max_norm": 1.0,
    "schedule": {"name": "cosine", "warmup_steps": 5, "steps": 20, "min_lr_factor": 0.1},
}


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def write_dump(folder, family, dtype):
    """A dump made by the reference itself."""
    keys = tiny.CONFIGS[family]
    config = reference.read_config(keys)
    generator = seeded(7)
    weights = tiny.weights(config, generator, dtype)
    batch = tiny.batch(config, generator, documents=True)
    tensors = {f"weight/{n}": w.detach().numpy().copy() for n, w in weights.items()}
    model = reference.Model(config, weights)
    logits = model.logits(batch)
    loss = reference.cross_entropy(logits, batch.targets)
    loss.backward()
    tensors.update({f"gradient/{n}": w.grad.numpy().copy() for n, w in weights.items()})
    tensors.update(logits=logits.detach().numpy(), loss=loss.detach().numpy())
    batches = [tiny.batch(config, generator) for _ in range(20)]
    losses, norms, rates = reference.train(model, batches, **CURVE)
    curve = dict(CURVE, batches=[exchange.arrays_of(b) for b in batches], losses=losses)
    curve.update(grad_norms=norms, learning_rates=rates)
    exchange.write(folder, keys, tensors, batch, curve)


def verdict(folder):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        good = compare.compare(folder, printed)
    return good, printed.getvalue()


class Comparison(unittest.TestCase):
    def test_a_dump_of_the_reference_itself_passes(self):
        for family in reference.FAMILIES:
            for dtype in (torch.float32, torch.float64):
                with self.subTest(family=family, dtype=dtype):
                    with tempfile.TemporaryDirectory() as folder:
                        write_dump(folder, family, dtype)
                        good, printed = verdict(folder)
                    self.assertTrue(good, printed)

    def test_a_planted_mistake_in_any_tensor_fails_and_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            write_dump(folder, "gpt2", torch.float32)
            raw = pathlib.Path(folder, "tensors.bin")
            right = raw.read_bytes()
            for name, entry in exchange.read_json(folder, "tensors.json").items():
                if name.startswith("weight/"):
                    continue
                tensor = exchange.read_tensors(folder)[name].copy()
                tensor.reshape(-1)[-1] += max(3e-5 * numpy.abs(tensor).max(), 1e-5)
                start = entry["offset"]
                raw.write_bytes(right[:start] + tensor.tobytes() + right[start + tensor.nbytes :])
                good, printed = verdict(folder)
                raw.write_bytes(right)
                self.assertFalse(good, name)
                self.assertIn(name.replace("gradient/", "gradient of "), printed)

    def test_a_drifting_loss_curve_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            write_dump(folder, "qwen2", torch.float32)
            path = pathlib.Path(folder, "curve.json")
            curve = exchange.read_json(folder, "curve.json")
            curve["losses"][-1] *= 1 + 2e-5
            path.write_text(json.dumps(curve))
            good, printed = verdict(folder)
            self.assertFalse(good)
            self.assertIn("losses of 20 steps", printed)

    def test_a_missing_gradient_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            write_dump(folder, "llama", torch.float32)
            path = pathlib.Path(folder, "tensors.json")
            index = exchange.read_json(folder, "tensors.json")
            del index["gradient/norm.weight"]
            path.write_text(json.dumps(index))
            good, printed = verdict(folder)
            self.assertFalse(good)
            self.assertIn("norm.weight", printed)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
