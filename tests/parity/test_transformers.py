#!/usr/bin/python3
"""Holds the reference against Hugging Face's own classes, in float64, where they are installed."""

import sys
import unittest

import library

transformers = library.transformers()
if not transformers:
    print("skipped: needs PyTorch and transformers (PyPI); scripts/setup test fetches both")
    sys.exit(77)

import torch

import compare
import hugging_face
import reference
import tiny


class AgainstTransformers(unittest.TestCase):
    """Logits, loss and all gradients of Hugging Face's own classes, in float64."""

    def hugging_face(self, keys, config, weights):
        extra = {"attn_implementation": "eager", "use_cache": False}
        if config.family == "gpt2":
            extra.update(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
        made = transformers.AutoConfig.for_model(**{**keys, **extra})
        model = transformers.AutoModelForCausalLM.from_config(made, attn_implementation="eager")
        model = model.to(torch.float64)
        # Its rotary tables are made in float32, whatever the model's dtype: put exact ones in.
        if config.rotary:
            rotary = model.model.rotary_emb
            found = rotary.inv_freq.double()
            exact = reference.rotary_frequencies(config)
            self.assertLess(float(((found - exact) / exact).abs().max()), 1e-6)
            rotary.inv_freq = exact
        own = dict(model.named_parameters())
        with torch.no_grad():
            for name, theirs in hugging_face.names(config).items():
                if theirs is not None:
                    w = weights[name]
                    turned = config.family == "gpt2" and w.dim() == 2 and ".h." in theirs
                    own[theirs].copy_(w.T if turned else w)
            if config.family == "gpt2":
                for i in range(config.layers):
                    for end in ("weight", "bias"):
                        at = f"layers.{i}.attention"
                        qkv = torch.cat([weights[f"{at}.{x}.{end}"] for x in "qkv"])
                        theirs = own[f"transformer.h.{i}.attn.c_attn.{end}"]
                        theirs.copy_(qkv.T if qkv.dim() == 2 else qkv)
        return model, own

    @staticmethod
    def gradient(own, name, theirs, config):
        if theirs is None:
            _, layer, _, which, end = name.split(".")
            whole = own[f"transformer.h.{layer}.attn.c_attn.{end}"].grad
            return (whole.T if whole.dim() == 2 else whole).chunk(3)["qkv".index(which)]
        grad = own[theirs].grad
        turned = config.family == "gpt2" and grad.dim() == 2 and ".h." in theirs
        return grad.T if turned else grad

    def test_every_family_agrees(self):
        for family in reference.FAMILIES:
            # transformers 4 takes no mask of GPT-2's that is not the same for all queries
            masked = family != "gpt2" or int(transformers.__version__.split(".")[0]) >= 5
            for documents in (False, True)[: 1 + masked]:
                with self.subTest(family=family, documents=documents):
                    self.agree(family, documents)

    def agree(self, family, documents):
        keys = tiny.CONFIGS[family]
        config = reference.read_config(keys)
        generator = torch.Generator().manual_seed(11)
        weights = tiny.weights(config, generator, torch.float64)
        batch = tiny.batch(config, generator, documents=documents)
        ours = reference.Model(config, weights).logits(batch)
        reference.cross_entropy(ours, batch.targets).backward()

        model, own = self.hugging_face(keys, config, weights)
        mask = None
        if documents:
            length = batch.ids.shape[1]
            at = torch.arange(length)
            seen = (at[None, None, :] <= at[None, :, None]) & (
                at[None, None, :] >= batch.document_start[:, :, None]
            )
            mask = torch.zeros(seen.shape, dtype=torch.float64)
            mask = mask.masked_fill(~seen, torch.finfo(torch.float64).min)[:, None]
        theirs = model(
            input_ids=batch.ids, position_ids=batch.positions, attention_mask=mask
        ).logits
        reference.cross_entropy(theirs, batch.targets).backward()
        worst = compare.relative(ours.detach().numpy(), theirs.detach().numpy())
        # its RMSNorm and its cosines are float32 whatever the model's dtype
        limit = 3e-6 if config.rotary else 1e-10
        self.assertLess(worst, limit, "logits")
        for name, other in hugging_face.names(config).items():
            if compare.zero_by_symmetry(name, config):
                continue
            grad = self.gradient(own, name, other, config)
            difference = compare.relative(weights[name].grad.numpy(), grad.numpy())
            worst = max(worst, difference)
            self.assertLess(difference, limit, name)
        version = transformers.__version__
        print(f"{family}, documents {documents}: transformers {version}, {worst:.1e}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
