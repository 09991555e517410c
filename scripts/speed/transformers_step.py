#!/usr/bin/env python3
"""Times a training step of a model with experts in Hugging Face's transformers, the reference of scripts/bench.

    transformers_step.py --arch qwen3_moe --layers L --hidden D --heads H --ffn F --vocab V --positions P
                         --seq T --batch B --experts E --top_k K [--threads 2] [--steps 8] [--setting NAME]

A step is forward with the load balancing loss, backward and AdamW (fused, if this PyTorch has it) in float32
on random tokens, which choose experts in turn as under model.router_force_load_balancing; gradients are
not clipped. Settings are transformers' implementations of experts: eager,
batched_mm, grouped_mm. Prints METRIC lines; exit code 77 without transformers or the setting.
"""

import argparse
import sys

import torch
from torch_step import SKIPPED, measure, optimizer


def model_of(o):
    import transformers

    config = transformers.Qwen3MoeConfig(
        vocab_size=o.vocab, hidden_size=o.hidden, intermediate_size=o.ffn, moe_intermediate_size=o.ffn,
        num_hidden_layers=o.layers, num_attention_heads=o.heads, num_key_value_heads=o.heads,
        head_dim=o.hidden // o.heads, max_position_embeddings=o.positions, tie_word_embeddings=False,
        num_experts=o.experts, num_experts_per_tok=o.top_k, norm_topk_prob=True, use_cache=False,
        output_router_logits=True, router_aux_loss_coef=0.001)  # fmt: skip
    return transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="sdpa", experts_implementation=o.setting, dtype=torch.float32
    )


def choose_in_turn(router, _inputs, result):
    logits, scores, chosen = result
    tokens, top_k = chosen.shape
    turn = torch.arange(tokens * top_k).view(tokens, top_k) % logits.shape[-1]
    weights = torch.softmax(logits.float(), dim=-1).gather(1, turn)
    return logits, (weights / weights.sum(-1, keepdim=True)).to(scores.dtype), turn.to(chosen.dtype)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", choices=("qwen3_moe",), required=True)
    for name in ("layers", "hidden", "heads", "ffn", "vocab", "positions", "seq", "batch", "experts", "top_k"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--setting", default="eager", choices=("eager", "batched_mm", "grouped_mm"))
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(0)
    try:
        model = model_of(o).train()
    except (ImportError, AttributeError, TypeError) as error:
        print(f"skipped: {error}", file=sys.stderr)
        return SKIPPED
    for module in model.modules():
        if type(module).__name__ == "Qwen3MoeTopKRouter":
            module.register_forward_hook(choose_in_turn)
    adamw = optimizer(model, "sdpa")
    ids = torch.randint(0, o.vocab, (o.batch, o.seq))
    measure(o, model, adamw, lambda: model(input_ids=ids, labels=ids).loss)
    return 0


if __name__ == "__main__":
    sys.exit(main())
