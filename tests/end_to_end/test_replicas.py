#!/usr/bin/python3
"""A rank whose weights are not its replicas' is found and named, and the run goes on from the
last checkpoint before, bit for bit."""
from checks import check, note, some_of
from facts import fact, main
from launched import Launched
from run_folder import checkpoints, curve, events, same_checkpoint, same_curve

CONFIG = {"model": {"flavor": "tiny", "num_hidden_layers": 2, "num_attention_heads": 4,
                    "num_key_value_heads": 2},
          "training": {"steps": 12, "local_batch_size": 1},
          "checkpoint": {"interval": 4},
          "elastic": {"replica_check_interval": 3}}
MATRIX, NORM, EMBEDDING = "layers.1.mlp.up.weight", "layers.0.attention_norm.weight", "embedding.weight"
# What is flipped on which rank, and who is then named.
CASES = {"data2": (2, ["data_replicate=2", "data_shard=1"], 1, MATRIX, [0, 1]),
         "data4": (4, ["data_replicate=4", "data_shard=1"], 2, MATRIX, [2]),
         "data4_whole": (4, ["data_shard=4", "zero=0"], 3, MATRIX, [3]),
         "tensor": (2, ["tensor=2"], 1, NORM, [0, 1]),
         "tensor4": (4, ["tensor=4", "sequence=true"], 2, NORM, [2]),
         "pipeline": (2, ["pipeline=2"], 1, EMBEDDING, [0, 1]),
         "pipeline_data": (4, ["pipeline=2", "data_replicate=2"], 3, EMBEDDING, [3])}


def train(workshop, name, ranks, axes, *options, env=None):
    return workshop.run_ranks(ranks, "train", f"{name}.toml",
                              *(f"--parallelism.{axis}" for axis in axes), *options, env=env)


def inject_weight(step, rank, parameter, bit=3):
    return {"TRIREME_INJECT_WEIGHT": f"step={step} rank={rank} parameter={parameter} bit={bit}"}


@fact
def the_rank_and_the_tensor_are_named_and_the_run_goes_on_as_if_nothing_had_been(workshop):
    workshop.corpus()
    for case, (ranks, axes, rank, tensor, blamed) in some_of(CASES.items(), 3):
        workshop.config(f"{case}-whole", CONFIG)
        train(workshop, f"{case}-whole", ranks, axes).done()
        found = events(workshop / f"{case}-whole", "replica_checks")[-1]
        # Steps 3, 6 and 9 and the checkpoints of 4, 8 and 12.
        check(found["count"] == 6 and found["bytes"] > 0, found)
        workshop.config(case, CONFIG)
        train(workshop, case, ranks, axes, env=inject_weight(5, rank, tensor)).refused(
            7, "after step 6", tensor, f"rank {rank} on", "resumes from step 4")
        told = events(workshop / case, "replicas_differ")[-1]
        check(told["step"] == 6 and told["ranks"] == blamed, told)
        check(told["by_majority"] == (len(blamed) == 1), told)
        check(f"{tensor} (weights)" in told["tensors"], told)
        failure = events(workshop / case, "failure")[-1]
        check(failure["ranks"] == blamed and len(failure["hosts"]) == len(blamed), failure)
        check(checkpoints(workshop / case) == [4], checkpoints(workshop / case))
        train(workshop, case, ranks, axes).done()
        same_curve(workshop / case, curve(workshop / f"{case}-whole"))
        same_checkpoint(workshop, case, f"{case}-whole")
        note(f"{case}: rank {rank} had a flipped bit in {tensor}, named were {blamed}")


@fact
def no_checkpoint_is_written_of_replicas_that_differ(workshop):
    """The flip is in the step of a checkpoint, and no comparison is due by the interval."""
    workshop.corpus()
    workshop.config("run", {**CONFIG, "elastic": {"replica_check_interval": 1000}})
    train(workshop, "run", *CASES["data2"][:2], env=inject_weight(8, 0, MATRIX)).refused(
        7, "after step 8", MATRIX, "resumes from step 4")
    check(checkpoints(workshop / "run") == [4], checkpoints(workshop / "run"))


@fact
def snapshots_in_memory_since_the_last_comparison_are_not_gone_on_from(workshop):
    workshop.corpus()
    (workshop / "shm").mkdir()
    changes = {**CONFIG, "elastic": {"replica_check_interval": 6, "memory_interval": 1,
                                     "memory_folder": workshop / "shm"}}
    ranks, axes = CASES["data2"][:2]
    workshop.config("whole", changes)
    train(workshop, "whole", ranks, axes).done()
    workshop.config("run", changes)
    train(workshop, "run", ranks, axes, env=inject_weight(5, 1, MATRIX)).refused(7, "after step 6")
    train(workshop, "run", ranks, axes).done()
    resumed = events(workshop / "run", "resume")[-1]
    check(resumed["step"] == 4 and not resumed["in_memory"], resumed)
    same_curve(workshop / "run", curve(workshop / "whole"))


@fact
def a_launched_run_goes_on_by_itself(workshop):
    workshop.corpus()
    ranks, axes, rank, tensor, blamed = CASES["data4"]
    workshop.config("whole", CONFIG)
    train(workshop, "whole", ranks, axes).done()
    told = inject_weight(5, rank, tensor)["TRIREME_INJECT_WEIGHT"]
    with Launched(workshop, "run", ranks, CONFIG, [f"--parallelism.{axis}" for axis in axes],
                  env={"TRIREME_INJECT_WEIGHT": f"{told} once={workshop / 'injected'}"}) as run:
        run.end()
        run.like(workshop / "whole")
    failure, = events(workshop / "run", "failure")
    check(failure["ranks"] == blamed and failure["health"] == "differs", failure)
    recovered, = events(workshop / "run", "recovered")
    check(recovered["resumed_from"] == "disk" and recovered["recomputed_steps"] <= 2, recovered)
    page = workshop.run("report", "run").done().out.strip()
    check("health: differs" in (workshop / page).read_text(), page)


@fact
def a_weight_that_nobody_else_holds_is_not_compared(workshop):
    workshop.corpus()
    workshop.config("tensor", CONFIG)
    train(workshop, "tensor", *CASES["tensor"][:2], env=inject_weight(5, 1, MATRIX)).done()
    check(not events(workshop / "tensor", "replicas_differ"), events(workshop / "tensor"))
    workshop.config("alone", CONFIG)
    result = workshop.run("train", "alone.toml").done()
    check("no replicas to compare" in result.out + result.err, result)


@fact
def a_fault_that_cannot_be_injected_is_refused(workshop):
    workshop.corpus()
    workshop.config("run", CONFIG)
    for told, words in ((inject_weight(5, 0, MATRIX, 32), "bit=20"),
                        (inject_weight(5, 0, "layers.9.norm"), MATRIX)):
        workshop.run("train", "run.toml", env=told).refused(2, "TRIREME_INJECT_WEIGHT", words)
    # A run may shrink.
    result = workshop.run("train", "run.toml", env=inject_weight(5, 1, MATRIX)).done()
    check("no effect: there is no rank 1 among 1" in result.err + result.out, result)


if __name__ == "__main__":
    main()
