"""The optimizers as published, in NumPy's float64, and the toy problem they are tried on.

Written from the papers and from their authors' descriptions, sharing nothing with the C++ code
but the names of the tensors. Vectors (here: "gain") have no weight decay and no layer-wise rate.
"""

import numpy as np

VECTORS = ("gain",)
TOKENS, HIDDEN, INNER = 12, 6, 10


def loss_and_gradients(weights, step):
    """The toy problem of toy_problem.h, by matrices."""
    table, gain = weights["embedding.weight"], weights["gain"]
    up, down = weights["layers.0.up.weight"], weights["layers.0.down.weight"]
    token, k = np.arange(TOKENS)[:, None], np.arange(HIDDEN)[None, :]
    target = np.sin(0.7 * token + 1.3 * k) + 0.1 * np.sin(0.37 * step + token * k)
    x = table * gain
    h = np.tanh(x @ up.T)
    off = (h @ down.T - target) / TOKENS
    loss = 0.5 * (off * off).sum() * TOKENS
    da = (off @ down) * (1 - h * h)
    dx = da @ up
    return loss, {
        "embedding.weight": dx * gain,
        "gain": (dx * table).sum(0),
        "layers.0.up.weight": da.T @ x,
        "layers.0.down.weight": off.T @ h,
    }


def decay_of(name, how):
    return 0.0 if name in VECTORS else how["weight_decay"]


def zeros(state, key, like):
    return state.setdefault(key, np.zeros_like(like))


def moments(name, g, step, how, state):
    """Adam's m^ and v^."""
    m, v = zeros(state, ("m", name), g), zeros(state, ("v", name), g)
    m[...] = how["beta1"] * m + (1 - how["beta1"]) * g
    v[...] = how["beta2"] * v + (1 - how["beta2"]) * g * g
    return m / (1 - how["beta1"] ** step), v / (1 - how["beta2"] ** step)


def adamw(name, w, g, step, how, state):
    """Loshchilov and Hutter 2019."""
    m, v = moments(name, g, step, how, state)
    w -= how["lr"] * decay_of(name, how) * w
    w -= how["lr"] * m / (np.sqrt(v) + how["eps"])


def sgd(name, w, g, step, how, state):
    """torch.optim.SGD without dampening."""
    g = g + decay_of(name, how) * w
    buffer = zeros(state, name, g)
    buffer[...] = how["momentum"] * buffer + g
    w -= how["lr"] * (g + how["momentum"] * buffer if how["nesterov"] else buffer)


def lion(name, w, g, step, how, state):
    """Chen et al. 2023, program 1."""
    m = zeros(state, name, g)
    update = np.sign(how["beta1"] * m + (1 - how["beta1"]) * g)
    w -= how["lr"] * (update + decay_of(name, how) * w)
    m[...] = how["beta2"] * m + (1 - how["beta2"]) * g


def lamb(name, w, g, step, how, state):
    """You et al. 2020, algorithm 2, with bias correction and |w| itself for phi(|w|)."""
    m, v = moments(name, g, step, how, state)
    update = m / (np.sqrt(v) + how["eps"]) + decay_of(name, how) * w
    ratio = 1.0
    if name not in VECTORS:
        size, length = np.linalg.norm(w), np.linalg.norm(update)
        ratio = size / length if size > 0 and length > 0 else 1.0
    w -= how["lr"] * ratio * update


def lars(name, w, g, step, how, state):
    """You, Gitman and Ginsburg 2017, algorithm 1."""
    decay, rate = decay_of(name, how), 1.0
    if name not in VECTORS:
        size, length = np.linalg.norm(w), np.linalg.norm(g)
        rate = how["trust_coefficient"] * size / (length + decay * size)
    v = zeros(state, name, g)
    v[...] = how["momentum"] * v + how["lr"] * rate * (g + decay * w)
    w -= v


def orthogonal(g):
    """Jordan's quintic Newton-Schulz iteration, five steps."""
    x = g.T if g.shape[0] > g.shape[1] else g
    x = x / (np.linalg.norm(x) + 1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.T if g.shape[0] > g.shape[1] else x


def muon(name, w, g, step, how, state):
    """Jordan et al. 2024; the blocks' matrices only, AdamW on the rest."""
    if not name.startswith("layers."):
        own = {**how, "lr": how["adamw_lr"] or how["lr"]}
        return adamw(name, w, g, step, own, state)
    m = zeros(state, name, g)
    m += (1 - how["momentum"]) * (g - m)
    update = orthogonal(g + how["momentum"] * (m - g) if how["nesterov"] else m)
    rows, columns = w.shape
    if how["adjust_lr"] == "original":
        update = update * max(1, rows / columns) ** 0.5
    else:
        update = update * 0.2 * max(rows, columns) ** 0.5
    w *= 1 - how["lr"] * decay_of(name, how)
    w -= how["lr"] * update


RULES = {"AdamW": adamw, "SGD": sgd, "Lion": lion, "LAMB": lamb, "LARS": lars, "Muon": muon}


def train(rule, initial, steps, how):
    """Losses before each of the steps, and the weights after the last."""
    weights = {name: np.array(values, np.float64) for name, values in initial.items()}
    losses, state = [], {}
    for step in range(1, steps + 1):
        loss, grads = loss_and_gradients(weights, step)
        losses.append(loss)
        for name, w in weights.items():
            RULES[rule](name, w, grads[name] * how["grad_scale"], step, how, state)
    return losses, weights
