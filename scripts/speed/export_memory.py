#!/usr/bin/python3
"""Measures host memory of `trireme checkpoint import` and `export` by model size, and extrapolates it to
3B parameters with a linear fit.

usage: scripts/speed/export_memory.py TRIREME [SCRATCH_FOLDER]

Creates Llama models with random weights of 53, 202 and 785 million parameters, which need 12 bytes of
disk space per parameter. Peaks are the maximum resident set size. The fit uses exports whose --memory
is too small to compare logits, as it is for 3B.
"""
import json
import multiprocessing
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

import numpy as np

SHAPES = [(512, 6), (1024, 10), (2048, 12)]  # hidden_size, num_hidden_layers
VOCAB = 32000
MIB = 2**20
TARGET = 3e9  # parameters
SMALL = "250MB"  # smaller than every model here


def tensors(width, layers):
    yield "model.embed_tokens.weight", (VOCAB, width)
    for layer in range(layers):
        for name in "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj":
            yield f"model.layers.{layer}.{name}.weight", (width, width)
        for name in "mlp.gate_proj", "mlp.up_proj":
            yield f"model.layers.{layer}.{name}.weight", (3 * width, width)
        yield f"model.layers.{layer}.mlp.down_proj.weight", (width, 3 * width)
        for name in "input_layernorm", "post_attention_layernorm":
            yield f"model.layers.{layer}.{name}.weight", (width,)
    yield "model.norm.weight", (width,)
    yield "lm_head.weight", (VOCAB, width)


def write_model(folder, width, layers):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": VOCAB,
        "hidden_size": width, "intermediate_size": 3 * width, "num_hidden_layers": layers,
        "num_attention_heads": width // 64, "num_key_value_heads": width // 64,
        "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "float32"}))
    header, at = {}, 0
    for name, shape in tensors(width, layers):
        end = at + 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    rng = np.random.default_rng(1)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, shape in tensors(width, layers):
            file.write((rng.standard_normal(shape, dtype="f4") * 0.02).tobytes())


def run(*words):
    """Output of a command, and its peak memory in bytes."""
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(list(map(str, words)), stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        out.seek(0)
        text = out.read().decode()
    assert status == 0, (words, status, text)
    return text, usage.ru_maxrss * 1024


def export(trireme, folder, *options):
    """Peak memory in bytes of an export, and the values it prints."""
    text, peak = run(trireme, "checkpoint", "export", folder / "run", "--output", folder / "out",
                     *options)
    subprocess.run(["rm", "-r", folder / "out"], check=True)
    return peak, dict(re.findall(r"^(\w+) +(.+)$", text, re.MULTILINE))


def measured(trireme, scratch, width, layers):
    parameters = sum(int(np.prod(shape)) for _, shape in tensors(width, layers))
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = pathlib.Path(name)
        # ru_maxrss survives fork and exec, so the model is created in another process
        maker = multiprocessing.Process(target=write_model, args=(folder / "in", width, layers))
        maker.start()
        maker.join()
        _, imported = run(trireme, "checkpoint", "import", folder / "in", "--output",
                          folder / "run")
        print(f"{parameters / 1e6:.0f} M parameters: import {imported / MIB:.0f} MiB", flush=True)
        subprocess.run(["rm", "-r", folder / "in"], check=True)
        for memory in "1GB", SMALL:
            peak, told = export(trireme, folder, f"--memory={memory}")
            print(f"  export --memory={memory}: {peak / MIB:.0f} MiB; reported: {told['memory']}, "
                  f"{told['check']}", flush=True)
    return parameters, imported, peak


def main():
    rows = [measured(sys.argv[1], *(sys.argv[2:3] or [None]), *shape) for shape in SHAPES]
    size, *columns = map(np.array, zip(*rows))
    for name, peak in zip(("import", "export"), columns):
        slope, base = np.polyfit(size, peak, 1)
        print(f"{name}: {base / MIB:.0f} MiB + {slope * 1e9 / MIB:.0f} MiB per 1B parameters, "
              f"{(base + slope * TARGET) / MIB:.0f} MiB at {TARGET / 1e9:.0f}B")


main()
