#!/usr/bin/python3
"""Tests of the comparison: the reference agrees with itself, planted mistakes are found."""

import contextlib
import dataclasses
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

import architecture
import compare
import exchange
import hugging_face
import reference
import tiny
from mistakes import GRADIENT_MISTAKES, MISTAKES

CURVE = {
    "optimizer": {"lr": 3e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1},
    "max_norm": 1.0,
    "schedule": {"name": "cosine", "warmup_steps": 5, "steps": 20, "min_lr_factor": 0.1},
}


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def write_dump(folder, case, dtype, steps=20, make=reference.Model):
    """A dump made by the reference itself, or by a model that `make` makes with a mistake."""
    keys = tiny.CASES[case]
    config = architecture.read_config(keys)
    generator = seeded(7)
    weights = tiny.weights(config, generator, dtype)
    batch = tiny.batch(config, generator, documents=True)
    tensors = {f"weight/{n}": w.detach().numpy().copy() for n, w in weights.items()}
    model = make(config, weights)
    logits, loss = model.outputs(batch)
    loss.backward()
    gradients = reference.gradients(weights)
    tensors.update({f"gradient/{n}": g.copy() for n, g in gradients.items()})
    tensors.update(logits=logits.detach().numpy(), loss=loss.detach().numpy())
    batches = [tiny.batch(config, generator) for _ in range(steps)]
    losses, norms, rates = reference.train(model, batches, **CURVE)
    curve = dict(CURVE, batches=[exchange.arrays_of(b) for b in batches], losses=losses)
    curve.update(grad_norms=norms, learning_rates=rates)
    exchange.write(folder, keys, tensors, batch, curve)


def wrong_rate(rate):
    """Models whose router biases move by another rate, after right logits."""

    class WrongRate(reference.Model):
        def update_router_biases(self):
            right = self.config
            self.config = dataclasses.replace(right, bias_rate=rate)
            super().update_router_biases()
            self.config = right

    return WrongRate


def as_transformers_5(keys):
    """The config in the keys of transformers 5: rope_parameters, by type of layer where these
    differ, and layer_types."""
    old = ("rope_theta", "rope_scaling", "partial_rotary_factor", "rope_local_base_freq")
    new = {key: value for key, value in keys.items() if key not in old}
    if keys["model_type"] == "gpt2":
        return new
    config = architecture.read_config(keys)
    parameters = {}
    for layer in config.layers:
        if layer.rope:
            kind = "full_attention" if layer.window is None else "sliding_attention"
            parameters[kind] = {
                "rope_type": "default", **layer.rope.scaling, "rope_theta": layer.rope.theta,
                "partial_rotary_factor": layer.rope.dims / config.head_dim,
            }  # fmt: skip
            if "type" in parameters[kind]:
                parameters[kind]["rope_type"] = parameters[kind].pop("type")
    if keys["model_type"] in ("olmo3", "gemma3_text"):
        new["layer_types"] = [
            "full_attention" if layer.window is None else "sliding_attention"
            for layer in config.layers
        ]
        new.pop("sliding_window_pattern", None)
        return {**new, "rope_parameters": parameters}
    if keys["model_type"] == "qwen3_moe":
        new["num_local_experts"] = new.pop("num_experts")
    return {**new, "rope_parameters": next(iter(parameters.values()))}


def verdict(folder):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        good = compare.compare(folder, printed)
    return good, printed.getvalue()


class Comparison(unittest.TestCase):
    def test_a_dump_of_the_reference_itself_passes(self):
        for case in tiny.CASES:
            for dtype, steps in ((torch.float32, 20), (torch.float64, 1)):
                with self.subTest(case=case, dtype=dtype):
                    with tempfile.TemporaryDirectory() as folder:
                        write_dump(folder, case, dtype, steps)
                        good, printed = verdict(folder)
                    self.assertTrue(good, printed)

    def test_a_mistake_in_any_switch_changes_logits_and_fails(self):
        for case, mistakes in MISTAKES.items():
            for mistake, make in mistakes.items():
                with self.subTest(case=case, mistake=mistake):
                    with tempfile.TemporaryDirectory() as folder:
                        write_dump(folder, case, torch.float32, 1, make)
                        good, printed = verdict(folder)
                    self.assertFalse(good)
                    self.assertIn("  logits: differs", printed)

    def test_a_mistake_of_experts_behind_right_logits_fails(self):
        for case, mistakes in GRADIENT_MISTAKES.items():
            for mistake, make in mistakes.items():
                with self.subTest(case=case, mistake=mistake):
                    with tempfile.TemporaryDirectory() as folder:
                        write_dump(folder, case, torch.float32, 1, make)
                        good, printed = verdict(folder)
                    self.assertFalse(good)
                    self.assertNotIn("  logits: differs", printed)
                    self.assertIn("  gradient of layers.0.mlp.", printed)

    def test_the_auxiliary_loss_of_one_layer_is_the_same_in_both_definitions(self):
        for case, same in (("qwen3_moe, every second layer", True), ("qwen3_moe", False)):
            with self.subTest(case=case):
                config = architecture.read_config(tiny.CASES[case])
                weights = tiny.weights(config, seeded(5), torch.float64)
                batch = tiny.batch(config, seeded(6))
                by_layer, of_all = (
                    float(reference.Model(config, weights, balance).loss(batch))
                    for balance in (reference.load_balance_by_layer, reference.load_balance_of_all)
                )
                self.assertEqual(abs(by_layer - of_all) < 1e-14, same)

    def test_the_config_of_transformers_5_gives_the_same_model(self):
        for case, keys in tiny.CASES.items():
            with self.subTest(case=case):
                old, new = (architecture.read_config(x) for x in (keys, as_transformers_5(keys)))
                weights = tiny.weights(old, seeded(5), torch.float32)
                batch = tiny.batch(old, seeded(6))
                logits = [reference.Model(c, weights).logits(batch) for c in (old, new)]
                self.assertTrue(torch.equal(*logits))

    def test_tensors_as_hugging_face_stores_them_are_read_back(self):
        for case, keys in tiny.CASES.items():
            with self.subTest(case=case):
                config = architecture.read_config(keys)
                weights = tiny.weights(config, seeded(3), torch.float32)
                stored = hugging_face.to_hugging_face(config, weights)
                found = hugging_face.from_hugging_face(config, stored)
                self.assertEqual(set(found), set(weights))
                self.assertTrue(all(torch.equal(w, weights[name]) for name, w in found.items()))
                name = next(name for name in stored if "layers.0" in name or ".h.0." in name)
                for wrong in (
                    {name: torch.cat((stored[name], stored[name]), dim=-1)},
                    {"model.unknown": stored[name]},
                ):
                    with self.assertRaises(ValueError):
                        reference.Model(
                            config, hugging_face.from_hugging_face(config, {**stored, **wrong})
                        )

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

    def test_a_router_bias_that_stays_or_moves_the_wrong_way_fails(self):
        for rate in (0.0, -0.01):
            with tempfile.TemporaryDirectory() as folder:
                write_dump(folder, "glm4_moe", torch.float32, 20, wrong_rate(rate))
                good, printed = verdict(folder)
            self.assertFalse(good)
            self.assertIn("losses of 20 steps", printed)
            self.assertNotIn("  logits: differs", printed)

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
