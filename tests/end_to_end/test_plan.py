#!/usr/bin/python3
"""What a run will take and cost is told before it, without a GPU, MPI or data."""
import importlib.machinery
import importlib.util
import json
import random
import re
import statistics
import subprocess
import sys
import time

from checks import ROOT, check, machine_factor, note
from facts import fact, main

LARGE = """[job]
dump_folder = "run"
[model]
flavor = "llama3-70b"
[data]
train = [{ path = "nowhere/tokens" }]
[training]
seq_len = 4096
global_batch_size = 1024
dtype = "bfloat16"
tokens = 1_400_000_000_000
[parallelism]
tensor = 8
sequence = true
pipeline = 8
[activation_checkpoint]
mode = "selective"
"""


def plan(workshop, text, *options, code=0):
    (workshop / "run.toml").write_text(text)
    result = workshop.run("plan", "run.toml", "--json", *options)
    check(result.code == code, result)
    return json.loads(result.out)


def load_script(name):
    loader = importlib.machinery.SourceFileLoader(name, str(ROOT / "scripts" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    sys.modules[name] = module
    loader.exec_module(module)
    return module


@fact
def seventy_billion_parameters_on_a_thousand_ranks_are_planned_in_a_second(workshop):
    times = []
    for _ in range(3):
        factor = machine_factor()
        start = time.monotonic()
        told = plan(workshop, LARGE, "-n", "1024", "--gpu", "H100", "--price", "2.5")
        times.append((time.monotonic() - start) / max(factor, machine_factor()))
    note("seconds, as on a quiet machine:", [round(seconds, 2) for seconds in times])
    check(min(times) < 3, "it took", times)  # 1 s on a machine with nothing else to do
    check(told["parameters"] == 70_553_706_496, told["parameters"])
    check(len(told["memory"]["places"]) == 8, told["memory"])
    check(told["memory"]["fits"], told["memory"])
    for place in told["memory"]["places"]:
        check(sum(place["classes"].values()) == place["bytes"], place)
    step, run = told["step"], told["run"]
    check(0.2 < step["mfu"] < 0.7, step)
    check(abs(sum(step["parts"].values()) / step["seconds"] - 1) < 1e-6, step)
    check(abs(run["cost"] / run["device_hours"] - 2.5) < 1e-6, run)
    bubble = told["bubble"]
    check(abs(bubble["idle_fraction_equal_stages"] - 7 / (64 + 7)) < 1e-9, bubble)
    check(abs(bubble["overhead_over_ideal_equal_stages"] - 7 / 64) < 1e-9, bubble)


@fact
def a_plan_is_shown_in_a_terminal_and_on_a_page(workshop):
    (workshop / "run.toml").write_text(LARGE)
    shown = workshop.run("plan", "run.toml", "-n", "128", "--gpu", "H100", "--mtbf", "24",
                         "--html", "plan.html").done().out
    for words in ("idle fraction of the total", "overhead over the ideal", "pp rank 7", "Besiroglu",
                  "by Daly", "sent by a rank", "W weights"):
        check(words in shown, words, "is not in", shown)
    check("\x1b" not in shown, "colors without a terminal")
    page = (workshop / "plan.html").read_text()
    check(page.count("<svg") == 2 and "{{" not in page, page[:400])
    check(not re.search(r'(src|href)="(?!data:)', page), "the page asks for other files")
    check(not (workshop / "run").exists(), "it made the run folder")


@fact
def what_does_not_fit_comes_with_changes_that_do(workshop):
    text = LARGE.replace('mode = "selective"', 'mode = "none"').replace(
        "global_batch_size = 1024", "global_batch_size = 1024\nlocal_batch_size = 8")
    (workshop / "run.toml").write_text(text)
    message = workshop.run("plan", "run.toml", "-n", "128", "--gpu", "H100")
    check(message.code == 5, message)
    changes = re.findall(r"^  (.*) would need", message.out, re.M)
    check(len(changes) == 3, message.out)
    for change in changes:
        options = [f"--{one.strip()}".replace(" = ", "=").replace('"', "")
                   for one in re.split(r" and | with ", change)]
        options = [o.replace("--data_shard", "--parallelism.data_shard") for o in options]
        check(plan(workshop, text, "-n", "128", "--gpu", "H100", *options)["memory"]["fits"], change)


@fact
def a_search_writes_a_config_that_plans_as_it_said(workshop):
    text = LARGE.replace("llama3-70b", "llama3-8b").replace("tensor = 8", "tensor = 1").replace(
        "sequence = true", "").replace("pipeline = 8", "").replace(
            "global_batch_size = 1024", "global_batch_size = 128")
    found = plan(workshop, text, "-n", "16", "--gpu", "A100-80G", "--search", "--write", "best.toml")
    check(found["memory"]["fits"] and found["layout"]["ranks"] == 16, found["layout"])
    again = plan(workshop, (workshop / "best.toml").read_text(), "-n", "16", "--gpu", "A100-80G")
    check(again["step"]["seconds"] == found["step"]["seconds"], found["step"], again["step"])
    check(again["layout"] == found["layout"], found["layout"], again["layout"])


@fact
def experts_that_ranks_divide_are_planned_with_their_rows_and_their_imbalance(workshop):
    text = LARGE.replace("llama3-70b", "mixtral-8x7b").replace("tensor = 8", "expert = 4").replace(
        "sequence = true", "")
    words = ["-n", "64", "--gpu", "H100"]
    even = plan(workshop, text, *words)
    experts = even["experts"]
    check(even["active_parameters"] < 0.3 * even["parameters"], even["active_parameters"])
    check(even["layout"]["expert"] == 4 and experts["per_rank"] == 2, experts)
    check(experts["even_rows"] == 4096 * 2 and experts["planned_rows"] == 1.5 * 4096 * 2, experts)
    # Each of the 4 ranks' tokens with both choices; the memory has room for one rank's at once.
    check(experts["most_rows"] == 4 * 4096 * 2 and experts["most_rounds"] == 4, experts)
    busy = plan(workshop, text, *words, "--expert-imbalance", "1.5")
    check(busy["step"]["parts"]["products"] > even["step"]["parts"]["products"], busy["step"])
    check(busy["traffic"]["expert"]["seconds"] > even["traffic"]["expert"]["seconds"], busy)
    told = workshop.run("plan", "run.toml", *words, "--expert-imbalance", "1.5").done().out
    check("memory for 12,288 rows at once, 8,192 with even loads" in told, told)
    check("1.5 times the mean load" in told, told)
    workshop.run("plan", "run.toml", *words, "--parallelism.expert=1",
                 "--expert-imbalance", "1.5").refused(2, "--expert-imbalance", "parallelism.expert")


@fact
def what_failures_take_is_in_the_days_and_the_cost(workshop):
    words = ["-n", "1024", "--gpu", "H100", "--price", "2.5"]
    ideal = plan(workshop, LARGE, *words)["run"]
    told = plan(workshop, LARGE, *words, "--mtbf", "3")
    run, goodput = told["run"], told["goodput"]
    check(0.5 < goodput["goodput"] < 0.98, goodput)
    for key in ("seconds", "device_hours", "cost"):
        check(abs(run[key] * goodput["goodput"] / ideal[key] - 1) < 1e-9, key, run, ideal)
    for intervals in ("configured", "best"):
        check(abs(sum(goodput[intervals]["shares"].values()) - 1) < 1e-9, goodput)
    check(goodput["best"]["shares"]["useful"] > goodput["goodput"], goodput)
    # The same failures by the rate of a device.
    rate = 365.25 * 24 / 3 / 1024
    same = plan(workshop, LARGE, *words, "--failures-per-device-year", str(rate))
    check(abs(same["goodput"]["goodput"] / goodput["goodput"] - 1) < 1e-9, same["goodput"])
    published = plan(workshop, LARGE, *words, "--failures-per-device-year", "published")
    check(abs(published["goodput"]["model"]["between_failures_seconds"] /
              (54 * 86400 / 419 * 16384 / 1024) - 1) < 1e-9, published["goodput"])
    # Costs that are given.
    given = plan(workshop, LARGE, *words, "--mtbf", "3", "--save-seconds", "9", "--restart-seconds",
                 "600", "--storage-bandwidth", "2", "--repair-hours", "12")["goodput"]
    check(given["model"]["save_seconds"] == 9, given)
    check({kind["restart_seconds"] for kind in given["model"]["kinds"]} == {600}, given)
    check(abs(given["model"]["write_seconds"] / (told["checkpoint_bytes"] / 2e9) - 1) < 1e-9, given)
    check(given["configured"]["shares"]["fewer_nodes"] > 0, given)
    check(given["goodput"] < goodput["goodput"], given)
    for option in ("--price", "--mtbf", "--save-seconds", "--failures-per-device-year",
                   "--restart-seconds", "--repair-hours", "--storage-bandwidth",
                   "--inference-tokens"):
        for number in ("nan", "-1", "0", "1e-300", "inf"):
            workshop.run("plan", "run.toml", *words, f"{option}={number}").refused(
                2, option, "must be a number from")
    workshop.run("plan", "run.toml", *words, "--mtbf=0.01").refused(2, "--mtbf", "no time to train")
    workshop.run("plan", "run.toml", *words, "--mtbf=3", "--failures-per-device-year=1").refused(
        2, "--mtbf", "--failures-per-device-year")
    workshop.run("plan", "run.toml", *words, "--repair-hours=1").refused(2, "no effect", "--mtbf")
    workshop.run("plan", "run.toml", *words, "--mtbf=3", "--elastic.stall_timeout_s=0").refused(
        2, "stall_timeout_s = 0", "never detected")
    shown = workshop.run("plan", "run.toml", *words, "--mtbf", "3").done().out
    check("elastic.max_restarts = 100 ends the run" in shown, shown)
    (workshop / "b.toml").write_text(LARGE + "[elastic]\nstall_timeout_s = 60\n")
    rows = {row["name"]: row for row in plan(workshop, LARGE, "--compare", "b.toml", *words, "--mtbf",
                                             "3")["rows"] if row["group"] == "goodput"}
    check(rows["steps that count"]["a"] == goodput["goodput"], rows)
    check(rows["steps that count"]["difference"] > 0 > rows["detection"]["difference"], rows)


GOODPUT_SETTINGS = {
    "checkpoints on disk": ["--mtbf", "3"],
    "rare saves and frequent failures": ["--mtbf", "1", "--checkpoint.interval=100"],
    "slow saves and restarts": ["--mtbf", "4", "--save-seconds", "120", "--restart-seconds", "900"],
    "snapshots in memory": ["--mtbf", "1", "--elastic.memory_interval=10",
                            "--elastic.stall_timeout_s=60"],
    "snapshots that cost": ["--mtbf", "0.5", "--elastic.memory_interval=5",
                            "--checkpoint.interval=50", "--save-seconds", "20",
                            "--storage-bandwidth", "20", "--elastic.stall_timeout_s=60"],
    "slow storage": ["--mtbf", "6", "--storage-bandwidth", "1", "--checkpoint.interval=300"],
    "fewer nodes": ["--mtbf", "2", "--repair-hours", "24", "--checkpoint.interval=50"],
    "waiting for a node": ["--mtbf", "12", "--repair-hours", "1", "--checkpoint.interval=50",
                           "--elastic.min_data_parallel=16"],
    "the published rate": ["--failures-per-device-year", "published"],
}


@fact
def expected_goodput_is_that_of_runs_simulated_failure_by_failure(workshop):
    """Means of simulated runs are within 4 standard errors and 0.2 % of the time."""
    simulator = load_script("goodput")
    for name, options in GOODPUT_SETTINGS.items():
        goodput = plan(workshop, LARGE, "-n", "1024", "--gpu", "H100", *options)["goodput"]
        model = goodput["model"]
        duration = 1000 * model["between_failures_seconds"]
        found = [simulator.simulate_planned(model, duration, random.Random(seed))[0]
                 for seed in range(12)]
        mean, error = statistics.mean(found), statistics.stdev(found) / len(found)**0.5
        note(f"{name}: predicted {100 * goodput['goodput']:.2f} %, simulated {100 * mean:.2f} %")
        check(error < 0.01, name, found)
        check(abs(mean - goodput["goodput"]) < 4 * error + 0.002, name, mean, error, goodput)
    (workshop / "plan.json").write_text(json.dumps({"goodput": goodput}))
    shown = subprocess.run([ROOT / "scripts" / "goodput", "--plan", workshop / "plan.json",
                            "--seeds", "2"], capture_output=True, text=True, check=True).stdout
    check(f"predicted {100 * goodput['goodput']:.2f} %" in shown, shown)


@fact
def inference_asks_for_a_smaller_model_on_more_tokens(workshop):
    words = ["-n", "1024", "--gpu", "H100"]
    check("inference" not in plan(workshop, LARGE, *words))
    told = plan(workshop, LARGE, *words, "--inference-tokens", "1e13")
    check(len(told["inference"]) == 2, told)
    for fit in told["inference"].values():
        own = told["parameters"] * (6 * told["run"]["tokens"] + 2e13)
        check(abs(fit["flops_of_this_config"] / own - 1) < 1e-9, fit)
        check(abs(fit["parameters"] * (6 * fit["tokens"] + 2e13) / fit["flops"] - 1) < 1e-9, fit)
        check(fit["flops"] < own and fit["parameters"] < told["parameters"], fit)
        check(fit["tokens"] > told["run"]["tokens"], fit)
    shown = workshop.run("plan", "run.toml", *words, "--inference-tokens", "1e13").done().out
    check(re.search(r"^inference .* 10.0T tokens of inference, .* times the least", shown, re.M), shown)
    (workshop / "b.toml").write_text(LARGE.replace("llama3-70b", "llama3-8b"))
    both = plan(workshop, LARGE, "--compare", "b.toml", *words, "--inference-tokens", "1e13")
    rows = {row["name"]: row for row in both["rows"] if row["group"] == "inference"}
    check(rows["ZFLOP with training"]["ratio"] < 0.2 and len(rows) == 3, rows)
    experts = LARGE.replace("llama3-70b", "mixtral-8x7b")
    (workshop / "run.toml").write_text(experts)
    workshop.run("plan", "run.toml", *words, "--inference-tokens", "1e13").refused(
        2, "--inference-tokens", "experts")


@fact
def float8_is_relative_to_the_peak_of_bfloat16(workshop):
    told = plan(workshop, LARGE, "-n", "1024", "--gpu", "H100", "--training.dtype=float8")
    check(told["step"]["mfu_peak"] == 989.4e12, told["step"])
    check("% of 989TFLOP/s in bfloat16" in workshop.run(
        "plan", "run.toml", "-n", "1024", "--gpu", "H100", "--training.dtype=float8").out)


@fact
def formats_that_the_trainer_does_not_run_are_assumed_and_said_to_be(workshop):
    words = ["-n", "128", "--gpu", "GB200"]
    plain = plan(workshop, LARGE, *words)
    check("matmul_format" not in plain, plain)
    seconds = [plain["step"]["seconds"]]
    for numbers in ("mxfp8", "nvfp4"):
        told = plan(workshop, LARGE, *words, "--matmul-format", numbers)
        check(told["matmul_format"] == {"assumed": numbers, "trainer_runs_it": False}, told["matmul_format"])
        check(told["memory"] == plain["memory"], told["memory"], plain["memory"])
        seconds.append(told["step"]["seconds"])
        shown = workshop.run("plan", "run.toml", *words, "--matmul-format", numbers).done().out
        check(f"in {numbers}: an assumption" in shown and "memory is that of training.dtype" in shown, shown)
    check(seconds[0] > 1.1 * seconds[1] > 1.1 * 1.05 * seconds[2], seconds)
    both = workshop.run("plan", "run.toml", "--compare", "run.toml", *words, "--matmul-format", "nvfp4").done().out
    check("in nvfp4: an assumption" in both, both)
    found = plan(workshop, LARGE.replace("1024", "128"), *words, "--search", "--matmul-format", "mxfp8")
    check(found["step"]["seconds"] > 0 and found["matmul_format"]["assumed"] == "mxfp8", found)
    workshop.run("plan", "run.toml", "-n", "128", "--gpu", "H100", "--matmul-format", "mxfp8").refused(
        2, "--matmul-format", "H100 has no matmuls in mxfp8")
    workshop.run("plan", "run.toml", *words, "--matmul-format", "int4").refused(2, "--matmul-format")
    workshop.run("plan", "run.toml", *words, "--matmul-format", "nvfp4", "--training.dtype=float32").refused(
        2, "--matmul-format", "float32")


@fact
def a_search_that_finds_nothing_says_why(workshop):
    (workshop / "run.toml").write_text(LARGE.replace("1024", "16"))
    words = ["--gpu", "A100-40G", "--search"]
    workshop.run("plan", "run.toml", "-n", "83", *words).refused(
        2, "83 ranks divides training.global_batch_size = 16", "leave 83 data ranks")
    workshop.run("plan", "run.toml", "-n", "2", *words).refused(5, "fits")


@fact
def an_explanation_sums_to_the_plan(workshop):
    def sums(node, unit):
        children = node.get("children", [])
        if children:
            check(abs(sum(child[unit] for child in children) / node[unit] - 1) < 1e-9, node)
        return 1 + sum(sums(child, unit) for child in children if child[unit])

    words = ["-n", "128", "--gpu", "H100"]
    plain = plan(workshop, LARGE, *words)
    told = plan(workshop, LARGE, *words, "--explain")
    trees = told.pop("explain")
    check(told == plain and "explain" not in plain, told)
    time_tree, memory_tree = trees["time"]["tree"], trees["memory"]["tree"]
    check(abs(time_tree["seconds"] / plain["step"]["seconds"] - 1) < 1e-9, time_tree["seconds"])
    check(memory_tree["bytes"] == plain["memory"]["most_bytes"], memory_tree["bytes"])
    check(sums(time_tree, "seconds") > 40 and sums(memory_tree, "bytes") > 40, trees)
    place = plain["memory"]["places"][trees["memory"]["pipeline_rank"]]
    classes = {child["name"]: child["bytes"] for child in memory_tree["children"]}
    check(classes == {name: size for name, size in place["classes"].items() if size}, classes, place)
    shown = workshop.run("plan", "run.toml", *words, "--explain").done().out
    tree = shown[shown.index("time of a step"):]
    check(max(map(len, tree.splitlines())) <= 120, tree)
    for expected in ("exposed communication", "mlp.gate.weight", "others below 1 %", "adam.m", "reduce_scatter"):
        check(expected in tree, expected, "is not in", tree)


@fact
def two_plans_are_compared_with_the_keys_that_differ(workshop):
    (workshop / "b.toml").write_text(LARGE.replace("tensor = 8", "tensor = 4"))
    words = ["-n", "128", "--gpu", "H100"]
    plain = plan(workshop, LARGE, *words)
    both = ["--compare", "b.toml", *words]
    told = plan(workshop, LARGE, *both, "--price", "2.5", "--training.seq_len=2048", code=0)
    check({key["key"]: (key["a"], key["b"]) for key in told["keys"]} ==
          {"parallelism.tensor": ("8", "4"), "parallelism.data_shard": ("2", "4")}, told["keys"])
    rows = {(row["group"], row["name"]): row for row in told["rows"]}
    other = json.loads(workshop.run("plan", "b.toml", "--json", *words, "--training.seq_len=2048").done().out)
    check(rows["step", "time"]["b"] == other["step"]["seconds"], rows["step", "time"])
    check(rows["step", "time"]["a"] != plain["step"]["seconds"], "the override is of both configs")
    check(rows["speed", "MFU"]["b"] == other["step"]["mfu"], rows["speed", "MFU"])
    check(("run", "cost") in rows and rows["traffic", "context"]["ratio"] is None, rows)
    shown = workshop.run("plan", "run.toml", *both).done().out
    for expected in ("B / A", "weights", "parallelism.tensor", "8 -> 4", "B: b.toml"):
        check(expected in shown, expected, "is not in", shown)
    larger = plan(workshop, LARGE, *both, "--compare-ranks", "256")
    check([row["b"] for row in larger["rows"] if row["name"] == "ranks"] == [256], larger["rows"])
    workshop.run("plan", "run.toml", *both[:2], "--gpu", "H100").refused(2, "64", "32", "--compare-ranks")
    workshop.run("plan", "run.toml", *both, "--compare-ranks", "100").refused(2, "--compare-ranks 100")
    workshop.run("plan", "run.toml", *words, "--compare", "absent.toml").refused(2, "absent.toml")
    workshop.run("plan", "run.toml", *both, "--search").refused(2, "--compare", "--search")
    workshop.run("plan", "run.toml", *words, "--compare-ranks", "128").refused(2, "--compare")


@fact
def a_gpu_that_is_not_listed_and_ranks_that_do_not_fit_the_layout_are_refused(workshop):
    (workshop / "run.toml").write_text(LARGE)
    workshop.run("plan", "run.toml", "-n", "128", "--gpu", "H1000").refused(2, "H1000", "H100", "GB300", "MI300X")
    workshop.run("plan", "run.toml", "-n", "100", "--gpu", "H100").refused(2, "100")


if __name__ == "__main__":
    main()
