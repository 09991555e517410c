"""Rotary position embeddings and the published ways to extend their context."""

import math

import torch


def frequencies(rope, length):
    """Radians a position turns each pair of elements by, [dims / 2], float64, and the factor of
    cosines and sines. `length` is the largest position in the batch plus one."""
    exponents = torch.arange(0, rope.dims, 2, dtype=torch.float64) / rope.dims
    plain = rope.theta**-exponents
    scaling = rope.scaling
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return plain, 1.0
    if kind == "linear":
        return plain / scaling["factor"], 1.0
    if kind == "dynamic":
        # Dynamic NTK: beyond the trained context the base grows with the batch.
        excess = max(length, rope.max_positions) / rope.max_positions - 1
        stretch = (1 + scaling["factor"] * excess) ** (rope.dims / (rope.dims - 2))
        return (rope.theta * stretch) ** -exponents, 1.0
    if kind == "llama3":
        return _llama3(plain, scaling, rope.original_positions), 1.0
    if kind == "yarn":
        return _yarn(plain, rope)
    if kind == "longrope":
        return _longrope(plain, rope, length)
    raise ValueError(f"rope_type {kind!r} is none that the reference knows")


def _llama3(plain, scaling, positions):
    """Llama 3.1: long waves are stretched by `factor`, short ones kept, those between blended."""
    factor, low, high = (scaling[k] for k in ("factor", "low_freq_factor", "high_freq_factor"))
    turns = positions * plain / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return kept * plain + (1 - kept) * plain / factor


def _extension(rope):
    return rope.scaling.get("factor") or rope.max_positions / rope.original_positions


def _yarn(plain, rope):
    """YaRN (arXiv:2309.00071): as Llama 3.1, but blended linearly by the index of the pair between
    those that turn beta_fast and beta_slow times within the original context."""
    scaling, factor = rope.scaling, _extension(rope)

    def pair_that_turns(times):
        wave = rope.original_positions / (2 * math.pi * times)
        return rope.dims * math.log(wave) / (2 * math.log(rope.theta))

    first = pair_that_turns(scaling.get("beta_fast") or 32)
    last = pair_that_turns(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, rope.dims - 1)
    pairs = torch.arange(len(plain), dtype=torch.float64)
    stretched = ((pairs - first) / (last - first or 0.001)).clamp(0, 1)

    def temperature(weight):
        return 1 + 0.1 * weight * math.log(factor) if factor > 1 else 1.0

    amplitude = scaling.get("attention_factor")
    if amplitude is None:
        above, below = scaling.get("mscale"), scaling.get("mscale_all_dim")
        amplitude = temperature(1)
        if above and below:
            amplitude = temperature(above) / temperature(below)
    return (1 - stretched) * plain + stretched * plain / factor, amplitude


def _longrope(plain, rope, length):
    """LongRoPE (arXiv:2402.13753): a searched factor for each pair, one list up to the original
    context and one beyond it."""
    scaling, original = rope.scaling, rope.original_positions
    factors = scaling["long_factor" if length > original else "short_factor"]
    amplitude = scaling.get("attention_factor")
    if amplitude is None:
        factor = _extension(rope)
        amplitude = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    return plain / torch.tensor(factors, dtype=torch.float64), amplitude


def rotate(x, positions, rope, interleaved):
    """x [sequences, length, heads, head_dim] with the first rope.dims elements of each head turned:
    pairs are half of them apart or, interleaved, neighbors."""
    each, amplitude = frequencies(rope, int(positions.max()) + 1)
    angles = positions.to(torch.float64)[..., None, None] * each
    cos, sin = ((amplitude * y).to(x.dtype) for y in (angles.cos(), angles.sin()))
    turned, rest = x[..., :rope.dims], x[..., rope.dims:]
    if interleaved:
        first, second = turned[..., 0::2], turned[..., 1::2]
    else:
        first, second = turned.chunk(2, dim=-1)
    pair = (first * cos - second * sin, second * cos + first * sin)
    turned = torch.stack(pair, dim=-1).flatten(-2) if interleaved else torch.cat(pair, dim=-1)
    return torch.cat((turned, rest), dim=-1)
