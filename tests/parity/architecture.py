"""The architectures of the families: what the mathematics needs of a Hugging Face config.json, as
transformers 4.5x and 5 write it, and the shapes of the weights."""

import dataclasses
import math

# What sets a family apart from Llama, beyond the keys of its config.json. Norms are before a
# branch, after it, or both. A norm of queries and keys is over each head or the whole projection.
FAMILIES = {
    "gpt2": {},
    "llama": {},
    "mistral": {},
    "qwen2": {},
    "qwen3": {"qk_norm": "head"},
    "smollm3": {},
    "phi3": {},
    "granite": {},
    "olmo2": {"norms": ("after",), "qk_norm": "projection"},
    "olmo3": {"norms": ("after",), "qk_norm": "projection"},
    "gemma2": {"norms": ("before", "after"), "gain_offset": 1.0},
    "gemma3_text": {"norms": ("before", "after"), "gain_offset": 1.0, "qk_norm": "head"},
    "glm4": {"norms": ("before", "after"), "interleaved": True},
    "mixtral": {},
    "olmoe": {"qk_norm": "projection"},
    "qwen3_moe": {"qk_norm": "head"},
    "gpt_oss": {"sinks": True, "expert_bias": True},
    "glm4_moe": {"score": "sigmoid", "correction_bias": True},
}
TIED = ("gpt2", "smollm3", "gemma2", "gemma3_text")  # unless the config says otherwise
AUXILIARY = {  # default coefficients
    "mixtral": 0.001, "olmoe": 0.01, "qwen3_moe": 0.001, "gpt_oss": 0.001, "glm4_moe": 0.0
}  # fmt: skip
WINDOWED = ("mistral", "olmo3", "gemma2", "gemma3_text")


@dataclasses.dataclass(frozen=True)
class Rope:
    """The rotation of the first `dims` elements of each head."""

    dims: int
    theta: float
    scaling: dict  # Hugging Face's rope_scaling; empty: none
    max_positions: int
    original_positions: int  # of the context before it was extended


@dataclasses.dataclass(frozen=True)
class Layer:
    window: int | None  # tokens that a token sees, itself included; None: all up to itself
    rope: Rope | None  # None: queries and keys are not rotated
    sparse: bool = False  # a router and experts instead of one MLP


@dataclasses.dataclass(frozen=True)
class Config:
    """What the mathematics needs of a Hugging Face config.json."""

    family: str
    vocab: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    max_positions: int
    eps: float
    tied: bool
    layers: tuple  # a Layer for each
    activation: str
    score_scale: float
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    norms: tuple = ("before",)
    gain_offset: float = 0.0  # a norm multiplies by offset + weight
    qk_norm: str | None = None
    interleaved: bool = False  # pairs of the rotation are neighbors, not half a head apart
    score_cap: float | None = None
    logit_cap: float | None = None
    embedding_scale: float = 1.0
    residual_scale: float = 1.0  # of each branch
    logit_scale: float = 1.0
    experts: int = 0
    top_k: int = 0  # experts of a token
    expert_ffn: int = 0
    renormalize: bool = False  # the weights of a token's experts are divided by their sum
    auxiliary: float = 0.0  # coefficient of the load balancing loss
    z_loss: float = 0.0  # coefficient of the router z-loss
    expert_bias: bool = False  # of routers and experts
    swiglu_limit: float | None = None  # experts compute gpt-oss's clamped unit
    sinks: bool = False  # a learned logit of each head that joins its softmax
    score: str = "softmax"  # or "sigmoid": of a router's logits
    correction_bias: bool = False  # added to scores for the choice of experts
    bias_rate: float = 0.0  # by which a step moves it
    groups: int = 1  # of experts, of which a token chooses among the best top_groups
    top_groups: int = 1
    routed_scale: float = 1.0  # of the weights of a token's experts
    shared: int = 0  # experts that every token has

    @property
    def is_gpt2(self):
        return self.family == "gpt2"


def read_config(keys):
    """The Config of a parsed config.json."""
    family = keys["model_type"]
    if family not in FAMILIES:
        raise ValueError(f"model_type {family!r} is none of {', '.join(FAMILIES)}")
    if keys.get("use_bidirectional_attention"):
        raise ValueError("use_bidirectional_attention: the reference knows causal attention only")
    if family == "gpt2":
        head_dim = keys["n_embd"] // keys["n_head"]
        return Config(
            family=family,
            vocab=keys["vocab_size"],
            hidden=keys["n_embd"],
            heads=keys["n_head"],
            kv_heads=keys["n_head"],
            head_dim=head_dim,
            ffn=keys.get("n_inner") or 4 * keys["n_embd"],
            max_positions=keys["n_positions"],
            eps=keys["layer_norm_epsilon"],
            tied=keys.get("tie_word_embeddings", True),
            layers=(Layer(None, None),) * keys["n_layer"],
            activation=keys["activation_function"],
            score_scale=1 / math.sqrt(head_dim),
            qkv_bias=True,
            output_bias=True,
            mlp_bias=True,
        )
    heads = keys["num_attention_heads"]
    head_dim = keys.get("head_dim") or keys["hidden_size"] // heads
    gemma = family.startswith("gemma")
    own = dict(FAMILIES[family])
    if gemma:
        own["score_scale"] = keys.get("query_pre_attn_scalar", 256) ** -0.5
        own["embedding_scale"] = math.sqrt(keys["hidden_size"])
        own["logit_cap"] = keys.get("final_logit_softcapping", 30.0 if family == "gemma2" else None)
    if family == "gemma2":
        own["score_cap"] = keys.get("attn_logit_softcapping", 50.0)
    if family == "granite":
        own["score_scale"] = keys.get("attention_multiplier", 1.0)
        own["embedding_scale"] = keys.get("embedding_multiplier", 1.0)
        own["residual_scale"] = keys.get("residual_multiplier", 1.0)
        own["logit_scale"] = 1 / keys.get("logits_scaling", 1.0)
    if family in AUXILIARY:
        own.update(_experts(keys))
    if family == "glm4_moe" and keys.get("use_qk_norm", False):
        own["qk_norm"] = "head"
    own.setdefault("score_scale", 1 / math.sqrt(head_dim))
    unbiased = ("mistral", "phi3", "mixtral")
    bias = keys.get("attention_bias", family in ("glm4", "gpt_oss")) and family not in unbiased
    return Config(
        family=family,
        vocab=keys["vocab_size"],
        hidden=keys["hidden_size"],
        heads=heads,
        kv_heads=keys.get("num_key_value_heads") or heads,
        head_dim=head_dim,
        ffn=keys["intermediate_size"],
        max_positions=keys["max_position_embeddings"],
        eps=keys["rms_norm_eps"],
        tied=keys.get("tie_word_embeddings", family in TIED),
        layers=_layers(keys, head_dim),
        activation=keys["hidden_activation" if gemma else "hidden_act"],
        qkv_bias=bias or family == "qwen2",
        output_bias=bias and family not in ("qwen2", "glm4", "glm4_moe"),
        mlp_bias=keys.get("mlp_bias", False) and family in ("llama", "smollm3", "granite"),
        **own,
    )


def _experts(keys):
    """The fields of a Config that only a mixture of experts has."""
    family = keys["model_type"]
    for key in ("clip_qkv", "router_jitter_noise"):
        if keys.get(key):
            raise ValueError(f"{key}: the reference does not know it")
    if keys.get("swiglu_alpha", 1.702) != 1.702:
        raise ValueError("swiglu_alpha: the reference knows 1.702 only")
    own_width = family in ("qwen3_moe", "glm4_moe")
    width = "moe_intermediate_size" if own_width else "intermediate_size"
    glm = {}
    if family == "glm4_moe":
        glm = {
            "bias_rate": keys.get("router_bias_update_rate", 0.0),
            "groups": keys.get("n_group", 1),
            "top_groups": keys.get("topk_group", 1),
            "routed_scale": keys.get("routed_scaling_factor", 1.0),
            "shared": keys.get("n_shared_experts", 1),
        }
    count = next(
        keys[key]
        for key in ("num_local_experts", "num_experts", "n_routed_experts")
        if keys.get(key)
    )
    coefficient = keys.get("router_aux_loss_coef", AUXILIARY[family])
    return {
        **glm,
        "experts": count,
        "top_k": keys["num_experts_per_tok"],
        "expert_ffn": keys[width],
        "renormalize": family in ("mixtral", "gpt_oss")
        or keys.get("norm_topk_prob", family == "glm4_moe"),
        "auxiliary": coefficient if keys.get("output_router_logits", False) else 0.0,
        "z_loss": keys.get("router_z_loss_coef", 0.0),
        "swiglu_limit": keys.get("swiglu_limit", 7.0) if family == "gpt_oss" else None,
    }


def _layers(keys, head_dim):
    family, count = keys["model_type"], keys["num_hidden_layers"]
    usual = 128 if family == "gpt_oss" else 4096 if family in WINDOWED else None
    window = keys.get("sliding_window", usual)
    switched = family in ("qwen2", "qwen3", "qwen3_moe", "smollm3")
    if switched and not keys.get("use_sliding_window", False):
        window = None
    ropes = _ropes(keys, head_dim)
    rotated = [True] * count
    if family == "smollm3":
        interval = keys.get("no_rope_layer_interval", 4)
        rotated = keys.get("no_rope_layers") or [(i + 1) % interval != 0 for i in range(count)]

    def slides(i):
        if family in ("mistral", "phi3", "mixtral", "qwen3_moe"):
            return True
        if keys.get("layer_types"):
            return keys["layer_types"][i] == "sliding_attention"
        if family in ("qwen2", "qwen3"):
            return i >= keys.get("max_window_layers", 28)
        if family == "smollm3":
            return not rotated[i]
        if family in ("gemma2", "gpt_oss"):
            return i % 2 == 0
        if family in ("gemma3_text", "olmo3"):
            pattern = keys.get("sliding_window_pattern", 6) if family == "gemma3_text" else 4
            return (i + 1) % pattern != 0
        return False

    def sparse(i):
        if family == "glm4_moe":
            return i >= keys.get("first_k_dense_replace", 1)
        if family != "qwen3_moe":
            return family in AUXILIARY
        dense = i in (keys.get("mlp_only_layers") or ())
        return not dense and (i + 1) % keys.get("decoder_sparse_step", 1) == 0

    return tuple(
        Layer(window if slides(i) else None, ropes[slides(i)] if rotated[i] else None, sparse(i))
        for i in range(count)
    )


def _ropes(keys, head_dim):
    """The rotations of layers that see everything and of those with a window."""
    family = keys["model_type"]
    everywhere = keys.get("rope_parameters")  # transformers 5
    if everywhere is None:
        everywhere = {**(keys.get("rope_scaling") or {}), "rope_theta": keys["rope_theta"]}
    full, sliding = everywhere, everywhere
    if "full_attention" in everywhere:
        full, sliding = everywhere["full_attention"], everywhere["sliding_attention"]
    elif family == "gemma3_text":
        sliding = {"rope_theta": keys.get("rope_local_base_freq", 10000.0)}
    elif family == "olmo3":
        sliding = {"rope_theta": full["rope_theta"]}
    partial = keys.get("partial_rotary_factor", 0.5 if family in ("glm4", "glm4_moe") else 1.0)
    most = keys["max_position_embeddings"]
    return tuple(
        Rope(
            dims=int(head_dim * parameters.get("partial_rotary_factor", partial)),
            theta=parameters["rope_theta"],
            scaling=parameters,
            max_positions=most,
            original_positions=keys.get("original_max_position_embeddings")
            or parameters.get("original_max_position_embeddings", most),
        )
        for parameters in (full, sliding)
    )


def is_buffer(name):
    """Whether a tensor has no gradient: the bias by which a router chooses experts."""
    return name.endswith(".router.correction_bias")


def weight_shapes(config):
    """Logical name -> shape of every parameter. Linear weights are [out, in]."""
    hidden = config.hidden
    queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
    shapes = {"embedding.weight": (config.vocab, hidden)}
    if config.is_gpt2:
        shapes["position.weight"] = (config.max_positions, hidden)

    def norm(name):
        shapes[f"{name}.weight"] = (hidden,)
        if config.is_gpt2:
            shapes[f"{name}.bias"] = (hidden,)

    def linear(name, out, into, bias):
        shapes[f"{name}.weight"] = (out, into)
        if bias:
            shapes[f"{name}.bias"] = (out,)

    def norms(branch, when):
        if when in config.norms:
            norm(branch + {"before": "_norm", "after": "_post_norm"}[when])

    def mlp(name, width, bias):
        if not config.is_gpt2:
            linear(f"{name}.gate", width, hidden, bias)
        linear(f"{name}.up", width, hidden, bias)
        linear(f"{name}.down", hidden, width, bias)

    for i, layer in enumerate(config.layers):
        at = f"layers.{i}"
        norms(f"{at}.attention", "before")
        linear(f"{at}.attention.q", queries, hidden, config.qkv_bias)
        linear(f"{at}.attention.k", keys, hidden, config.qkv_bias)
        linear(f"{at}.attention.v", keys, hidden, config.qkv_bias)
        linear(f"{at}.attention.o", hidden, queries, config.output_bias)
        if config.sinks:
            shapes[f"{at}.attention.sinks"] = (config.heads,)
        if config.qk_norm:
            whole = config.qk_norm == "projection"
            shapes[f"{at}.attention.q_norm.weight"] = (queries if whole else config.head_dim,)
            shapes[f"{at}.attention.k_norm.weight"] = (keys if whole else config.head_dim,)
        norms(f"{at}.attention", "after")
        norms(f"{at}.mlp", "before")
        if layer.sparse:
            linear(f"{at}.mlp.router", config.experts, hidden, config.expert_bias)
            if config.correction_bias:
                shapes[f"{at}.mlp.router.correction_bias"] = (config.experts,)
            if config.shared:
                mlp(f"{at}.mlp.shared_experts", config.shared * config.expert_ffn, False)
            for expert in range(config.experts):
                mlp(f"{at}.mlp.experts.{expert}", config.expert_ffn, config.expert_bias)
        else:
            mlp(f"{at}.mlp", config.ffn, config.mlp_bias)
        norms(f"{at}.mlp", "after")
    norm("norm")
    if not config.tied:
        shapes["head.weight"] = (config.vocab, hidden)
    return shapes
