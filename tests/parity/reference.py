"""The families of architecture.py in plain PyTorch, to judge Trireme by.

Written from the published architectures, sharing nothing with the C++ code but the
names of the tensors. Whole matrices everywhere, no fusion, any floating dtype: slow and
plain on purpose. Runs on PyTorch 1.13 and later.
"""

import dataclasses
import math

import torch
import torch.nn.functional as functional

from architecture import is_buffer, weight_shapes
from rotary import rotate

IGNORED = -1  # a target that counts neither in the loss nor in its average


@dataclasses.dataclass(frozen=True)
class Batch:
    """Integer tensors [sequences, length]. Token t sees tokens document_start[t] to t of
    its own sequence, where the layer has a window only the last of them; positions feed the
    position embedding or the rotation."""

    ids: torch.Tensor
    targets: torch.Tensor
    positions: torch.Tensor
    document_start: torch.Tensor


def rms_norm(x, gain, eps):
    return gain * x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps)


def layer_norm(x, gain, bias, eps):
    centred = x - x.mean(-1, keepdim=True)
    return gain * centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + eps) + bias


def silu(x):
    return x * torch.sigmoid(x)


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS = {"silu": silu, "gelu_new": gelu_tanh, "gelu_pytorch_tanh": gelu_tanh}


def capped(x, cap):
    return x if cap is None else cap * torch.tanh(x / cap)


@dataclasses.dataclass(frozen=True)
class Routes:
    """What the router of a layer decided for all tokens of a batch."""

    logits: torch.Tensor  # [tokens, experts]
    probabilities: torch.Tensor  # their softmax, or their sigmoids divided by the sum of these
    chosen: torch.Tensor  # [tokens, experts], 1 where a token has the expert, otherwise 0


def load_balance(routes):
    """The loss of Switch Transformers (Fedus et al. 2021) for more than one expert a token:
    experts * sum over experts of (choices a token) * (mean probability)."""
    choices = routes.chosen.mean(0)
    return routes.chosen.shape[1] * (choices * routes.probabilities.mean(0)).sum()


def load_balance_by_layer(routes):
    """The mean over the sparse layers of the loss of each alone."""
    return sum(load_balance(layer) for layer in routes) / len(routes)


def load_balance_of_micro_batches(tokens):
    """The mean over micro-batches of so many tokens of the loss of each alone."""

    def balance(routes):
        fields = [f.name for f in dataclasses.fields(Routes)]
        parts = zip(
            *(zip(*(getattr(layer, field).split(tokens) for field in fields)) for layer in routes)
        )
        losses = [load_balance_by_layer([Routes(*layer) for layer in part]) for part in parts]
        return sum(losses) / len(losses)

    return balance


def load_balance_of_all(routes):
    """One loss over the tokens of all sparse layers together, as transformers computes it."""
    fields = [f.name for f in dataclasses.fields(Routes)]
    return load_balance(
        Routes(*(torch.cat([getattr(layer, field) for layer in routes]) for field in fields))
    )


def router_z_loss(routes):
    """The router z-loss of ST-MoE (Zoph et al. 2022), the squared log-sum-exp of a token's logits:
    the mean over tokens and sparse layers."""
    return torch.stack([layer.logits.logsumexp(-1) ** 2 for layer in routes]).mean()


class Model:
    """A model over a dict of weights under their logical names. `balance` makes the auxiliary loss
    of the Routes of its sparse layers, `z_loss` that which bounds their logits."""

    def __init__(
        self, config, weights, balance=load_balance_by_layer, z_loss=router_z_loss
    ):
        expected = weight_shapes(config)
        found = {name: tuple(w.shape) for name, w in weights.items()}
        if found != expected:
            wrong = sorted(set(found.items()) ^ set(expected.items()))
            raise ValueError(f"tensors do not fit the config: {wrong}")
        self.config = config
        self.weights = weights
        self.balance = balance
        self.z_loss = z_loss
        self.closest = math.inf  # scores of a token's last expert and of the next best so far
        self.routes = []  # of the last forward pass

    def _linear(self, name, x):
        y = x @ self.weights[f"{name}.weight"].T
        bias = self.weights.get(f"{name}.bias")
        return y if bias is None else y + bias

    def _norm(self, name, x):
        gain = self.config.gain_offset + self.weights[f"{name}.weight"]
        if self.config.is_gpt2:
            return layer_norm(x, gain, self.weights[f"{name}.bias"], self.config.eps)
        return rms_norm(x, gain, self.config.eps)

    def _heads(self, name, x, heads):
        """A projection of x, [sequences, length, heads, head_dim], with its norm if it has one."""
        x = self._linear(name, x)
        shape = (*x.shape[:2], heads, self.config.head_dim)
        has_norm = f"{name}_norm.weight" in self.weights
        if has_norm and self.config.qk_norm == "projection":
            return self._norm(f"{name}_norm", x).view(shape)
        return self._norm(f"{name}_norm", x.view(shape)) if has_norm else x.view(shape)

    def _attention(self, at, layer, x, batch):
        c = self.config
        sequences, length, _ = x.shape
        query = self._heads(f"{at}.q", x, c.heads)
        key = self._heads(f"{at}.k", x, c.kv_heads)
        value = self._heads(f"{at}.v", x, c.kv_heads)
        if layer.rope:
            query, key = (
                rotate(z, batch.positions, layer.rope, c.interleaved) for z in (query, key)
            )
        # query head h reads key and value head h // (heads / kv_heads)
        key, value = (z.repeat_interleave(c.heads // c.kv_heads, dim=2) for z in (key, value))
        scores = capped(torch.einsum("bthd,bshd->bhts", query, key) * c.score_scale, c.score_cap)
        at_t = torch.arange(length)[:, None]
        at_s = torch.arange(length)[None, :]
        visible = (at_s <= at_t) & (at_s >= batch.document_start[:, :, None])
        if layer.window is not None:
            visible = visible & (at_s > at_t - layer.window)
        scores = scores.masked_fill(~visible[:, None], -math.inf)
        sinks = self._sinks(at)
        if sinks is not None:  # one more key, which has no value
            column = sinks[None, :, None, None].expand(*scores.shape[:-1], 1)
            scores = torch.cat((scores, column), dim=-1)
        shares = scores.softmax(-1)[..., :length]
        mixed = torch.einsum("bhts,bshd->bthd", shares, value)
        return self._linear(f"{at}.o", mixed.reshape(sequences, length, -1))

    def _sinks(self, at):
        return self.weights.get(f"{at}.sinks")

    def _gated(self, gate, up):
        limit = self.config.swiglu_limit
        if limit is None:
            return ACTIVATIONS[self.config.activation](gate) * up
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
        return (up + 1) * gate * torch.sigmoid(1.702 * gate)

    def _mlp(self, at, x):
        up = self._linear(f"{at}.up", x)
        if self.config.is_gpt2:
            return self._linear(f"{at}.down", ACTIVATIONS[self.config.activation](up))
        return self._linear(f"{at}.down", self._gated(self._linear(f"{at}.gate", x), up))

    def _experts(self, at, x, routes):
        """The experts' results for x, weighted; adds to the list `routes` those of this layer."""
        c = self.config
        logits = self._linear(f"{at}.router", x)
        scores = logits.sigmoid() if c.score == "sigmoid" else logits.softmax(-1)
        chosen = self._choose(self._ranks(at, scores.detach()))
        probabilities = scores / scores.sum(-1, keepdim=True) if c.score == "sigmoid" else scores
        routes.append(Routes(*(z.view(-1, c.experts) for z in (logits, probabilities, chosen))))
        weights = self._expert_weights(scores, chosen) * c.routed_scale
        y = sum(
            self._expert(f"{at}.experts.{expert}", x, weights[..., expert, None])
            for expert in range(c.experts)
        )
        return y + self._mlp(f"{at}.shared_experts", x) if c.shared else y

    def _ranks(self, at, scores):
        """What a token's experts are chosen by."""
        if self.config.correction_bias:
            return scores + self.weights[f"{at}.router.correction_bias"].detach()
        return scores.log()

    def _choose(self, ranks):
        """1 where a token has the expert, otherwise 0."""
        c = self.config
        if c.groups > 1:
            groups = ranks.unflatten(-1, (c.groups, -1))
            inside = self._best(self._group_ranks(groups), c.top_groups)
            outside = inside[..., None].expand(groups.shape).flatten(-2) == 0
            ranks = ranks.masked_fill(outside, -math.inf)
        return self._best(ranks, c.top_k)

    def _group_ranks(self, groups):
        return groups.topk(2).values.sum(-1)

    def _best(self, ranks, most):
        """1 at the `most` highest ranks, otherwise 0."""
        if most < ranks.shape[-1]:
            best = ranks.topk(most + 1).values
            self.closest = min(self.closest, float((best[..., -2] - best[..., -1]).min()))
        return torch.zeros_like(ranks).scatter(-1, ranks.topk(most).indices, 1.0)

    def update_router_biases(self):
        """Moves the bias of each expert, in float32, towards those that the tokens of the last
        forward pass chose less often than the mean (Wang et al. 2024)."""
        layers = (i for i, layer in enumerate(self.config.layers) if layer.sparse)
        for i, routes in zip(layers, self.routes):
            bias = self.weights[f"layers.{i}.mlp.router.correction_bias"]
            counts = routes.chosen.double().sum(0)
            step = torch.sign(counts.mean() - counts).float() * self.config.bias_rate
            with torch.no_grad():
                bias.copy_(bias.float() + step)

    def _expert(self, at, x, weight):
        return weight * self._mlp(at, x)

    def _expert_weights(self, scores, chosen):
        weights = scores * chosen
        return weights / weights.sum(-1, keepdim=True) if self.config.renormalize else weights

    def _branch(self, at, x, compute):
        """x and what `compute` makes of it, between the norms that the family has."""
        y = compute(self._norm(f"{at}_norm", x) if "before" in self.config.norms else x)
        if "after" in self.config.norms:
            y = self._norm(f"{at}_post_norm", y)
        return x + self.config.residual_scale * y

    def outputs(self, batch):
        """The logits and the loss: the mean cross-entropy in nats over the targets that count and,
        with their coefficients, the auxiliary loss and the z-loss of routers."""
        logits, routes = self._forward(batch)
        loss = cross_entropy(logits, batch.targets)
        if routes and self.config.auxiliary > 0:
            loss = loss + self.config.auxiliary * self.balance(routes)
        if routes and self.config.z_loss > 0:
            loss = loss + self.config.z_loss * self.z_loss(routes)
        return logits, loss

    def logits(self, batch):
        return self._forward(batch)[0]

    def loss(self, batch):
        return self.outputs(batch)[1]

    def _forward(self, batch):
        """The logits and the Routes of the sparse layers."""
        c = self.config
        x = self.weights["embedding.weight"][batch.ids] * c.embedding_scale
        if c.is_gpt2:
            x = x + self.weights["position.weight"][batch.positions]
        routes = self.routes = []
        for i, layer in enumerate(c.layers):
            attention, mlp = f"layers.{i}.attention", f"layers.{i}.mlp"
            x = self._branch(attention, x, lambda y: self._attention(attention, layer, y, batch))
            if layer.sparse:
                x = self._branch(mlp, x, lambda y: self._experts(mlp, y, routes))
            else:
                x = self._branch(mlp, x, lambda y: self._mlp(mlp, y))
        head = self.weights["embedding.weight" if c.tied else "head.weight"]
        return capped(self._norm("norm", x) @ head.T * c.logit_scale, c.logit_cap), routes


def gradients(weights):
    """Those of a backward pass, as NumPy arrays; zero of a weight that it does not reach."""
    return {
        name: (torch.zeros_like(w) if w.grad is None else w.grad).numpy()
        for name, w in weights.items()
    }


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
    weights = [w for name, w in model.weights.items() if not is_buffer(name)]
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
        reached = [w for w in weights if w.grad is not None]
        norm = math.sqrt(sum(float((w.grad.double() ** 2).sum()) for w in reached))
        if max_norm > 0 and norm > max_norm:
            for w in reached:
                w.grad.mul_(max_norm / norm)
        rate = learning_rate(step, optimizer["lr"], schedule)
        for group in adamw.param_groups:
            group["lr"] = rate
        adamw.step()
        if model.config.bias_rate > 0:
            model.update_router_biases()
        losses.append(float(loss.detach()))
        norms.append(norm)
        rates.append(rate)
    return losses, norms, rates
