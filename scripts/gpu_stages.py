"""The stages of scripts/gpu_hour: their commands, and how results are read from what these write."""

import array
import dataclasses
import itertools
import json
import math
import pathlib
import random
import re
import shutil
import statistics
import struct
import subprocess

import gpu_machine


@dataclasses.dataclass
class Command:
    """`parse` returns rows of what it measured, from its log. `argv` may be a function that prepares it."""

    name: str
    argv: object
    parse: object = lambda log: []
    limit: float = math.inf
    done: object = lambda: False  # stops it early, as successful
    skip: str = ""  # why it cannot run here
    ours: bool = True  # one of our programs, which get our libraries


@dataclasses.dataclass
class Stage:
    """`commands` makes them when the stage starts; so many run at once."""

    about: str
    limit: float
    commands: object
    at_once: int = 1


def row(name, measured, unit="", expected=None, note="", failed=False):
    return {"name": name, "measured": measured, "unit": unit, "expected": expected, "note": note, "failed": failed}


def file_name(text):
    return re.sub(r"[^\w.]+", "-", text).strip("-")


class Hour:
    def __init__(self, programs, output, work):
        self.programs, self.output, self.work = programs, output, work
        self.small = programs.emulated
        self.tokens = {}
        shown = self.told("trireme", "--version")
        found = re.search(r"cuda:0: (.*), compute capability", shown)
        self.device = found[1] if found else ""
        self.gpu = profile_of(self.device)

    def told(self, program, *words):
        return subprocess.run(self.programs.command(program, *map(str, words)), env=self.environment,
                              capture_output=True, text=True, check=False, timeout=60).stdout

    @property
    def environment(self):
        # Timings of this machine's algorithms stay out of the user's cache.
        return {**self.programs.environment, "XDG_CACHE_HOME": str(self.work / "cache"), "GTEST_COLOR": "no"}

    def config(self, name, *parts):
        """Writes NAME.toml, of a run into NAME-run, from tables of sections, the later ones over the earlier."""
        sections = {"job": {"dump_folder": f"{name}-run", "device": "cuda"}}
        for part in parts:
            for section, keys in part.items():
                sections.setdefault(section, {}).update(keys)
        text = "".join(f"[{section}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in keys.items())
                       for section, keys in sections.items())
        path = self.work / f"{name}.toml"
        path.write_text(text)
        return path

    def token_file(self, document):
        """Token files whose ids are as frequent as words, in documents of about so many tokens."""
        if document not in self.tokens:
            count, vocabulary = (20_000, 256) if self.small else (2_000_000, 50257)
            self.tokens[document] = self.work / f"tokens-{document}"
            write_tokens(self.tokens[document], count, vocabulary, document)
        return {"data": {"train": [{"path": str(self.tokens[document])}]}}


PROFILES = ("H200", "B200", "H100-PCIe", "H100", "A100-40G-PCIe", "A100-40G", "A100-80G")


def profile_of(device):
    """The profile of `trireme plan` for a device's name; an H200's for one that is not listed."""
    words = re.sub(r"\b(\d+)GB", r"\1G", device).replace("PCIE", "PCIe")
    return next((name for name in PROFILES if all(word in words for word in name.split("-"))), "H200")


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def write_tokens(prefix, count, vocabulary, document):
    """A Megatron indexed dataset; the small ids are the frequent ones, by Zipf's law."""
    rng = random.Random(1)
    ids = array.array("H", (int(vocabulary ** rng.random()) - 1 for _ in range(count)))
    lengths = []
    while sum_left := count - sum(lengths):
        lengths.append(min(sum_left, max(2, int(document * (0.5 + rng.random())))))
    starts = [2 * start for start in itertools.accumulate([0, *lengths[:-1]])]
    pathlib.Path(f"{prefix}.bin").write_bytes(ids.tobytes())
    pathlib.Path(f"{prefix}.idx").write_bytes(
        b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(lengths), len(lengths) + 1)
        + array.array("i", lengths).tobytes() + array.array("q", starts).tobytes()
        + array.array("q", range(len(lengths) + 1)).tobytes())


# Stage doctor


def doctor(hour):
    config = hour.config("doctor", model(hour, "124M"), hour.token_file(1000))
    checks = hour.work / "preflight.json"

    def preflight(_):
        return [row(check["name"], check["text"], failed=not check["passed"],
                    note="; ".join(fault["why"] for fault in check["faults"]))
                for check in json.loads(checks.read_text())["checks"]]

    smi = gpu_machine.find_tool("nvidia-smi")
    return [
        Command("doctor", hour.programs.command("trireme", "doctor"),
                lambda log: [row(*line.split(maxsplit=1)) for line in log.splitlines()[1:]]),
        Command("copies", *bench(hour, "^copy/")),
        Command("preflight", hour.programs.command("trireme", "doctor", config, "--json", checks), preflight,
                skip="its matrix product takes the emulator minutes" if hour.small else ""),
        Command("nvidia-smi", [smi, "-q"], skip="" if smi else "no nvidia-smi", ours=False),
    ]


# Stage tests


def tests(hour):
    suites = gpu_machine.test_suites(hour.programs)
    if hour.small:  # the suite runs the others
        suites = [name for name in suites if name in ("Elementwise", "Rope", "Strided")]
    return [tests_of(hour, suite) for suite in suites]


def tests_of(hour, suite):
    written = hour.work / f"tests-{file_name(suite)}.json"

    def parse(log):
        if not written.exists():
            running = re.findall(r"\[ RUN      \] (\S+)", log)
            return [row(running[-1] if running else suite, "did not end", failed=True)]
        cases = [case for one in json.loads(written.read_text())["testsuites"] for case in one["testsuite"]]
        failed = [row(f"{case['classname']}.{case['name']}", "failed", failed=True,
                      note=case["failures"][0]["failure"].replace("\n", " ")[:300])
                  for case in cases if case.get("failures")]
        skipped = sum(case["result"] == "SKIPPED" for case in cases)
        passed = len(cases) - len(failed) - skipped
        return [row(suite, passed, "passed", note=f"{len(failed)} failed, {skipped} skipped"), *failed]

    argv = hour.programs.command("tests", f"--gtest_filter={suite}.*", f"--gtest_output=json:{written}")
    return Command(suite, argv, parse)


# Stages products, attention, streams


def bench(hour, pattern):
    """A benchmark's argv and parse."""
    written = hour.work / f"bench-{file_name(pattern)}.json"
    small = ["--small"] if hour.small else []
    argv = hour.programs.command("bench", f"--benchmark_filter={pattern}", f"--benchmark_out={written}",
                                 "--benchmark_out_format=json", "--gpu", hour.gpu, *small)

    def parse(_):
        found = partial_json(written.read_text())
        bandwidth = 0 if hour.small else float(found["context"]["memory_bandwidth"])
        return [{**bench_row(one), "bandwidth": bandwidth} for one in found["benchmarks"]]

    return argv, parse


def partial_json(text):
    """Of a benchmark that was killed, what it wrote of its list."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return json.loads(text[: text.rindex("},")] + "}]}")


def bench_row(one):
    name = re.sub(r"/iterations:\d+/manual_time$", "", one["name"])
    if one.get("error_occurred"):
        return row(name, "failed", note=one["error_message"], failed=True)
    microseconds, flops, moved = one["real_time"], one["flops"], one["bytes"]
    rates = [f"{flops / microseconds * 1e-6:.0f} TFLOP/s"] if flops else []
    rates += [f"{moved / microseconds * 1e-3:.0f} GB/s"] if moved and not flops else []
    note = ", ".join(rates + ([one["label"]] if one.get("label") else []))
    return {**row(name, microseconds, "us", one.get("expected_us"), note), "flops": flops, "bytes": moved}


def attention(hour):
    """cuDNN's kernels, which must be asked for where ours are the default, then ours."""
    cudnn, *own = benches("attention", "cuDNN/", "own/", "documents", "window")(hour)
    cudnn.argv = ["env", "TRIREME_ATTENTION=cudnn", *cudnn.argv]
    return [cudnn, *own]


def benches(group, *parts):
    """A command for each part of a group, so that one that hangs costs no other its results."""
    return lambda hour: [Command(file_name(part) or group, *bench(hour, f"^{group}/.*{part}")) for part in parts]


# Stage streams


def streams(hour):
    calibrate = hour.programs.command("trireme", "doctor", "--device", "cuda", "--calibrate",
                                      hour.output / "device.json")
    return [*benches("stream", "")(hour),
            Command("calibrate", calibrate, lambda log: [row(*line.split(maxsplit=1)) for line in log.splitlines()],
                    skip="its matrix products take the emulator hours" if hour.small else "")]


# Stage train

STEPS = 20
LARGE = {"training": {"seq_len": 4096, "local_batch_size": 2, "global_batch_size": 8}}
# A router that was just drawn sends most tokens to few experts, one that was trained does not.
BALANCED = {"model": {"router_force_load_balancing": True}}
MODELS = {
    "124M": ({"model": {"flavor": "gpt2-124m", "vocab_size": 50304},
              "training": {"seq_len": 1024, "local_batch_size": 16, "global_batch_size": 64}},),
    "1.5B": (LARGE, {"model": {"flavor": "qwen2.5-1.5b"}}),
    "3B": (LARGE, {"model": {"flavor": "llama3.2-3b"}}),
    "Gemma 3 1B": (LARGE, {"model": {"flavor": "gemma3-1b"}}),
    "OLMo 2 1B": (LARGE, {"model": {"flavor": "olmo2-1b"}}),
    "8B": (LARGE, {"model": {"flavor": "llama3-8b"}, "optimizer": {"state_dtype": "bfloat16"},
                   "activation_checkpoint": {"mode": "norms"}}),
    "30B-A3B": (LARGE, {"model": {"flavor": "qwen3-30b-a3b", "num_hidden_layers": 5}}, BALANCED),
    "OLMoE 7B-A1B": (LARGE, {"model": {"flavor": "olmoe-7b-a1b"}, "optimizer": {"state_dtype": "bfloat16"}}, BALANCED),
}
TINY = {"model": {"flavor": "tiny", "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2},
        "training": {"seq_len": 32, "local_batch_size": 2, "global_batch_size": 4}}
BASE = {"training": {"dtype": "bfloat16", "steps": 100000}, "optimizer": {"lr": 1e-4},
        "checkpoint": {"async": False, "interval": 0}, "metrics": {"log_freq": 1}}
# Overrides, and the tokens of a document.
VARIANTS = {
    "bfloat16": ({}, 1000),
    "documents of 1000": ({"data": {"document_mask": True}}, 1000),
    "long documents": ({"data": {"document_mask": True}}, 1_000_000),
    "float8": ({"training": {"dtype": "float8"}}, 1000),
    "graphs": ({"job": {"cuda_graphs": True}}, 1000),
}
# The most telling first.
CASES = (
    ("1.5B", "bfloat16"), ("8B", "bfloat16"), ("30B-A3B", "bfloat16"), ("OLMoE 7B-A1B", "bfloat16"),
    ("Gemma 3 1B", "bfloat16"), ("OLMo 2 1B", "bfloat16"), ("1.5B", "documents of 1000"), ("1.5B", "float8"),
    ("1.5B", "graphs"), ("124M", "bfloat16"), ("124M", "graphs"), ("3B", "bfloat16"), ("8B", "float8"),
    ("8B", "documents of 1000"), ("1.5B", "long documents"), ("124M", "documents of 1000"),
    ("124M", "float8"), ("3B", "documents of 1000"), ("3B", "float8"), ("3B", "graphs"), ("8B", "graphs"),
)


def model(hour, name):
    parts = [TINY] if hour.small else MODELS[name]
    merged = {}
    for part in [BASE, *parts]:
        for section, keys in part.items():
            merged.setdefault(section, {}).update(keys)
    return merged


def train(hour):
    # On the emulator all sizes are one.
    return [train_command(hour, name, variant) for name, variant in CASES if not hour.small or name == "1.5B"]


def train_command(hour, name, variant):
    changes, document = VARIANTS[variant]
    steps = 3 if hour.small else STEPS
    label = f"{name} {variant}"
    plan = {}
    metrics = hour.work / f"{file_name(label)}-run/metrics.jsonl"

    def prepare():
        parts = [model(hour, name), hour.token_file(document), changes]
        config, found = fitting(hour, file_name(label), parts)
        plan.update(found)
        return hour.programs.command("trireme", "train", config)

    def lines():  # the last may be incomplete
        return metrics.read_text().split("\n")[:-1] if metrics.exists() else []

    def parse(_):
        found = [json.loads(line) for line in lines()]
        steady = found[len(found) // 4 :]
        seconds = statistics.median(step["step_seconds"] for step in steady)
        of_measured = statistics.median(step.get("mfu") or 0 for step in steady)
        # The program's MFU is relative to the peak that it measures, the planner's to the data sheet.
        planned = plan["step"]
        mfu = planned["mfu"] * planned["seconds"] / seconds
        note = (f"MFU {100 * mfu:.1f} %, planned {100 * planned['mfu']:.1f}, {100 * of_measured:.1f} of the measured "
                f"peak; {found[-1]['tokens_per_second']:.0f} tokens/s, {len(found)} steps, "
                f"loss {found[0]['loss']:.3f} to {found[-1]['loss']:.3f}, "
                f"{plan['layers_per_stage'][0]} layers")
        return [row(label, seconds, "s", planned["seconds"], note)]

    return Command(label, prepare, parse, limit=120, done=lambda: len(lines()) >= steps)


def fitting(hour, name, parts):
    """The config with as many layers as fit the GPU, and its plan."""
    overrides = {}
    while True:
        config = hour.config(name, *parts, overrides)
        plan = json.loads(hour.told("trireme", "plan", config, "--gpu", hour.gpu, "--json"))
        layers = plan["layers_per_stage"][0]
        if plan["memory"]["fits"] or layers == 1:
            return config, plan
        overrides = {"model": {"num_hidden_layers": layers * 3 // 4}}


# Stage pytorch

TORCH = {
    "30B-A3B": dict(family="moe", layers=5, hidden=2048, heads=32, key_value_heads=4, head=128, ffn=768,
                    vocab=151936, tied=False, qkv_bias=False, experts=128, top_k=8),
    "1.5B": dict(family="llama", layers=28, hidden=1536, heads=12, key_value_heads=2, head=128, ffn=8960,
                 vocab=151936, tied=True, qkv_bias=True),
    "124M": dict(family="gpt2", layers=12, hidden=768, heads=12, key_value_heads=12, head=64, ffn=3072,
                 vocab=50304, tied=True, qkv_bias=True),
    "3B": dict(family="llama", layers=28, hidden=3072, heads=24, key_value_heads=8, head=128, ffn=8192,
               vocab=128256, tied=True, qkv_bias=False),
}


def pytorch(hour):
    """The same shapes in PyTorch: the models of the stage train, without document masks."""
    python = shutil.which("python3")
    has = python and not subprocess.run([python, "-c", "import torch; assert torch.cuda.is_available()"],
                                        capture_output=True, check=False).returncode
    skip = "the emulator has no PyTorch" if hour.small else "" if has else "python3 has no PyTorch for this GPU"
    for masters, (name, shape) in itertools.product(("float32", "bfloat16"), TORCH.items()):
        training = model(hour, name)["training"]
        path = hour.work / f"torch-{name}.json"
        path.write_text(json.dumps({**shape, "seq": training["seq_len"], "batch": training["local_batch_size"],
                                    "micro_batches": training["global_batch_size"] // training["local_batch_size"]}))
        label = f"{name} PyTorch, {masters} weights"

        def parse(log, label=label, tokens=training["global_batch_size"] * training["seq_len"]):
            found = dict(re.findall(r"^METRIC (\S+) (.*)$", log, re.MULTILINE))
            seconds = float(found["step_seconds"])
            return [row(label, seconds, "s", None, f"{tokens / seconds:.0f} tokens/s, PyTorch {found['version']}, "
                        f"loss {found['losses']}, {found['memory_gib']} GiB")]

        yield Command(label, [python, gpu_machine.HERE / "gpu_torch_step.py", path, "--masters", masters], parse, 120,
                      skip=skip, ours=False)


# Stage verify


def verify(hour):
    # A vocabulary that float64 on the CPU has time for.
    shape = {"training": {"seq_len": 128, "local_batch_size": 1, "global_batch_size": 2,
                          "attention_dropout": 0.1, "residual_dropout": 0.1},
             "model": {"num_hidden_layers": 2, "vocab_size": 4096}}
    window = {"model": {"sliding_window": 64, "layer_types": ["sliding_attention", "full_attention"]}}
    few = {"model": {"num_experts": 8, "num_experts_per_tok": 2}}
    names = ("1.5B",) if hour.small else ("124M", "OLMo 2 1B", "Gemma 3 1B", "1.5B", "30B-A3B")
    for dtype, name in itertools.product(("bfloat16", "float32"), names):
        label = f"{name}, 2 layers, dropout, {dtype}"
        parts = [model(hour, name), hour.token_file(1000), {"training": {"dtype": dtype}},
                 {} if hour.small else shape, window if "Gemma" in name else few if "30B" in name else {}]
        config = hour.config(file_name(f"verify {label}"), *parts)
        argv = hour.programs.command("trireme", "verify", config, "--against", "float64", "--synthetic", "--json")

        def parse(log, label=label):
            found = json.loads(log[log.index("{\n") :])
            last, allowed = found["steps"][-1], found["tolerances"]
            rows = [row(f"{label}: relative error of the loss", last["loss"]["relative"],
                        note=f"allowed {allowed['loss']}")]
            if last.get("gradients"):
                rows.append(row(f"{label}: of the gradients", last["gradients"]["off"],
                                note=f"allowed {allowed['gradient']}"))
            if not found["equal"]:
                rows.append(row(label, "differs", note=str(found["difference"])[:300], failed=True))
            return rows

        yield Command(label, argv, parse)


# Stage sanitizer


# Suites without kernels of our own, or of whole training steps, which take a tool minutes.
NOT_OF_OPS = ("Engine|Average|Fit|Inference|MatrixPeak|Calibration|OrderedReduce|Staging|Gemm|Memory|Copy|Event|Devices"
              "|Float8|Directions")
# Their large or many cases take a tool longest.
SLOW = ("Attention/AttentionDtype", "CrossEntropy", "Norm", "ProjectionNorm", "HeadNorm")


def sanitizer(hour):
    tool = gpu_machine.find_tool("compute-sanitizer")
    if not tool:
        return [Command("compute-sanitizer", [], skip="it is not on this machine")]
    suites = [name for name in gpu_machine.test_suites(hour.programs) if not re.match(NOT_OF_OPS, name)]
    suites.sort(key=lambda name: name not in SLOW)

    def parse(log):
        counts = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)", log)
        return [row("errors", int(counts[-1]) if counts else "did not end", failed=counts[-1:] != ["0"])]

    return [Command(f"{check} {one}",
                    [tool, "--tool", check, "--target-processes", "all", "--error-exitcode", "9",
                     *under_tool(hour, "tests", f"--gtest_filter={one}.*", "--gtest_brief=1")], parse, 150, ours=False)
            for check, one in itertools.product(("memcheck", "racecheck", "synccheck"), suites)]


# Stage profile


def profile(hour):
    config = hour.config("profile", model(hour, "1.5B"), hour.token_file(1000),
                              {"model": {"num_hidden_layers": 4}, "training": {"steps": 5},
                               "metrics": {"trace": True, "trace_steps": 3}})
    tool = gpu_machine.find_tool("nsys")

    def trace(_):
        """How busy the GPU was in the last step, and with what."""
        events = json.loads((hour.work / "profile-run/trace-0.json").read_text())
        rows = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
        spans = [event for event in events if event["ph"] == "X"]
        step = max((e for e in spans if e["name"].startswith("step ")), key=lambda e: e["ts"])
        end = step["ts"] + step["dur"]
        there = [e for e in spans if rows[e["tid"]].startswith("cuda") and step["ts"] <= e["ts"] < end]
        busy = sum(e["dur"] for e in there)
        parts = {kind: sum(e["dur"] for e in there if kind in e["name"]) for kind in "FB"}
        return [row("last step", step["dur"] / 1e3, "ms"),
                row("forward and backward on the GPU", 100 * busy / step["dur"], "%", None,
                    f"forward {parts['F'] / 1e3:.3g} ms, backward {parts['B'] / 1e3:.3g} ms")]

    def kernels(log):
        """nsys's table of kernels, the longest first."""
        table = log.partition("cuda_gpu_kern_sum")[2].partition("Processing")[0]
        lines = re.findall(r"^\s*([\d.]+)\s+([\d,]+)\s+([\d,]+)\s.*?\s{2,}(\S.*)$", table, re.MULTILINE)
        return [row(name[:100], int(total.replace(",", "")) / 1e6, "ms", None, f"{share} %, {count} times")
                for share, total, count, name in lines[:20]]

    yield Command("trace", hour.programs.command("trireme", "train", config), trace)
    again = hour.config("profile-nsys", model(hour, "1.5B"), hour.token_file(1000),
                           {"model": {"num_hidden_layers": 4}, "training": {"steps": 3}})
    yield Command("kernels", [tool, "profile", "--trace=cuda", "--stats=true", "--force-overwrite=true", "--output",
                              hour.output / "logs/profile", *under_tool(hour, "trireme", "train", again)],
                  kernels, skip="" if tool else "no nsys on this machine", ours=False)


# The most telling first.
STAGES = {
    "doctor": Stage("the machine, its libraries, copy bandwidths", 60, doctor),
    "tests": Stage("op and engine tests, attention last", 150, tests, at_once=4),
    "products": Stage("matrix products by shape: layers, experts, head chunks, odd and padded vocabularies, float8", 90,
                      benches("product", "square", "1.5B", "8B", "124M", "3B/", "experts")),
    "attention": Stage("attention, ours and cuDNN's, 1k to 16k tokens, with documents and a window", 60,
                       attention),
    "streams": Stage("memory-bound kernels next to their floors; a profile for trireme plan --gpu", 60, streams),
    "train": Stage(f"{STEPS} steps at 124M to 8B, of six families: graphs, float8, document masks", 360, train),
    "pytorch": Stage("the same steps in PyTorch", 150, pytorch),
    "verify": Stage("loss and gradients against float64 on the CPU", 170, verify),
    "sanitizer": Stage("compute-sanitizer on the op tests", 180, sanitizer, at_once=4),  # with 8, large suites time out
    "profile": Stage("one step: the GPU's share, and kernels by time", 60, profile),
}


def under_tool(hour, program, *words):
    """The argv of a program that a tool starts: the tool itself must not get our libraries."""
    return ["env", f"LD_LIBRARY_PATH={hour.programs.environment.get('LD_LIBRARY_PATH', '')}",
            *hour.programs.command(program, *words)]
