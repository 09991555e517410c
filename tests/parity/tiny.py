"""Tiny models of the families, as Hugging Face configs, with random weights and batches."""

import math

import torch

import architecture
import reference

LLAMA = {
    "model_type": "llama", "vocab_size": 97, "hidden_size": 48, "intermediate_size": 80,
    "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "hidden_act": "silu",
    "rope_theta": 10000.0, "tie_word_embeddings": False, "attention_bias": False,
    # stretched, blended and kept frequencies all occur among the four pairs
    "rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 128,
    },
}  # fmt: skip
QWEN = {
    "vocab_size": 89, "hidden_size": 32, "intermediate_size": 72, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6, "hidden_act": "silu", "rope_theta": 1e6, "tie_word_embeddings": True,
}  # fmt: skip
# Of the newer families: heads of 16 where hidden / heads is 12, and a window shorter than the batch
NEWER = {
    "vocab_size": 83, "hidden_size": 48, "intermediate_size": 56, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu",
    "rope_theta": 10000.0, "tie_word_embeddings": False, "attention_bias": False,
}  # fmt: skip
MISTRAL = {
    **QWEN, "model_type": "mistral", "head_dim": 16, "rms_norm_eps": 1e-5, "sliding_window": None,
    "tie_word_embeddings": False,
}  # fmt: skip
# Half of each head of 16 is rotated; its config allows hidden / heads only. Of 24 tokens in at
# most four documents one has more than 5 in every case.
PHI3 = {
    **NEWER, "model_type": "phi3", "num_attention_heads": 3, "num_key_value_heads": 1,
    "partial_rotary_factor": 0.5, "sliding_window": None, "original_max_position_embeddings": 5,
    "rope_scaling": {
        "type": "longrope", "short_factor": [1.0, 1.1, 1.5, 2.0],
        "long_factor": [1.5, 2.5, 6.0, 12.0],
    },
}  # fmt: skip
YARN = {
    "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64, "beta_fast": 4.0,
    "beta_slow": 0.5,
}  # fmt: skip
GEMMA = {
    **NEWER, "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True,
    "query_pre_attn_scalar": 24, "sliding_window": 7,
}  # fmt: skip
EXPERTS = {
    **NEWER, "num_hidden_layers": 3, "head_dim": 12, "num_experts_per_tok": 2,
    "output_router_logits": True, "router_aux_loss_coef": 0.05,
}  # fmt: skip
QWEN3_MOE = {
    **EXPERTS, "model_type": "qwen3_moe", "head_dim": 16, "num_experts": 5,
    "moe_intermediate_size": 36, "norm_topk_prob": True, "mlp_only_layers": [1],
    "decoder_sparse_step": 1, "router_z_loss_coef": 0.02,
}  # fmt: skip
GPT_OSS = {
    **EXPERTS, "model_type": "gpt_oss", "head_dim": 16, "intermediate_size": 28,
    "num_local_experts": 5, "sliding_window": 7, "swiglu_limit": 1.5, "attention_bias": True,
    "max_position_embeddings": 512, "rope_scaling": {**YARN, "truncate": False},
}  # fmt: skip
# Two of three groups of experts, after a layer without experts
GLM4_MOE = {
    **NEWER, "model_type": "glm4_moe", "num_hidden_layers": 3, "partial_rotary_factor": 0.5,
    "attention_bias": True, "use_qk_norm": True, "n_routed_experts": 9, "num_experts_per_tok": 3,
    "moe_intermediate_size": 20, "n_shared_experts": 2, "n_group": 3, "topk_group": 2,
    "routed_scaling_factor": 1.5, "norm_topk_prob": True, "first_k_dense_replace": 1,
    "router_bias_update_rate": 0.01,
}  # fmt: skip
CONFIGS = {
    "gpt2": {
        "model_type": "gpt2", "vocab_size": 101, "n_embd": 40, "n_layer": 2, "n_head": 5,
        "n_inner": None, "n_positions": 48, "layer_norm_epsilon": 1e-5,
        "activation_function": "gelu_new",
    },
    "llama": LLAMA,
    # heads of 16 where hidden / heads is 8, as Mistral's larger models have
    "mistral": {**MISTRAL, "sliding_window": 7},
    "qwen2": {**QWEN, "model_type": "qwen2"},
    # heads of 16 where hidden / heads is 8
    "qwen3": {**QWEN, "model_type": "qwen3", "head_dim": 16, "attention_bias": False},
    "smollm3": {
        **NEWER, "model_type": "smollm3", "num_hidden_layers": 3, "no_rope_layers": [1, 0, 1],
        "tie_word_embeddings": True,
    },
    "phi3": PHI3,
    "granite": {
        **NEWER, "model_type": "granite", "tie_word_embeddings": True, "mlp_bias": False,
        "embedding_multiplier": 3.0, "attention_multiplier": 0.125, "residual_multiplier": 0.4,
        "logits_scaling": 2.5,
    },
    "olmo2": {**NEWER, "model_type": "olmo2"},
    # transformers 5 reads rope_theta for layers without a window only: others take this default
    "olmo3": {
        **NEWER, "model_type": "olmo3", "num_hidden_layers": 4, "sliding_window": 7,
        "rope_theta": 500000.0, "max_position_embeddings": 512, "rope_scaling": YARN,
    },
    "gemma2": {
        **GEMMA, "model_type": "gemma2", "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 5.0,
    },
    "gemma3_text": {
        **GEMMA, "model_type": "gemma3_text", "num_hidden_layers": 3, "rope_theta": 1e6,
        "rope_local_base_freq": 500.0, "rope_scaling": {"rope_type": "linear", "factor": 4.0},
        "sliding_window_pattern": 3,
    },
    "glm4": {
        **NEWER, "model_type": "glm4", "partial_rotary_factor": 0.5, "attention_bias": True,
    },
    "mixtral": {
        **EXPERTS, "model_type": "mixtral", "intermediate_size": 28, "num_local_experts": 5,
        "sliding_window": None,
    },
    "olmoe": {
        **EXPERTS, "model_type": "olmoe", "intermediate_size": 28, "num_experts": 7,
        "num_experts_per_tok": 3, "norm_topk_prob": False, "clip_qkv": None,
    },
    "qwen3_moe": QWEN3_MOE,
    # some gates and ups are beyond the limit
    "gpt_oss": GPT_OSS,
    "glm4_moe": GLM4_MOE,
}  # fmt: skip
# Other values of the keys that change what is computed.
VARIANTS = {
    "mistral, no window": MISTRAL,
    "llama, linear": {**LLAMA, "rope_scaling": {"type": "linear", "factor": 4.0}},
    "llama, dynamic": {
        **LLAMA, "max_position_embeddings": 5, "rope_scaling": {"type": "dynamic", "factor": 4.0},
    },
    "llama, yarn, biases": {
        **LLAMA, "rope_scaling": YARN, "attention_bias": True,
        "mlp_bias": True,
    },
    "phi3, short factors, window": {
        **PHI3, "original_max_position_embeddings": 24, "sliding_window": 7,
    },
    "smollm3, interval, window, biases": {
        **NEWER, "model_type": "smollm3", "no_rope_layer_interval": 2, "attention_bias": True,
        "mlp_bias": True, "use_sliding_window": True, "sliding_window": 7,
    },
    "granite, biases": {
        **NEWER, "model_type": "granite", "attention_bias": True, "mlp_bias": True,
        "embedding_multiplier": 12.0, "attention_multiplier": 0.25, "residual_multiplier": 0.5,
        "logits_scaling": 0.5,
    },
    "mixtral, window, no auxiliary loss": {
        **EXPERTS, "model_type": "mixtral", "intermediate_size": 28, "num_local_experts": 3,
        "sliding_window": 7, "output_router_logits": False, "tie_word_embeddings": True,
    },
    "olmoe, renormalized, biases": {
        **EXPERTS, "model_type": "olmoe", "intermediate_size": 28, "num_experts": 5,
        "norm_topk_prob": True, "attention_bias": True, "clip_qkv": None,
    },
    "olmoe, one expert a token": {
        **EXPERTS, "model_type": "olmoe", "intermediate_size": 28, "num_experts": 4,
        "num_experts_per_tok": 1, "norm_topk_prob": False,
    },
    "qwen3_moe, window": {**QWEN3_MOE, "use_sliding_window": True, "sliding_window": 7},
    # layer 1 alone is sparse: the definitions of the auxiliary loss agree
    "qwen3_moe, every second layer": {
        **QWEN3_MOE, "decoder_sparse_step": 2, "mlp_only_layers": [], "norm_topk_prob": False,
        "attention_bias": True,
    },
    "gpt_oss, other windows, no biases of attention": {
        **GPT_OSS, "attention_bias": False, "swiglu_limit": 7.0,
        "layer_types": ["full_attention", "full_attention", "sliding_attention"],
    },
    "glm4_moe, no groups, all layers sparse": {
        **GLM4_MOE, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 0,
        "attention_bias": False, "use_qk_norm": False, "norm_topk_prob": False,
        "n_shared_experts": 1,
    },
    "qwen3, windows, biases": {
        **QWEN, "model_type": "qwen3", "head_dim": 16, "attention_bias": True,
        "use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1,
    },
}  # fmt: skip
CASES = {**CONFIGS, **VARIANTS}


def weights(config, generator, dtype):
    """Random weights, far enough from the initial ones that no mistake hides in a zero or a one."""
    made = {}
    for name, shape in architecture.weight_shapes(config).items():
        noise = torch.randn(shape, generator=generator, dtype=torch.float64)
        if name.endswith("norm.weight"):
            made[name] = 1 - config.gain_offset + 0.2 * noise
        elif architecture.is_buffer(name):
            made[name] = (0.2 * noise).float()  # as the file has it
        elif len(shape) == 1:
            made[name] = 0.2 * noise
        else:
            made[name] = noise * (0.5 if "embedding" in name else 1 / math.sqrt(shape[1]))
    return {name: w.to(dtype).requires_grad_() for name, w in made.items()}


def batch(config, generator, sequences=3, length=24, documents=False):
    """A random batch; with `documents`, cut at random places into several a sequence."""
    tokens = torch.randint(config.vocab, (sequences, length + 1), generator=generator)
    targets = tokens[:, 1:].clone()
    positions = torch.arange(length).repeat(sequences, 1)
    start = torch.zeros_like(positions)
    if documents:
        for row in range(sequences):
            cuts = torch.randperm(length - 1, generator=generator)[:3] + 1
            for cut in sorted(cuts.tolist()):
                start[row, cut:] = cut
                targets[row, cut - 1] = reference.IGNORED
        positions = positions - start
    return reference.Batch(tokens[:, :-1], targets, positions, start)
