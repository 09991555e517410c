"""Configurations drawn by lot for predicted.py: models, layouts of 2, 4 and 8 ranks, schedules, formats."""

import random

RANKS = [2, 4, 8]
SCHEDULES = ["GPipe", "1F1B", "Interleaved1F1B", "ZBH1"]
# Enough tokens per step for about a second, and not more than a few.
TOKENS = {"least": 1024, "most": 4096}


def factors(ranks, lot):
    """Degrees of pipeline, tensor, context and data parallelism with this product."""
    degrees = [1, 1, 1, 1]
    while ranks > 1:
        degrees[lot.randrange(4)] *= 2
        ranks //= 2
    return degrees


def layout(ranks, experts, lot):
    pipeline, tensor, context, data = factors(ranks, lot)
    keys = []
    if pipeline > 1:
        schedule = lot.choice(SCHEDULES)
        keys += [f"pipeline = {pipeline}", f'schedule = "{schedule}"']
        keys += ["virtual_stages = 2"] if schedule == "Interleaved1F1B" else []
    if tensor > 1:
        keys += [f"tensor = {tensor}"] + (["sequence = true"] if lot.random() < 0.5 else [])
    if context > 1:
        method = lot.choice(["all_gather", "ring", "ulysses"])
        keys += [f"context = {context}", f'context_method = "{method}"']
    if data > 1:
        keys.append(f"data_shard = {data}")
    if data * context > 1:
        keys.append(f"zero = {lot.randrange(4)}")
        if experts and lot.random() < 0.5:
            keys.append("expert = 2")
    return ", ".join(keys), pipeline, data


def draw_one(models, experts, lot):
    """A configuration, which need not be one that the trainer accepts."""
    model = lot.choice(sorted(models))
    ranks = lot.choice(RANKS)
    keys, pipeline, data = layout(ranks, model in experts, lot)
    seq, micro = lot.choice([128, 256, 512]), lot.choice([1, 2, 4])
    fewest = max(pipeline, -(-TOKENS["least"] // (seq * micro * data)))
    micro_batches = lot.choice([fewest, 2 * fewest])
    return {
        "model": model, "seq": seq, "micro": micro, "batch": micro * micro_batches * data, "ranks": ranks, "layout": keys,
        "dtype": lot.choice(["float32", "bfloat16"]), "recompute": lot.choice(["none", "norms", "selective", "full"]),
    }  # fmt: skip


def draw(count, seed, models, experts, accepted):
    """`count` different configurations that `accepted` (a function of one) accepts."""
    lot = random.Random(seed)
    drawn = []
    while len(drawn) < count:
        what = draw_one(models, experts, lot)
        if what["batch"] * what["seq"] <= TOKENS["most"] and what not in drawn and accepted(what):
            drawn.append(what)
    # By ranks, so that one calibration serves many.
    return sorted(drawn, key=lambda what: what["ranks"])
