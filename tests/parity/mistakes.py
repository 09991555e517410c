"""Models with one mistake each, which the comparison with the right one must find."""

import dataclasses

import torch

import reference
from reference import Model


def changed(**changes):
    """A model with other values in its config."""
    return lambda config, weights: Model(dataclasses.replace(config, **changes), weights)


def layers(change):
    """A model with other layers: `change` makes each from the right one and all of them."""

    def make(config, weights):
        each = tuple(change(layer, config.layers) for layer in config.layers)
        return Model(dataclasses.replace(config, layers=each), weights)

    return make


def window(difference):
    def change(layer, _):
        return dataclasses.replace(layer, window=layer.window and layer.window + difference)

    return layers(change)


def swapped(field):
    """Each of two kinds of layers has the window or the rotation of the other."""

    def change(layer, all_layers):
        own = getattr(layer, field)
        other = next(getattr(x, field) for x in all_layers if getattr(x, field) != own)
        return dataclasses.replace(layer, **{field: other})

    return layers(change)


def same(field):
    """All layers have the window or the rotation of the first."""
    return layers(
        lambda layer, all_layers: dataclasses.replace(
            layer, **{field: getattr(all_layers[0], field)}
        )
    )


def rotated_dims(dims):
    def change(layer, _):
        return dataclasses.replace(layer, rope=dataclasses.replace(layer.rope, dims=dims))

    return layers(change)


def scaling(change):
    """Other parameters where a rotation is scaled: `change` makes some of the right ones."""

    def make(layer, _):
        right = layer.rope.scaling
        if "rope_type" not in right and "type" not in right:
            return layer
        rope = dataclasses.replace(layer.rope, scaling={**right, **change(right)})
        return dataclasses.replace(layer, rope=rope)

    return layers(make)


def exchanged(one, other, layer=0):
    """Two parameters of a layer are in each other's place."""
    one, other = f"layers.{layer}.{one}.weight", f"layers.{layer}.{other}.weight"
    return lambda config, weights: Model(
        config, {**weights, one: weights[other], other: weights[one]}
    )


class NormBefore(Model):
    def _branch(self, at, x, compute):
        return x + compute(self._norm(f"{at}_post_norm", x))


class NormAfterSum(Model):
    def _branch(self, at, x, compute):
        before = "before" in self.config.norms
        y = compute(self._norm(f"{at}_norm", x) if before else x)
        return self._norm(f"{at}_post_norm", x + y)


class HeadGainOnly(Model):
    def _heads(self, name, x, heads):
        y = self._linear(name, x).view(*x.shape[:2], heads, self.config.head_dim)
        gain = self.weights.get(f"{name}_norm.weight")
        return y if gain is None else (self.config.gain_offset + gain) * y


class NormByHead(Model):
    """The gains of the whole projection, each head divided by its own root mean square."""

    def _heads(self, name, x, heads):
        y = self._linear(name, x).view(*x.shape[:2], heads, self.config.head_dim)
        if f"{name}_norm.weight" not in self.weights:
            return y
        return reference.rms_norm(
            y, self.weights[f"{name}_norm.weight"].view(heads, -1), self.config.eps
        )


class SoftmaxTwice(Model):
    """The weights are a softmax of the chosen experts' probabilities, not of their logits."""

    def _expert_weights(self, probabilities, chosen):
        weights = probabilities.exp() * chosen
        return weights / weights.sum(-1, keepdim=True)


class EqualWeights(Model):
    def _expert_weights(self, probabilities, chosen):
        return chosen / chosen.sum(-1, keepdim=True)


class WeightedInput(Model):
    """The weight multiplies what an expert gets, not its result."""

    def _expert(self, at, x, weight):
        return self._mlp(at, weight * x)


class WorstExperts(Model):
    def _choose(self, ranks):
        return super()._choose(-ranks)


class UnbiasedChoice(Model):
    def _ranks(self, at, scores):
        return scores


class BiasedWeights(Model):
    """The bias is added to the scores also for the weights."""

    def _ranks(self, at, scores):
        self.bias = self.weights[f"{at}.router.correction_bias"].detach()
        return super()._ranks(at, scores)

    def _expert_weights(self, scores, chosen):
        return super()._expert_weights(scores + self.bias, chosen)


class BestExpertOfGroup(Model):
    """Groups are ranked by their best expert alone."""

    def _group_ranks(self, groups):
        return groups.max(-1).values


class ScaledShared(Model):
    """The factor of the routed experts is also that of the shared ones."""

    def _mlp(self, at, x):
        y = super()._mlp(at, x)
        return y * self.config.routed_scale if at.endswith("shared_experts") else y


class NoShared(Model):
    def _mlp(self, at, x):
        y = super()._mlp(at, x)
        return y * 0 if at.endswith("shared_experts") else y


class ConstantWeights(Model):
    """No gradient reaches the router through the weights."""

    def _expert_weights(self, probabilities, chosen):
        return super()._expert_weights(probabilities, chosen).detach()


class ConstantSum(Model):
    """The sum that the weights are divided by has no gradient."""

    def _expert_weights(self, probabilities, chosen):
        weights = probabilities * chosen
        return weights / weights.sum(-1, keepdim=True).detach()


class UnweightedGradient(Model):
    """The gradient of an expert's result lacks its weight."""

    def _expert(self, at, x, weight):
        result = self._mlp(at, x)
        constant = result.detach()
        return weight * constant + (weight > 0) * (result - constant)


class ZeroSinks(Model):
    def _sinks(self, at):
        return 0 * super()._sinks(at)


class NoSinks(Model):
    def _sinks(self, at):
        return super()._sinks(at) - 1e4


class OneSink(Model):
    """All heads have the sink of the first."""

    def _sinks(self, at):
        sinks = super()._sinks(at)
        return 0 * sinks + sinks[0]


class PlainSwiglu(Model):
    def _gated(self, gate, up):
        return reference.silu(gate) * up


class UpWithoutOne(Model):
    def _gated(self, gate, up):
        limit = self.config.swiglu_limit
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
        return up * gate * torch.sigmoid(1.702 * gate)


class GateClampedBelow(Model):
    def _gated(self, gate, up):
        return super()._gated(gate.clamp(min=-self.config.swiglu_limit), up)


class UpClampedAbove(Model):
    def _gated(self, gate, up):
        limit = self.config.swiglu_limit
        gate, up = gate.clamp(max=limit), up.clamp(max=limit)
        return (up + 1) * gate * torch.sigmoid(1.702 * gate)


def without(bias):
    """A model that does not add the bias of these linear layers."""

    class Unbiased(Model):
        def _linear(self, name, x):
            y = super()._linear(name, x)
            return y - self.weights[f"{name}.bias"] if name.endswith(bias) else y

    return Unbiased


class UnweightedBias(Model):
    """The weight of an expert does not multiply the bias of its result."""

    def _expert(self, at, x, weight):
        bias = self.weights[f"{at}.down.bias"]
        return weight * (self._mlp(at, x) - bias) + (weight > 0) * bias


class WeightsOfUnbiased(Model):
    """The gradient of an expert's weight lacks the term of the bias."""

    def _expert(self, at, x, weight):
        bias = self.weights[f"{at}.down.bias"]
        return weight * (self._mlp(at, x) - bias) + weight.detach() * bias


class UnweightedBiasGradient(Model):
    """The gradient of a bias lacks the weight of its expert."""

    def _expert(self, at, x, weight):
        bias = self.weights[f"{at}.down.bias"]
        own = weight * bias.detach() + (weight > 0) * (bias - bias.detach())
        return weight * (self._mlp(at, x) - bias) + own


class ClampsPass(Model):
    """Gradients pass the clamps of gate and up."""

    def _gated(self, gate, up):
        limit = self.config.swiglu_limit
        gate = gate + (gate.clamp(max=limit) - gate).detach()
        up = up + (up.clamp(-limit, limit) - up).detach()
        return (up + 1) * gate * torch.sigmoid(1.702 * gate)


def balance(change):
    """A model with another auxiliary loss: `change` makes it from the Routes."""
    return lambda config, weights: Model(config, weights, change)


def z_loss(change):
    """A model with another z-loss: `change` makes it from the Routes."""
    return lambda config, weights: Model(config, weights, z_loss=change)


def no_window(layer, _):
    return dataclasses.replace(layer, window=None)


NO_SCALING = scaling(lambda right: {"rope_type": "default"})
NO_AMPLITUDE = scaling(lambda right: {"attention_factor": 1.0})
WINDOWS = {"window one too long": window(1), "window one too short": window(-1)}
EXPERTS = {
    "experts averaged": EqualWeights,
    "weights before experts": WeightedInput,
    "experts of the lowest scores": WorstExperts,
    "one expert less": lambda config, weights: changed(top_k=config.top_k - 1)(config, weights),
    "experts exchanged": exchanged("mlp.experts.0.down", "mlp.experts.1.down"),
    "gate and up exchanged": exchanged("mlp.experts.2.gate", "mlp.experts.2.up"),
}
# Case of tiny.CASES -> what is wrong -> the model of a config and weights.
MISTAKES = {
    "mistral": {**WINDOWS, "no window": layers(no_window)},
    "smollm3": {
        "rotation on NoPE layers": same("rope"),
        "NoPE on the other layers": swapped("rope"),
    },
    "phi3": {
        "factors of short contexts": scaling(lambda right: {"long_factor": right["short_factor"]}),
        "sines not scaled": NO_AMPLITUDE,
        "interleaved rotation": changed(interleaved=True),
    },
    "phi3, short factors, window": {
        **WINDOWS,
        "factors of long contexts": scaling(lambda right: {"short_factor": right["long_factor"]}),
    },
    "granite": {
        "embedding not scaled": changed(embedding_scale=1.0),
        "scores scaled by head_dim": changed(score_scale=0.25),
        "branches not scaled": changed(residual_scale=1.0),
        "logits not scaled": changed(logit_scale=1.0),
    },
    "olmo2": {
        "norms before branches": NormBefore,
        "norms after sums": NormAfterSum,
        "queries and keys normalized by head": NormByHead,
    },
    "olmo3": {
        **WINDOWS,
        "no YaRN": same("rope"),
        "YaRN on layers with a window": swapped("rope"),
        "linear instead of YaRN": scaling(lambda right: {"rope_type": "linear"}),
        "sines not scaled": NO_AMPLITUDE,
    },
    "gemma2": {
        **WINDOWS,
        "windows on the other layers": swapped("window"),
        "no cap of scores": changed(score_cap=None),
        "no cap of logits": changed(logit_cap=None),
        "gains without 1": changed(gain_offset=0.0),
        "scores scaled by head_dim": changed(score_scale=0.25),
        "embedding not scaled": changed(embedding_scale=1.0),
        "SiLU": changed(activation="silu"),
        "norms after sums": NormAfterSum,
        "norms exchanged": exchanged("attention_post_norm", "mlp_norm"),
    },
    "gemma3_text": {
        **WINDOWS,
        "window on all layers": same("window"),
        "rotations of the other layers": swapped("rope"),
        "no scaling": NO_SCALING,
        "queries and keys not normalized": HeadGainOnly,
        "gains without 1": changed(gain_offset=0.0),
    },
    "glm4": {
        "rotation not interleaved": changed(interleaved=False),
        "whole heads rotated": rotated_dims(16),
        "norms exchanged": exchanged("attention_post_norm", "mlp_norm"),
    },
    "mixtral": {
        **EXPERTS,
        "weights not renormalized": changed(renormalize=False),
        "softmax of probabilities": SoftmaxTwice,
    },
    "mixtral, window, no auxiliary loss": WINDOWS,
    "olmoe": {
        **EXPERTS,
        "weights renormalized": changed(renormalize=True),
        "queries and keys normalized by head": NormByHead,
    },
    "qwen3_moe": {
        **EXPERTS,
        "weights not renormalized": changed(renormalize=False),
        "queries and keys not normalized": HeadGainOnly,
    },
    "gpt_oss": {
        **EXPERTS,
        **WINDOWS,
        "windows on the other layers": swapped("window"),
        "weights not renormalized": changed(renormalize=False),
        "softmax of probabilities": SoftmaxTwice,
        "no sinks": NoSinks,
        "sinks of zero": ZeroSinks,
        "one sink for all heads": OneSink,
        "SwiGLU": PlainSwiglu,
        "no limit": changed(swiglu_limit=1e4),
        "up without 1": UpWithoutOne,
        "gate clamped below": GateClampedBelow,
        "up clamped above only": UpClampedAbove,
        "no bias of routers": without("mlp.router"),
        "no bias of gates": without(".gate"),
        "no bias of results": without(".down"),
        "bias of results without weight": UnweightedBias,
        "YaRN between whole pairs": scaling(lambda right: {"truncate": True}),
        "sines not scaled": NO_AMPLITUDE,
    },
    "glm4_moe": {
        "experts averaged": EqualWeights,
        "experts of the lowest scores": WorstExperts,
        "one expert less": EXPERTS["one expert less"],
        "experts exchanged": exchanged("mlp.experts.0.down", "mlp.experts.1.down", 1),
        "gate and up exchanged": exchanged("mlp.experts.2.gate", "mlp.experts.2.up", 1),
        "gate and up of shared experts exchanged": exchanged(
            "mlp.shared_experts.gate", "mlp.shared_experts.up", 2
        ),
        "no shared experts": NoShared,
        "shared experts scaled": ScaledShared,
        "softmax": changed(score="softmax"),
        "no groups": changed(groups=1, top_groups=1),
        "one group less": changed(top_groups=1),
        "groups ranked by one expert": BestExpertOfGroup,
        "choice without bias": UnbiasedChoice,
        "weights with bias": BiasedWeights,
        "weights not scaled": changed(routed_scale=1.0),
        "weights not renormalized": changed(renormalize=False),
        "interleaved rotation": changed(interleaved=True),
        "whole heads rotated": rotated_dims(16),
        "queries and keys not normalized": HeadGainOnly,
    },
    "llama, linear": {"no scaling": NO_SCALING},
    "llama, dynamic": {"no scaling": NO_SCALING},
    "llama, yarn, biases": {"no scaling": NO_SCALING, "sines not scaled": NO_AMPLITUDE},
}
# The same, but the logits are right: the loss or only gradients are wrong.
GRADIENT = {
    "weights without gradient": ConstantWeights,
    "gradient of experts without weight": UnweightedGradient,
    "no auxiliary loss": changed(auxiliary=0.0),
    "auxiliary loss of all layers together": balance(reference.load_balance_of_all),
    "auxiliary losses summed": balance(
        lambda routes: sum(reference.load_balance(layer) for layer in routes)
    ),
    "auxiliary loss of the first layer": balance(lambda routes: reference.load_balance(routes[0])),
}
Z_LOSS = {
    "no z-loss": changed(z_loss=0.0),
    "z-losses summed over layers": z_loss(
        lambda routes: sum((layer.logits.logsumexp(-1) ** 2).mean() for layer in routes)
    ),
    "z-loss of the mean log-sum-exp": z_loss(
        lambda routes: sum(layer.logits.logsumexp(-1).mean() ** 2 for layer in routes) / len(routes)
    ),
    "z-loss of the first layer": z_loss(lambda routes: reference.router_z_loss(routes[:1])),
}
GRADIENT_MISTAKES = {
    "glm4_moe": {
        "weights without gradient": ConstantWeights,
        "gradient of experts without weight": UnweightedGradient,
        "renormalization without gradient": ConstantSum,
    },
    "mixtral": {**GRADIENT, "renormalization without gradient": ConstantSum},
    "olmoe": GRADIENT,
    "qwen3_moe": {**GRADIENT, **Z_LOSS, "renormalization without gradient": ConstantSum},
    "gpt_oss": {
        **GRADIENT,
        "renormalization without gradient": ConstantSum,
        "weights of experts without bias": WeightsOfUnbiased,
        "gradient of biases without weight": UnweightedBiasGradient,
        "gradient through clamps": ClampsPass,
    },
}
