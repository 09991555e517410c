#!/usr/bin/python3
"""Holds the reference against Hugging Face's own classes, in float64, where they are installed."""

import contextlib
import copy
import dataclasses
import json
import sys
import unittest

import library

transformers = library.transformers()
if not transformers:
    print("skipped: needs PyTorch and transformers (PyPI); scripts/setup test fetches both")
    sys.exit(77)

import torch

import architecture
import compare
import hugging_face
import reference
import tiny

LIMIT = 1e-10


@contextlib.contextmanager
def float64_throughout():
    """What transformers asks for in float32 whatever the dtype of the model (rotary tables, norms,
    softmax) it gets in float64: the two then differ by rounding in float64 alone."""
    kept = torch.float32, torch.float, torch.Tensor.float, torch.get_default_dtype()
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = kept[:3]
        torch.set_default_dtype(kept[3])


def masks(batch, config, shape):
    """The documents' mask in the form that the class takes: for all layers, or one for each type
    of layer. Gemma's classes of transformers 4.51 put the window in themselves."""
    length = batch.ids.shape[1]
    at = torch.arange(length)
    back = at[:, None] - at[None, :]

    def mask(window):
        seen = (back >= 0) & (back < window) & (at >= batch.document_start[:, :, None])
        zero = torch.zeros(seen.shape, dtype=torch.float64)
        return zero.masked_fill(~seen, torch.finfo(torch.float64).min)[:, None]

    window = min((layer.window or length for layer in config.layers), default=length)
    if getattr(shape, "layer_types", None):
        return {"full_attention": mask(length), "sliding_attention": mask(window)}
    return mask(length if config.family.startswith("gemma") else window)


def as_stored(tensors, family):
    """The tensors of a class under the names of its files: transformers 5 keeps the experts of a
    layer in two tensors, which it writes one by one except those of gpt-oss."""
    if family in hugging_face.FUSED:
        return tensors
    stored = {}
    for name, tensor in tensors.items():
        layer, dot, last = name.partition(".mlp.experts.")
        if dot and tensor.dim() == 3:
            for expert, own in enumerate(tensor):
                rows = {"down_proj": own}
                if last == "gate_up_proj":
                    rows = dict(zip(("gate_proj", "up_proj"), own.chunk(2)))
                for kind, weight in rows.items():
                    stored[f"{layer}.mlp.experts.{expert}.{kind}.weight"] = weight
        else:
            stored[name] = tensor
    if family != "mixtral":
        return stored
    old = {".mlp.": ".block_sparse_moe.", "gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}
    renamed = {}
    for name, tensor in stored.items():
        for new, word in old.items():
            name = name.replace(new, word)
        renamed[name] = tensor
    return renamed


def gate_logits(model):
    """A list that each forward pass of the model fills with the logits of its routers."""
    found = []

    def keep(_, __, out):
        found.append(out[0] if isinstance(out, tuple) else out)

    def compute(router, inputs, _):  # gpt-oss's: not all versions return them
        rows = inputs[0].reshape(-1, router.weight.shape[1])
        found.append(torch.nn.functional.linear(rows, router.weight, router.bias))

    for name, module in model.named_modules():
        if name.endswith(".mlp.router"):
            module.register_forward_hook(compute)
        if name.endswith((".mlp.gate", ".block_sparse_moe.gate")):
            module.register_forward_hook(keep)
    return found


class AgainstTransformers(unittest.TestCase):
    """Logits, loss and all gradients of Hugging Face's own classes, in float64."""

    def test_every_case_agrees(self):
        for case, keys in tiny.CASES.items():
            family = keys["model_type"]
            version = f"transformers {transformers.__version__}"
            is_4 = version.startswith("transformers 4")
            if family not in transformers.CONFIG_MAPPING:
                print(f"{case}: skipped: {version} has no {family}")
                continue
            windows = hasattr(transformers.CONFIG_MAPPING[family](), "layer_types")
            if family == "qwen3" and keys.get("use_sliding_window") and not windows:
                print(f"{case}: skipped: {version} has no windows for {family} in eager attention")
                continue
            for documents in (False, True):
                if documents and is_4 and family == "gpt2":
                    print(f"{case}, documents: skipped: {version} has one mask for all queries")
                    continue
                with self.subTest(case=case, documents=documents):
                    worst = self.agree(keys, documents)
                    print(f"{case}, documents {documents}: {version}, {worst:.1e}")

    def agree(self, keys, documents):
        config = architecture.read_config(keys)
        generator = torch.Generator().manual_seed(11)
        weights = tiny.weights(config, generator, torch.float64)
        batch = tiny.batch(config, generator, documents=documents)
        right = reference.Model(config, weights, reference.load_balance_of_all)
        ours, our_loss = right.outputs(batch)
        our_loss.backward()

        extra = {"attn_implementation": "eager", "use_cache": False, "pad_token_id": None}
        if config.is_gpt2:
            extra.update(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
        if config.experts:
            extra.update(experts_implementation="eager")  # others have no float64
        with float64_throughout():
            shape = transformers.AutoConfig.for_model(**copy.deepcopy(keys), **extra)
            model = transformers.AutoModelForCausalLM.from_config(
                shape, attn_implementation="eager"
            )
            buffers = {
                name: buffer
                for name, buffer in model.named_buffers()
                if name.endswith(".e_score_correction_bias")
            }
            own = as_stored({**dict(model.named_parameters()), **buffers}, config.family)
            values = hugging_face.to_hugging_face(config, weights)
            self.assertEqual(set(own), set(values))
            with torch.no_grad():
                for name, value in values.items():
                    own[name].copy_(value)
            routers = gate_logits(model)
            theirs = model(
                **({"output_router_logits": False} if config.experts else {}),
                input_ids=batch.ids,
                position_ids=batch.positions,
                attention_mask=masks(batch, config, shape) if documents else None,
            ).logits
            their_loss = reference.cross_entropy(theirs, batch.targets)
            if config.auxiliary:
                # not by the model: it takes no mask of documents there, in transformers 4 no
                # layers without a router
                balance = sys.modules[type(model).__module__].load_balancing_loss_func
                loss = balance(tuple(routers), config.experts, config.top_k)
                their_loss = their_loss + config.auxiliary * loss
            if config.z_loss:  # which transformers does not have
                squares = [logits.logsumexp(-1) ** 2 for logits in routers]
                their_loss = their_loss + config.z_loss * torch.cat(squares).mean()
            their_loss.backward()
            if config.experts and all(layer.sparse for layer in config.layers) and not documents:
                self.own_loss_agrees(model, right, batch)
        written = architecture.read_config(json.loads(shape.to_json_string()))  # config.json
        again = reference.Model(written, weights).logits(batch)
        self.assertTrue(torch.equal(again, ours), "the config.json that transformers writes")
        worst = 0.0
        for what, one, other in (("logits", ours, theirs), ("loss", our_loss, their_loss)):
            difference = compare.relative(one.detach().numpy(), other.detach().numpy())
            worst = max(worst, difference)
            self.assertLess(difference, LIMIT, what)
        gradients = {name: weight.grad for name, weight in model.named_parameters()}
        gradients.update((name, torch.zeros_like(buffer)) for name, buffer in buffers.items())
        gradients = as_stored(gradients, config.family)
        for name, grad in hugging_face.from_hugging_face(config, gradients).items():
            if not compare.zero_by_symmetry(name, config) and not architecture.is_buffer(name):
                difference = compare.relative(weights[name].grad.numpy(), grad.numpy())
                worst = max(worst, difference)
                self.assertLess(difference, LIMIT, name)
        return worst

    def own_loss_agrees(self, model, right, batch):
        """The loss that the class itself makes of labels, which lack the last target."""
        targets = batch.targets.clone()
        targets[:, -1] = reference.IGNORED
        labels = torch.cat((batch.ids[:, :1], targets[:, :-1]), dim=1)
        with torch.no_grad():
            ours = right.loss(dataclasses.replace(batch, targets=targets))
            theirs = model(input_ids=batch.ids, labels=labels).loss
        self.assertLess(compare.relative(ours.numpy(), theirs.numpy()), LIMIT, "the class's loss")


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
