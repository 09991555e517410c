#!/usr/bin/env python3
"""Compares training speed: Trireme, its floor and PyTorch on the same shapes, interleaved.

    compare.py --trireme PROGRAM --floor PROGRAM [--torch NAME=PYTHON]... [--quick]

Called by scripts/bench, which builds the programs. The contestants are sampled in turn; before each
sample the machine must have been idle for two seconds, and a sample that other processes disturbed is
repeated. Prints medians, ratios and the rows of the table in RESULTS.md.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TICKS = os.sysconf("SC_CLK_TCK")
QUIET, DISTURBED = 0.15, 0.12  # cores that other processes may use: before a sample, during it
SKIPPED = 77
CONVENTION = """\
Tokens/s is batch x seq over the median time of an optimizer step: trireme's with data, gradient norm,
clipping and metrics, PyTorch's without them. The floor is the matmuls alone, each by the faster of
OpenBLAS and oneDNN, plus one pass of AdamW."""

SHAPES = {
    "GPT-2 124M, 4 x 64": dict(
        arch="gpt2", layers=12, hidden=768, heads=12, ffn=3072, vocab=50257, positions=1024,
        batch=4, seq=64,
    ),
    "GPT-2 5M, 4 x 256": dict(
        arch="gpt2", layers=6, hidden=256, heads=8, ffn=1024, vocab=512, positions=256,
        batch=4, seq=256,
    ),
    "Llama 6.6M, 4 x 256": dict(
        arch="llama", layers=6, hidden=256, heads=8, ffn=1024, vocab=512, positions=256,
        batch=4, seq=256,
    ),
    "Qwen3-MoE 110M, 32 experts of 256, top 4, 4 x 256": dict(
        arch="qwen3_moe", layers=8, hidden=512, heads=8, ffn=256, vocab=512, positions=256,
        experts=32, top_k=4, batch=4, seq=256,
    ),
}  # fmt: skip
# Of torch_step.py, and of transformers_step.py for models with experts: batched_mm copies a matrix for every
# row, more memory than most machines have.
SETTINGS = ["plain", "foreach", "sdpa", "compile"]
EXPERT_SETTINGS = ["eager", "grouped_mm"]


def busy_and_stolen():
    """Seconds since boot that the cores were busy, and that the hypervisor stole."""
    with open("/proc/stat") as stat:
        user, nice, system, _, _, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq) / TICKS, steal / TICKS


def wait_until_quiet(most):
    end, calm = time.monotonic() + most, 0
    before = busy_and_stolen()
    while time.monotonic() < end:
        time.sleep(1)
        after = busy_and_stolen()
        calm = calm + 1 if all(a - b < QUIET for a, b in zip(after, before)) else 0
        before = after
        if calm >= 2:
            return


def run(command, threads, cwd):
    """Runs one sample: (finished process, cores used by others, cores stolen)."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    start, before = time.monotonic(), busy_and_stolen()
    own = os.times()
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    seconds, after, spent = time.monotonic() - start, busy_and_stolen(), os.times()
    # children, this process: user and system time of each
    mine = sum(spent[:4]) - sum(own[:4])
    return done, (after[0] - before[0] - mine) / seconds, (after[1] - before[1]) / seconds


def metric(text, name):
    for line in text.splitlines():
        if line.startswith(f"METRIC {name} "):
            return float(line.split()[2])
    raise ValueError(f"no METRIC {name} in {text!r}")


class Contestant:
    """A program whose tokens per second are measured on a shape."""

    def __init__(self, name, command, read):
        self.name, self.command, self.read = name, command, read
        self.samples, self.disturbed = [], 0

    def sample(self, options, cwd):
        for attempt in range(options.retries + 1):
            wait_until_quiet(options.wait)
            done, others, stolen = run(self.command(), options.threads, cwd)
            if done.returncode == SKIPPED:
                return False
            if done.returncode != 0:
                sys.exit(f"{self.name} failed:\n{' '.join(done.args)}\n{done.stderr}")
            if max(others, stolen) <= DISTURBED:
                self.samples.append(self.read(done.stdout))
                return True
            self.disturbed += 1
        if options.keep_disturbed:
            self.samples.append(self.read(done.stdout))
        return True

    @property
    def median(self):
        return statistics.median(self.samples) if self.samples else float("nan")


def floor(program, shape, options):
    command = [program, "--threads", options.threads, "--repetitions", options.steps]
    for key in ("layers", "hidden", "heads", "ffn", "vocab", "seq", "batch", "experts", "top_k"):
        if key in shape:
            command += [f"--{key}", shape[key]]
    command += ["--gated"] * (shape["arch"] != "gpt2")
    return Contestant("floor", lambda: [str(c) for c in command], lambda out: metric(out, "tok_s"))


def torch(name, python, setting, shape, options):
    step = "transformers_step.py" if "experts" in shape else "torch_step.py"
    command = [python, HERE / step, "--setting", setting]
    command += ["--threads", options.threads, "--steps", options.steps]
    for key, value in shape.items():
        command += [f"--{key}", value]
    return Contestant(
        f"{name}, {setting}", lambda: [str(c) for c in command], lambda out: metric(out, "tok_s")
    )


def write_config(shape, options, folder, name, threads):
    """Writes `folder`/NAME.toml for a run into `folder`/NAME. Returns the number of warm-up steps."""
    gpt2 = shape["arch"] == "gpt2"
    ffn = f"intermediate_size = {shape['ffn']}"
    if "experts" in shape:
        ffn += f"\nnum_experts = {shape['experts']}\nnum_experts_per_tok = {shape['top_k']}"
        ffn += f"\nmoe_intermediate_size = {shape['ffn']}\nhead_dim = {shape['hidden'] // shape['heads']}"
        ffn += "\nrouter_force_load_balancing = true"  # routers collapse on random tokens
    warm_up = 2 if options.quick else 4
    text = f"""
[job]
dump_folder = "{name}"
threads = {threads}
[model]
model_type = "{shape['arch']}"
vocab_size = {shape['vocab']}
hidden_size = {shape['hidden']}
{ffn}
num_hidden_layers = {shape['layers']}
num_attention_heads = {shape['heads']}
num_key_value_heads = {shape['heads']}
max_position_embeddings = {shape['positions']}
tie_word_embeddings = {'true' if gpt2 else 'false'}
[data]
train = [{{ path = "{folder / 'tokens'}" }}]
[training]
seq_len = {shape['seq']}
local_batch_size = {shape['batch']}
global_batch_size = {shape['batch'] * shape.get('micro_batches', 1)}
steps = {options.steps + warm_up}
[checkpoint]
interval = 0
resume = "none"
[metrics]
log_freq = 1000000
"""
    (folder / f"{name}.toml").write_text(text)
    return warm_up


def median_speed(run, warm_up):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return statistics.median(json.loads(line)["tokens_per_second"] for line in lines[warm_up:])


def trireme(program, shape, options, folder):
    warm_up = write_config(shape, options, folder, "run", options.threads)

    def command():
        subprocess.run(["rm", "-rf", folder / "run"], check=True)
        return [str(program), "train", str(folder / "run.toml")]

    return Contestant("trireme", command, lambda _: median_speed(folder / "run", warm_up))


def processor():
    with open("/proc/cpuinfo") as info:
        return next((x.split(":")[1].strip() for x in info if x.startswith("model name")), "?")


def take_turns(contestants, options, folder, quiet=False):
    """Samples the contestants, in alternating order. Returns those that could run."""
    for turn in range(options.rounds):
        for one in contestants[:: 1 if turn % 2 == 0 else -1]:
            if not one.sample(options, folder):
                contestants = [c for c in contestants if c is not one]
                continue
            last = f"{one.samples[-1]:10,.0f} tokens/s" if one.samples else "disturbed"
            if not quiet:
                print(f"  round {turn + 1}/{options.rounds}  {one.name:28} {last}", flush=True)
    return contestants


def compare(name, shape, options, folder):
    contestants = [trireme(options.trireme, shape, options, folder)]
    contestants.append(floor(options.floor, shape, options))
    quick_settings = ["plain", "sdpa"] if options.quick else SETTINGS
    settings = EXPERT_SETTINGS if "experts" in shape else quick_settings
    for label, python in (pair.split("=", 1) for pair in options.torch):
        contestants += [torch(label, python, setting, shape, options) for setting in settings]
    print(f"\n{name}", flush=True)
    contestants = take_turns(contestants, options, folder)
    print(f"  {'':28} {'median':>10} {'least':>10} {'most':>10} {'samples':>8} {'disturbed':>10}")
    for one in contestants:
        low, high = (f(one.samples) if one.samples else float("nan") for f in (min, max))
        numbers = f"{one.median:10,.0f} {low:10,.0f} {high:10,.0f}"
        print(f"  {one.name:28} {numbers} {len(one.samples):8} {one.disturbed:10}")
    return contestants


def row(name, contestants, torches):
    ours = contestants[0].median
    cells = [name, f"{ours:,.0f}", f"{contestants[1].median:,.0f}",
             f"{100 * ours / contestants[1].median:.0f} %"]  # fmt: skip
    for label in torches:
        best = max((c for c in contestants if c.name.startswith(f"{label}, ")),
                   key=lambda c: c.median if c.samples else 0)  # fmt: skip
        cells += [f"{best.median:,.0f} ({best.name.split(', ')[1]})", f"{ours / best.median:.2f}"]
    return "| " + " | ".join(cells) + " |"


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--trireme", required=True)
    parser.add_argument("--floor")
    parser.add_argument("--torch", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--quick", action="store_true", help="two rounds with few steps")
    parser.add_argument("--rounds", type=int, help="samples per contestant (default 7; quick: 2)")
    parser.add_argument("--steps", type=int, help="timed steps per sample (default 12; quick: 6)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="shapes whose name contains this")
    parser.add_argument("--wait", type=float, default=120, help="maximum seconds to wait for an idle machine")
    keep = "keep samples that stayed disturbed, instead of dropping them"
    parser.add_argument("--keep-disturbed", action="store_true", help=keep)
    options = parser.parse_args()
    rounds, steps, options.retries = (2, 6, 1) if options.quick else (7, 12, 3)
    options.rounds = options.rounds or rounds
    options.steps = options.steps or steps
    return options


def print_head(options):
    print(f"{processor()}, {os.cpu_count()} cores, {options.threads} threads, float32")


def make_tokens(options, folder):
    noise = bytes(32 + b % 95 for b in os.urandom(1 << 20))
    (folder / "noise.txt").write_bytes(noise)
    subprocess.run([options.trireme, "tokenize", "--as", "text", "--tokenizer", "bytes", "--output",
                    folder / "tokens", folder / "noise.txt"],
                   check=True, capture_output=True)  # fmt: skip


def main():
    options = arguments(__doc__)
    shapes = {n: s for n, s in SHAPES.items() if options.only.lower() in n.lower()}
    if not shapes:
        sys.exit(f"no shape name contains {options.only!r}; shapes: {', '.join(SHAPES)}")
    print_head(options)
    print(CONVENTION)
    with tempfile.TemporaryDirectory(prefix="trireme-bench-") as scratch:
        folder = pathlib.Path(scratch)
        make_tokens(options, folder)
        torches = [pair.split("=", 1)[0] for pair in options.torch]
        results = {n: compare(n, s, options, folder) for n, s in shapes.items()}
    machine = f"{processor()}, {options.threads} threads"
    print(f"\n{datetime.date.today()}, {machine}, float32, tokens/s\n")
    head = ["model, batch x seq", "trireme", "floor", "of the floor"]
    for label in torches:
        head += [f"{label}, best setting", "ratio"]
    print("| " + " | ".join(head) + " |\n|---" + "|--:" * (len(head) - 1) + "|")
    for name, contestants in results.items():
        print(row(name, contestants, torches))


if __name__ == "__main__":
    main()
