"""Tiny models of every family, their exports, and the library that reads them."""
import pathlib
import re
import sys

from checks import ROOT, note

SIZES = {"vocab_size": 288, "num_hidden_layers": 4, "num_attention_heads": 4,
         "max_position_embeddings": 64, "hidden_size": 32}
GROUPED = {**SIZES, "intermediate_size": 72, "num_key_value_heads": 2}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
MODELS = {
    "gpt2": SIZES,
    "llama": {**GROUPED,
              "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                               "high_freq_factor": 4.0,
                               "original_max_position_embeddings": 32}},
    "mistral": {**GROUPED, "head_dim": 16, "sliding_window": 5},
    "qwen2": {**GROUPED, "tie_word_embeddings": True},
    "qwen3": {**GROUPED, "head_dim": 16},
    "smollm3": GROUPED,
    "phi3": {**GROUPED, "sliding_window": 5, "partial_rotary_factor": 0.5,
             "rope_scaling": {"rope_type": "longrope", "short_factor": [1.0, 1.5],
                              "long_factor": [1.5, 4.0], "original_max_position_embeddings": 32}},
    "granite": {**GROUPED, "embedding_multiplier": 3.0, "attention_multiplier": 0.3,
                "residual_multiplier": 0.5, "logits_scaling": 2.5},
    "olmo2": GROUPED,
    "olmo3": {**GROUPED, "sliding_window": 5,
              "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 8.0,
                               "original_max_position_embeddings": 16}},
    "gemma2": {**GROUPED, "head_dim": 16, "sliding_window": 5, "query_pre_attn_scalar": 24,
               "attn_logit_softcapping": 3.0, "final_logit_softcapping": 2.0},
    "gemma3_text": {**GROUPED, "head_dim": 16, "sliding_window": 5,
                    "layer_types": ["sliding_attention", "sliding_attention", "full_attention",
                                    "sliding_attention"],
                    "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
    "glm4": {**GROUPED, "head_dim": 16},
    "mixtral": {**SIZES, **EXPERTS, "num_key_value_heads": 2},
    "olmoe": {**SIZES, **EXPERTS},
    "qwen3_moe": {**GROUPED, **EXPERTS, "head_dim": 16, "mlp_only_layers": [1]},
    "gpt_oss": {**SIZES, **EXPERTS, "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 5,
                "swiglu_limit": 1.5,
                "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 8.0,
                                 "truncate": False, "original_max_position_embeddings": 16}},
    "glm4_moe": {**GROUPED, **EXPERTS, "head_dim": 16, "num_experts": 8, "n_group": 4,
                 "topk_group": 2, "routed_scaling_factor": 2.5, "qk_norm": True,
                 "router_bias_update_rate": 0.01},
}
MODELS = {family: {**model, "model_type": family} for family, model in MODELS.items()}
# Of versions for which PyTorch here is too old: their classes check the fields' types.
LIBRARIES = [ROOT / "build" / name for name in ("transformers_4.57", "transformers_5")]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "parity"))


def config(workshop, name, model, changes=None):
    return workshop.config(name, changes, {
        "job": {"threads": 1}, "model": model,
        "data": {"train": [{"path": "corpus"}], "tokenizer": "bytes"},
        "training": {"seq_len": 16, "local_batch_size": 1, "global_batch_size": 4, "steps": 2},
        "optimizer": {"lr": 1e-2}, "lr_scheduler": {"warmup_steps": 0}})


def exported(workshop, run, *options):
    """The export's folder and what was printed of it, by the first word of the line."""
    folder = f"{run}-hf"
    out = workshop.run("checkpoint", "export", run, "--output", folder, *options).done().out
    return workshop / folder, dict(re.findall(r"^(\w+) +(.+)$", out, re.MULTILINE))


def the_library():
    """transformers, or nothing: facts compare with it where it is installed."""
    import library
    found = library.transformers()
    if not found:
        note("not compared: transformers is not installed; scripts/setup test fetches it")
    return found
