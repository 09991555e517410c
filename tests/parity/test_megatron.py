#!/usr/bin/python3
"""test_megatron.py PROGRAM: holds the losses of routers that PROGRAM dumps, their gradients, choices
and biases against Megatron-core's functions, where scripts/setup test has fetched them."""

import ast
import pathlib
import subprocess
import sys
import tempfile
import typing
import unittest
import unittest.mock

SKIPPED = 77
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "build/megatron"
SOURCE = FOLDER / "megatron/core/transformer/moe/moe_utils.py"
try:
    import torch
except ImportError:
    print("skipped: needs PyTorch (Debian: python3-torch)")
    sys.exit(SKIPPED)
if not SOURCE.exists():
    print("skipped: needs megatron-core (PyPI); scripts/setup test fetches it")
    sys.exit(SKIPPED)

import compare
import exchange

WANTED = (
    "switch_load_balancing_loss_func",
    "z_loss_func",
    "compute_routing_scores_for_aux_loss",
    "group_limited_topk",
    "get_updated_expert_bias",
)
# Of a loss and of its gradient, in which nearly equal scores are subtracted.
LIMITS = {"float32": (1e-6, compare.LIMIT["F32"]), "float64": (1e-12, 1e-12)}
PROGRAM = sys.argv.pop(1)


def megatron():
    """The functions of WANTED alone: their module imports all of Megatron, which needs a newer
    PyTorch than Debian's."""
    tree = ast.parse(SOURCE.read_text())
    tree.body = [
        part for part in tree.body if isinstance(part, ast.FunctionDef) and part.name in WANTED
    ]
    names = {"torch": torch, "Optional": typing.Optional, "Tuple": typing.Tuple}
    names["parallel_state"] = unittest.mock.Mock()  # one rank
    exec(compile(tree, SOURCE, "exec"), names)
    return [names[name] for name in WANTED]


def expected(logits, score, top_k):
    """(loss, gradient) of Megatron's balance loss and of its z-loss, in float64."""
    balance_loss, z_loss, scores_of = megatron()[:3]
    experts = logits.shape[1]

    def balance(x):
        with unittest.mock.patch.object(torch, "float32", torch.float64):  # of the softmax
            chosen, scores = scores_of(x, top_k, score)
        # Megatron divides by the choices of a token, so that even experts have a loss of 1
        return balance_loss(scores, chosen.sum(0), len(x), top_k, experts, top_k)

    for loss_of in (balance, lambda x: z_loss(x, 1.0)):
        x = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
        loss = loss_of(x)
        loss.backward()
        yield loss.detach().reshape(1), x.grad


def dumped(dtype):
    with tempfile.TemporaryDirectory(prefix="trireme-router-") as folder:
        subprocess.run([PROGRAM, "--dtype", dtype, "--output", folder], check=True)
        return exchange.read_tensors(folder)


def cases_of(tensors, choice):
    cases = {name.rpartition("/")[0] for name in tensors}
    return sorted(case for case in cases if case.startswith("choice/") == choice)


class AgainstMegatron(unittest.TestCase):
    def test_losses_of_routers_and_their_gradients_agree(self):
        for dtype, limits in LIMITS.items():
            tensors = dumped(dtype)
            cases = cases_of(tensors, choice=False)
            self.assertEqual(len(cases), 6)
            for case in cases:
                score, _, _, top_k = case.split("/")
                theirs = expected(tensors[f"{case}/logits"], score, int(top_k))
                for loss, (value, gradient) in zip(("balance", "z_loss"), theirs):
                    parts = (loss, value), (f"{loss}_gradient", gradient)
                    for (what, one), limit in zip(parts, limits):
                        difference = compare.relative(tensors[f"{case}/{what}"], one)
                        with self.subTest(dtype=dtype, case=case, what=what):
                            self.assertLess(difference, limit)

    def test_choices_limited_to_groups_and_updated_biases_agree(self):
        limited_choice, updated = megatron()[3:]
        for dtype, (limit, _) in LIMITS.items():
            tensors = dumped(dtype)
            cases = cases_of(tensors, choice=True)
            self.assertEqual(len(cases), 4)
            for case in cases:
                own = {
                    what: torch.tensor(tensors[f"{case}/{what}"])
                    for what in ("logits", "bias", "experts", "weights", "counts", "updated_bias")
                }
                tokens, experts, top_k, groups, top_groups = map(int, case.split("/")[1:])
                scores = own["logits"].sigmoid()
                biased = scores + own["bias"]
                _, chosen = limited_choice(biased, top_k, tokens, experts, groups, top_groups)
                unlimited = biased.topk(top_k).indices
                with unittest.mock.patch.object(torch.distributed, "all_reduce"):
                    bias = updated(own["counts"], own["bias"], 1e-3)
                with self.subTest(dtype=dtype, case=case):
                    self.assertTrue(torch.equal(own["experts"].long(), chosen))
                    self.assertFalse(torch.equal(chosen, unlimited))
                    weights = scores.gather(1, chosen)
                    self.assertLess(compare.relative(own["weights"], weights), limit)
                    count = torch.bincount(chosen.reshape(-1), minlength=experts)
                    self.assertTrue(torch.equal(own["counts"].long(), count[None]))
                    self.assertTrue(torch.equal(own["updated_bias"], bias))
                    self.assertFalse(torch.equal(bias, own["bias"]))


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
