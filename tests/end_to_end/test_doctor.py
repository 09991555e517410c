#!/usr/bin/python3
"""trireme doctor: what the machine offers, and what a config asks of it."""
import json
import os

from checks import check
from facts import fact, main
from run_folder import contents


def rows(text):
    """name -> its lines' texts, of the doctor's table."""
    found = {}
    for line in text.splitlines()[1:]:
        found.setdefault(line[:12].strip(), []).append(line[13:])
    return found


@fact
def it_tells_the_machine_without_a_config(workshop):
    done = workshop.run("doctor").done()
    told = rows(done.out)
    check(done.out.startswith("trireme "), done)
    check(told["host"] == [os.uname().nodename], told)
    check(f"{len(os.sched_getaffinity(0))} of " in told["processor"][0], told)
    check(told["memory"][0].endswith("B available"), told)
    check("HDF5" in told["libraries"][0] and "MPI" in told["libraries"][0], told)
    has_cuda = told["CUDA"] != ["built without CUDA"]
    for library in ("CUDA 1", "cuBLASLt", "cuDNN", "NCCL") if has_cuda else ():
        check(library in told["CUDA"][0], told)
    check(all(text.startswith(("cuda:", "no device: ")) for text in told["devices"]), told)


@fact
def it_measures_what_the_planner_reads(workshop):
    profile = workshop.folder / "machine.json"
    workshop.run("doctor", "--calibrate", profile).done()
    reached = json.loads(profile.read_text())
    float32 = reached["rates"]["float32"]
    check(1e9 < float32["peak"] < 1e13, float32)
    check(0.1 < float32["product"] < 10.1 and float32["flash"] > 0, float32)
    check(reached["memory_bandwidth"] > 1e8 and reached["launch"] > 0, reached)
    check(reached["name"] == "CPU" and "own_flash" not in float32, reached)
    check(reached["cores"] == os.cpu_count() and not reached["network"]["beside"], reached)
    check(reached["network"]["between"]["bandwidth"] == 1.25e9, "a link that was not measured", reached)
    check("lockstep" not in reached["network"] and "idle_time_used" not in reached, reached)
    for numbers in reached["rates"].values():
        check(all(rate > 0 for rate in numbers["streams"].values()), numbers)
        check({"update", "rms_norm", "gelu_backward"} < set(numbers["streams"]), numbers)
        for form in "grouped", "weight_gradient", "grouped_weight_gradient":
            check(numbers[form]["product"] > 0, form, numbers)


@fact
def it_measures_what_ranks_that_share_cores_lose(workshop):
    ranks = 2 * (os.cpu_count() // 2 + 1)
    workshop.run_ranks(ranks, "doctor", "--calibrate", "machine.json").done()
    reached = json.loads((workshop / "machine.json").read_text())
    check(reached["network"]["ranks_per_node"] == ranks, reached)
    # All cores have work throughout, so that barriers can only add to it.
    check(reached["network"]["lockstep"] > 0, reached)
    check(0 <= reached.get("idle_time_used", 1) <= 1, reached)
    pairs = reached["network"]["within_groups"][0]
    check(pairs["ranks"] == 2 and pairs["link"]["bandwidth"] > 0, pairs)


@fact
def it_agrees_with_a_config_that_fits_and_leaves_nothing_behind(workshop):
    config = workshop.config("run")
    before = contents(workshop.folder)
    told = rows(workshop.run("doctor", config).done().out)
    check("(to be created), writable" in told["run folder"][0], told)
    check(told["device"][0] in ('cpu (job.device = "auto")', 'cuda:0 (job.device = "auto")'), told)
    check(told["layout"] == ["one"], told)
    check(" needed, " in told["plan"][0], told)
    check(contents(workshop.folder) == before, "it wrote files")


@fact
def it_refuses_a_config_that_asks_for_what_is_not_there(workshop):
    workshop.corpus()
    config = workshop.config("run", {"job": {"dump_folder": "corpus.bin/run"}})
    result = workshop.run("doctor", config, "--job.device=cuda")
    message = result.refused(5, "corpus.bin is not a folder", 'job.device = "cuda": ')
    check("\n" not in message, "more than a line:", message)
    told = rows(result.out)
    check(told["device"][0].startswith("MISSING: "), told)
    check(" needed, " in told["plan"][0], "it stopped at the first:", told)


@fact
def it_names_a_wrong_config_and_takes_no_keys_without_one(workshop):
    config = workshop.config("run", {"job": {"devise": "cpu"}})
    workshop.run("doctor", config).refused(2, "devise")
    workshop.run("doctor", "--job.device=cpu").refused(2, "takes no --job.device")


if __name__ == "__main__":
    main()
