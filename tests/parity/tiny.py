"""Tiny models of the families, as Hugging Face configs, with random weights and batches."""

import math

import torch

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
CONFIGS = {
    "gpt2": {
        "model_type": "gpt2", "vocab_size": 101, "n_embd": 40, "n_layer": 2, "n_head": 5,
        "n_inner": None, "n_positions": 48, "layer_norm_epsilon": 1e-5,
        "activation_function": "gelu_new",
    },
    "llama": LLAMA,
    # heads of 16 where hidden / heads is 8, as Mistral's larger models have
    "mistral": {**QWEN, "model_type": "mistral", "head_dim": 16, "rms_norm_eps": 1e-5,
                "sliding_window": None, "tie_word_embeddings": False},
    "qwen2": {**QWEN, "model_type": "qwen2"},
    # heads of 16 where hidden / heads is 8
    "qwen3": {**QWEN, "model_type": "qwen3", "head_dim": 16, "attention_bias": False},
}  # fmt: skip


def weights(config, generator, dtype):
    """Random weights, far enough from the initial ones that no mistake hides in a zero or a one."""
    made = {}
    for name, shape in reference.weight_shapes(config).items():
        noise = torch.randn(shape, generator=generator, dtype=torch.float64)
        if name.endswith("norm.weight"):
            made[name] = 1 + 0.2 * noise
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
