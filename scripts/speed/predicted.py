#!/usr/bin/env python3
"""Compares step times predicted by `trireme plan` for this machine's cores with measured ones.

    predicted.py --trireme PROGRAM --pace PROGRAM [--quick] [--only TEXT | --draw COUNT] [--write FILE] [--keep FOLDER]

Called by `scripts/bench --predicted`. `trireme doctor --calibrate` measures the machine for each number
of ranks, with all ranks at work; then every configuration is planned with that profile and trained. Matmuls of each
dtype take turns with both (turns.py, pace.cpp): the ratio of their speeds is that of the machine's.
"""

import argparse
import contextlib
import datetime
import itertools
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from compare import make_tokens, processor
from drawn_cases import draw
from turns import InTurns, Pace, Training, seconds_per_step, take_turns

BOUND = "--oversubscribe --map-by core --bind-to core:overload-allowed"
MPIRUN = ["mpirun", *BOUND.split(), "-n"]
WARM_UP = 3  # steps in which libraries select their kernels
SECONDS, QUICK_SECONDS = 30, 15  # of a run's turns
FEWEST_STEPS = 8
FOR_EVER = 1_000_000  # steps
CALIBRATED_FOR = 5  # configurations, after which a calibration is old
# model_type, hidden, layers, heads, ffn
MODELS = {
    "GPT 0.9M": ("gpt2", 128, 4, 4, 512),
    "GPT 5M": ("gpt2", 256, 6, 8, 1024),
    "GPT 26M": ("gpt2", 512, 8, 8, 2048),
    "Llama 5M": ("llama", 256, 6, 4, 768),
    "Llama 15M": ("llama", 384, 8, 6, 1024),
    "Llama 28M": ("llama", 512, 8, 8, 1536),
    "MoE 21M": ("qwen3_moe", 256, 6, 4, 512),
}
# Of models with experts: of each layer, and of a token.
EXPERTS = {"MoE 21M": (8, 2)}
HEAD = """\
# Predicted and measured step times on a CPU

Written by `scripts/bench --predicted --write trainer/tools/plan/CPU.md`. `trireme doctor --calibrate`
measures the throughput of the trainer's operations on this machine with as many ranks at work as the run
has; `trireme plan` predicts step times from that profile alone, before the run. Measured times are means of
the steps of `trireme train` in {seconds} seconds, {fewest} steps at least, after the first {warm_up}. Nothing is
fitted to these runs. In both, every rank is bound to a core (`mpirun {bound}`),
which several share where there are more ranks than cores: otherwise the kernel moves them between cores, and not
evenly. A virtual machine's speed changes from second to second: calibrations and runs take turns of a
fraction of a second with products of small matrices in float32 and in bfloat16 (a core's matrix unit has a speed
of its own), and the profile is changed by their speeds in turn with the run over those in turn with the
calibration, of which there is one for {calibrated_for} configurations.
"""
DRAWN = """
The {count} configurations were drawn by lot before any was run (`scripts/speed/drawn_cases.py`, seed {seed}).
"""


def case(model, seq, micro, batch, ranks=1, layout="", dtype="float32", recompute="none"):
    return dict(model=model, seq=seq, micro=micro, batch=batch, ranks=ranks, layout=layout,
                dtype=dtype, recompute=recompute)  # fmt: skip


def pipeline(schedule, more=""):
    return f'pipeline = 2, schedule = "{schedule}"{more}'


CASES = [
    case("GPT 0.9M", 128, 4, 16),
    case("GPT 5M", 256, 4, 4),
    case("GPT 5M", 512, 2, 4, dtype="bfloat16"),
    case("GPT 26M", 128, 4, 4),
    case("Llama 5M", 128, 8, 8),
    case("Llama 15M", 256, 4, 4, dtype="bfloat16"),
    case("Llama 15M", 256, 2, 4, recompute="full"),
    case("Llama 28M", 512, 1, 1),
    case("Llama 28M", 64, 4, 4, dtype="bfloat16", recompute="selective"),
    case("MoE 21M", 256, 4, 4),
    case("MoE 21M", 256, 4, 8, recompute="full"),
    case("GPT 5M", 256, 2, 4, 2, "data_shard = 2, zero = 0"),
    case("Llama 15M", 256, 2, 4, 2, "data_shard = 2, zero = 1"),
    case("GPT 26M", 128, 2, 8, 2, "data_shard = 2, zero = 2", dtype="bfloat16"),
    case("Llama 5M", 256, 1, 4, 2, "data_shard = 2, zero = 3"),
    case("GPT 26M", 128, 4, 4, 2, "tensor = 2"),
    case("Llama 15M", 256, 4, 4, 2, "tensor = 2, sequence = true"),
    case("GPT 5M", 256, 1, 8, 2, pipeline("1F1B")),
    case("Llama 15M", 128, 2, 8, 2, pipeline("GPipe")),
    case("Llama 15M", 128, 2, 8, 2, pipeline("Interleaved1F1B", ", virtual_stages = 2")),
    case("GPT 5M", 256, 1, 8, 2, pipeline("ZBH1")),
    case("GPT 26M", 128, 2, 8, 2, pipeline("1F1B"), dtype="bfloat16", recompute="full"),
    case("MoE 21M", 256, 2, 8, 2, "data_shard = 2"),
    case("MoE 21M", 256, 2, 8, 2, "data_shard = 2, zero = 3"),
    case("MoE 21M", 256, 2, 8, 2, "data_shard = 2, expert = 2"),
    case("MoE 21M", 256, 4, 8, 2, "data_shard = 2, expert = 2", recompute="full"),
    case("MoE 21M", 256, 2, 8, 2, "tensor = 2"),
    case("MoE 21M", 256, 4, 8, 2, "tensor = 2, sequence = true"),
    case("MoE 21M", 256, 2, 16, 2, pipeline("1F1B")),
    case("MoE 21M", 256, 2, 8, 2, pipeline("ZBH1")),
    case("Llama 5M", 256, 1, 8, 4, "data_shard = 4, zero = 1"),
    case("Llama 15M", 128, 2, 8, 4, "data_shard = 4, zero = 3"),
    case("GPT 5M", 256, 2, 8, 4, "tensor = 2, sequence = true, data_shard = 2"),
    case("GPT 26M", 128, 4, 4, 4, "tensor = 4"),
    case("Llama 15M", 128, 1, 8, 4, 'pipeline = 4, schedule = "1F1B"'),
    case("GPT 5M", 256, 1, 8, 4, pipeline("1F1B", ", data_shard = 2")),
    case("Llama 15M", 128, 2, 8, 4, pipeline("ZBH1", ", tensor = 2"), dtype="bfloat16"),
    case("MoE 21M", 256, 2, 8, 4, "tensor = 2, data_shard = 2, expert = 2"),
    case("MoE 21M", 256, 1, 8, 4, pipeline("1F1B", ", data_shard = 2, expert = 2")),
]


DTYPES = "float32", "bfloat16"  # of the products whose speeds are the machine's


def config(what, steps):
    model_type, hidden, layers, heads, ffn = MODELS[what["model"]]
    layout = what["layout"].replace(", ", "\n")
    experts = ""
    if what["model"] in EXPERTS:
        each, of_token = EXPERTS[what["model"]]
        experts = f"num_experts = {each}\nnum_experts_per_tok = {of_token}\nmoe_intermediate_size = {ffn}\n"
        experts += "router_force_load_balancing = true\n"
    return f"""
[job]
dump_folder = "run"
[model]
model_type = "{model_type}"
vocab_size = 512
hidden_size = {hidden}
intermediate_size = {ffn}
num_hidden_layers = {layers}
num_attention_heads = {heads}
num_key_value_heads = {heads}
max_position_embeddings = {what["seq"]}
{experts}[data]
train = [{{ path = "tokens" }}]
[training]
seq_len = {what["seq"]}
local_batch_size = {what["micro"]}
global_batch_size = {what["batch"]}
dtype = "{what["dtype"]}"
steps = {steps}
[activation_checkpoint]
mode = "{what["recompute"]}"
[checkpoint]
interval = 0
[metrics]
log_freq = 1000000
[parallelism]
{layout}
"""


def name_of(what):
    words = [what["layout"]] if what["layout"] else []
    words += [what["dtype"]] if what["dtype"] != "float32" else []
    words += [f"{what['recompute']} recomputation"] if what["recompute"] != "none" else []
    return ", ".join(words).replace('"', "") or "alone"


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stderr}")
    return done.stdout


def on_ranks(ranks, command):
    return [*MPIRUN, str(ranks), *command] if ranks > 1 else command


def plan(program, what, folder, *options):
    (folder / "run.toml").write_text(config(what, 1))
    command = [program, "plan", "run.toml", "-n", str(what["ranks"]), "--json", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def at_pace(profile, paces, folder):
    """The name of a CPU's profile at these speeds over the calibration's, as by change_pace() in calibrate.cpp."""
    changed = json.loads((folder / profile).read_text())
    in_general, of_half = (paces[dtype] for dtype in DTYPES)
    network = changed["network"]
    links = [network[name] for name in ("within", "between", "shared") if name in network]
    links += [group["link"] for group in network.get("within_groups", [])]
    for measured in changed, *links:
        for key in ("memory_bandwidth", "bandwidth"):
            if key in measured:
                measured[key] *= in_general
        for key in ("launch", "latency"):
            if key in measured:
                measured[key] /= in_general
    for name, rate in changed["rates"].items():
        of_peak = of_half if name == "half" else in_general
        rate["peak"] *= of_peak
        rate["flash"] *= in_general / of_peak
    (folder / "at_pace.json").write_text(json.dumps(changed))
    return "at_pace.json"


def predicted(program, what, profile, folder):
    done = plan(program, what, folder, "--gpu", profile)
    if done.returncode != 0:
        sys.exit(f"{what} cannot be planned:\n{done.stderr}")
    return json.loads(done.stdout)["step"]


class Machine:
    """Its newest profiles by number of ranks."""

    def __init__(self, options, folder):
        self.program, self.pace_program, self.folder = options.trireme, options.pace, folder
        self.seconds = seconds_of(options)
        self.paces, self.stack = {}, None
        self.profiles, self.calibrations = {}, itertools.count(1)

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            for dtype in DTYPES:
                self.paces[dtype] = stack.enter_context(Pace(self.pace_program, dtype, self.folder))
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *unused):
        self.stack.close()

    def training(self, what):
        folder = self.folder / "run"
        folder.mkdir(exist_ok=True)
        for tokens in self.folder.glob("tokens.*"):
            shutil.copy(tokens, folder)
        (folder / "run.toml").write_text(config(what, FOR_EVER))
        command = on_ranks(what["ranks"], [self.program, "train", "run.toml"])
        return Training(command, self.program, what["ranks"], folder, WARM_UP)

    def calibrate(self, ranks):
        """Its profile's name, and the seconds of a product of each dtype meanwhile."""
        name = f"{ranks}-{next(self.calibrations)}.json"
        command = on_ranks(ranks, [self.program, "doctor", "--calibrate", name])
        with InTurns(command, self.program, ranks, self.folder) as calibration:
            marks = take_turns(calibration, self.paces.values(), lambda: False)
            if calibration.process.returncode != 0:
                calibration.fail()
        return name, self.seconds_of_products(marks)

    def seconds_of_products(self, marks):
        return {dtype: seconds_per_step(marks, 1 + i) for i, dtype in enumerate(self.paces)}

    def profile(self, ranks):
        name, seconds, used = self.profiles.get(ranks, (None, None, CALIBRATED_FOR))
        if used == CALIBRATED_FOR:
            (name, seconds), used = self.calibrate(ranks), 0
        self.profiles[ranks] = name, seconds, used + 1
        return name, seconds

    def measure(self, what):
        """(seconds per step, profile, the speeds of each dtype's products over those at calibration)."""
        profile, at_calibration = self.profile(what["ranks"])
        with self.training(what) as run:
            begin = run.progress()[0], run.seconds

            def is_over():
                return run.seconds - begin[1] > self.seconds and run.steps() - begin[0] >= FEWEST_STEPS

            marks = take_turns(run, self.paces.values(), is_over, run.progress)
            if not run.is_running():
                run.fail()
        in_the_run = self.seconds_of_products(marks)
        paces = {dtype: seconds / in_the_run[dtype] for dtype, seconds in at_calibration.items()}
        return seconds_per_step(marks), profile, paces


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trireme", required=True)
    parser.add_argument("--pace", required=True, help="pace.cpp, compiled")
    parser.add_argument("--quick", action="store_true", help="shorter runs")
    parser.add_argument("--only", default="", help="only configurations whose row contains this text")
    parser.add_argument("--draw", type=int, help="so many configurations drawn by lot instead")
    parser.add_argument("--seed", default=str(datetime.date.today()), help="of the lot (default: today's date)")
    parser.add_argument("--write", type=pathlib.Path, help="write the table with its heading to this Markdown file")
    keep = "folder of profiles and measured.json; existing results are not measured again"
    parser.add_argument("--keep", type=pathlib.Path, help=keep)
    parser.add_argument("--explain", action="store_true", help="print the parts of the predicted time")
    return parser.parse_args()


def seconds_of(options):
    return QUICK_SECONDS if options.quick else SECONDS


def cases(options, folder):
    if options.draw:
        return draw(options.draw, options.seed, MODELS, EXPERTS,
                    lambda what: plan(options.trireme, what, folder).returncode == 0)  # fmt: skip
    return [c for c in CASES if options.only.lower() in f"{c['model']} {name_of(c)}".lower()]


def compare(options, folder):
    """Yields (what, predicted step at the machine's speed in the run, measured seconds)."""
    kept = folder / "measured.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    make_tokens(options, folder)
    with contextlib.ExitStack() as stack:
        machine = None
        for what in cases(options, folder):
            if str(what) not in known:
                if not machine:
                    machine = stack.enter_context(Machine(options, folder))
                known[str(what)] = machine.measure(what)
                kept.write_text(json.dumps(known, indent=1))
            took, profile, paces = known[str(what)]
            yield what, predicted(options.trireme, what, at_pace(profile, paces, folder), folder), took


def main():
    options = arguments()
    options.trireme = str(pathlib.Path(options.trireme).resolve())
    options.pace = str(pathlib.Path(options.pace).resolve())
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    lines = [HEAD.format(warm_up=WARM_UP, seconds=seconds_of(options), fewest=FEWEST_STEPS,
                         bound=BOUND, calibrated_for=CALIBRATED_FOR)]  # fmt: skip
    if options.draw:
        lines.append(DRAWN.format(count=options.draw, seed=options.seed).strip() + "\n")
    chosen = f', configurations with "{options.only}"' if options.only else ""
    lines.append(f"{datetime.date.today()}, {processor()}, {os.cpu_count()} cores{chosen}.\n")
    lines.append("| model | tokens per micro-batch | micro-batches per step | ranks | layout | predicted s "
                 "| measured s | error |\n|---|---|--:|--:|---|--:|--:|--:|")  # fmt: skip
    print("\n".join(lines))
    errors, inside = [], 0

    def output(line):
        print(line, flush=True)
        lines.append(line)

    with tempfile.TemporaryDirectory(prefix="trireme-bench-") as scratch:
        folder = (options.keep or pathlib.Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for what, step, took in compare(options, folder):
            seconds = step["seconds"]
            error = seconds / took - 1
            errors.append(abs(error))
            least, most = (step[key] / step["seconds"] for key in ("nine_of_ten_from", "nine_of_ten_to"))
            inside += least <= took / seconds <= most
            output(f"| {what['model']} | {what['micro']} x {what['seq']} "
                 f"| {what['batch'] // what['micro']} | {what['ranks']} | {name_of(what)} "
                 f"| {seconds:.4f} | {took:.4f} | {100 * error:+.1f} % |")  # fmt: skip
            if options.explain:
                parts = {name: round(1e3 * s, 1) for name, s in step["parts"].items()}
                print(f"    ms: {parts}", flush=True)
    output(f"\nAbsolute error over {len(errors)} configurations: median "
         f"{100 * statistics.median(errors):.1f} %, 90th percentile "
         f"{100 * percentile(errors, 0.9):.1f} %, worst "
         f"{100 * max(errors):.1f} %. {inside} of {len(errors)} lie in the band printed by the plan.")  # fmt: skip
    if options.write:
        options.write.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
