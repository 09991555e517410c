#!/usr/bin/python3
"""trireme doctor over all ranks of a job, and elastic.preflight: what is wrong is found before
the run begins, and its rank and node are named."""
import json
import os
import signal
import subprocess
import time

from checks import PATIENCE, check, note
from commands import Process
from facts import fact, main
from run_folder import contents, events, steps_done
from workshop import MPI

HOST = os.uname().nodename
CHECKS = ["program", "limits", "clocks", "devices", "ranks", "memory", "matrix product", "axes",
          "folders", "token files"]
TENSOR = "--parallelism.tensor=2"


def rows(text):
    """name -> (mark, text), of the lines that doctor prints."""
    return {line[6:21].strip(): (line[:5].strip(), line[22:]) for line in text.splitlines()
            if line.startswith(("ok ", "FAIL "))}


def wrapped(workshop, name, script, *words):
    """The command of two ranks that start through a shell script; $RANK and "$@" are given."""
    path = workshop / name
    path.write_text("#!/bin/sh\nRANK=$OMPI_COMM_WORLD_RANK\n" + script)
    path.chmod(0o755)
    command = workshop.launch(2, *words)
    at = command.index(str(workshop.trireme))
    return command[:at] + [str(path)] + command[at:]


def run_wrapped(workshop, name, script, *words):
    with Process(wrapped(workshop, name, script, *words), workshop.folder,
                 {**workshop.env, **MPI}) as process:
        return process.wait()


@fact
def two_sound_ranks_pass_every_check_and_nothing_is_left(workshop):
    workshop.corpus()
    config = workshop.config("run", {"elastic": {"memory_interval": 1}})
    before = contents(workshop.folder)
    result = workshop.run_ranks(2, "doctor", config, TENSOR, "--json", "report.json").done()
    print(result.out)
    told = rows(result.out)
    check(list(told) == CHECKS and all(mark == "ok" for mark, _ in told.values()), result)
    report = json.loads((workshop / "report.json").read_text())
    check(report["passed"] and report["ranks"] == 2 and report["hosts"] == [HOST] * 2, report)
    found = {row["name"]: row["by_rank"] for row in report["checks"]}
    check(list(found) == CHECKS and all(len(ranks) == 2 for ranks in found.values()), report)
    for ranks in found.values():
        check(all(ranks), ranks)
    for rank in range(2):
        check(found["matrix product"][rank]["flops"] > 1e8, found["matrix product"])
        check(found["axes"][rank]["tensor"]["ranks"] == 2, found["axes"])
        check(found["axes"][rank]["all"]["bytes_per_second"] > 1e6 / PATIENCE, found["axes"])
        check(0 < found["axes"][rank]["all"]["latency_s"] < 5 * PATIENCE, found["axes"])
        check(found["folders"][rank]["run"]["bytes_per_second"] > 1e4, found["folders"])
        check(abs(found["clocks"][rank]["offset_s"]) < 5 * PATIENCE, found["clocks"])
    check(found["memory"][0]["memory_tier_bytes"] > 4 * 131392 * 3, found["memory"])
    (workshop / "report.json").unlink()
    left = {name for name in contents(workshop.folder) if not name.startswith("cache/")}
    check(left == set(before), "it left files:", left)


@fact
def every_axis_is_measured_and_one_rank_may_be_looked_at(workshop):
    workshop.corpus()
    for ranks, axes, measured in ((2, ["--parallelism.pipeline=2"], {"pipeline", "all"}),
                                  (2, ["--parallelism.data_shard=2", "--training.local_batch_size=2"],
                                   {"data_shard", "all"}),
                                  (1, [], set())):
        config = workshop.config("run")
        words = ("doctor", config, *axes, "--json", "report.json")
        (workshop.run_ranks(ranks, *words) if ranks > 1 else workshop.run(*words)).done()
        report = json.loads((workshop / "report.json").read_text())
        found = {row["name"]: row["by_rank"] for row in report["checks"]}
        check(set(found["axes"][0]) == measured, found["axes"])


@fact
def another_config_or_library_on_one_rank_is_named(workshop):
    workshop.corpus()
    workshop.config("run")
    workshop.config("other", {"job": {"dump_folder": "run"}, "optimizer": {"lr": 1e-3}})
    script = f'[ $RANK = 1 ] && exec "$1" doctor other.toml {TENSOR}\nexec "$@"\n'
    result = run_wrapped(workshop, "other.sh", script, "doctor", "run.toml", TENSOR)
    result.refused(5, "preflight: program: rank 1", HOST, "a different config")
    library = workshop.trireme.parent / "tests/file_faults/libfile_faults.so"
    if library.exists():
        script = (f'[ $RANK = 1 ] && export LD_PRELOAD={library} FILE_FAULTS_STATE=$PWD/state\n'
                  'exec "$@"\n')
        result = run_wrapped(workshop, "library.sh", script, "doctor", "run.toml", TENSOR,
                             "--json", "report.json")
        result.refused(5, "rank 1", "different libfile_faults.so")
        report = json.loads((workshop / "report.json").read_text())
        check(not report["passed"] and report["checks"][0]["faults"][0]["ranks"] == [1], report)


@fact
def few_files_or_a_strange_vocabulary_on_one_rank_are_named(workshop):
    workshop.corpus()
    config = workshop.config("run")
    script = '[ $RANK = 0 ] && ulimit -n 100\nexec "$@"\n'
    result = run_wrapped(workshop, "files.sh", script, "doctor", config, TENSOR)
    result.refused(5, "limits: rank 0", "can open 100 files")
    config = workshop.config("small", {"model": {"flavor": "tiny", "vocab_size": 64}})
    workshop.run_ranks(2, "doctor", config, TENSOR).refused(5, "token files: ranks 0, 1")


@fact
def folders_that_are_read_only_or_too_small_are_named(workshop):
    workshop.corpus()
    small = workshop.tmpfs("small", "size=4m")
    config = workshop.config("run", {"job": {"dump_folder": "small/run"}})
    workshop.run_ranks(2, "doctor", config, TENSOR).refused(5, "folders: rank", HOST,
                                                            "No space left on device")
    check(not list(small.iterdir()), "files are left:", list(small.iterdir()))
    roomy = workshop.tmpfs("roomy", "size=40m")
    wide = {"job": {"dump_folder": "roomy/run"},
            "model": {"flavor": "tiny", "hidden_size": 256, "intermediate_size": 1024}}
    (roomy / "filler").write_bytes(bytes(4 << 20))
    message = workshop.run_ranks(2, "doctor", workshop.config("wide", wide), TENSOR).refused(
        5, "folders: rank", "two checkpoints need")
    check("No space" not in message, message)
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    workshop.run_ranks(2, "doctor", config, TENSOR).refused(5, "folders: rank",
                                                            "Read-only file system")


@fact
def a_slow_rank_is_named(workshop):
    """It is stopped for most of the time, a moment at a time: for five times as long as it ran."""
    workshop.corpus()
    command = wrapped(workshop, "pid.sh", 'echo $$ > pid-$RANK\nexec "$@"\n', "doctor",
                      workshop.config("run"), TENSOR)
    with Process(command, workshop.folder, {**workshop.env, **MPI}) as process:
        check(process.wait_for(lambda: "ok    memory" in process.text(), "the first checks"),
              process.text())
        pid = int((workshop / "pid-1").read_text())
        ran = 0.02
        while process.running() and "matrix product" not in process.text():
            os.kill(pid, signal.SIGSTOP)
            time.sleep(5 * ran)
            os.kill(pid, signal.SIGCONT)
            began = time.monotonic()
            time.sleep(0.02)
            ran = time.monotonic() - began  # longer when the signal came late
        process.wait().refused(5, "matrix product: rank 1", "GFLOP/s, less than 0.8 of the median")


@fact
def a_rank_that_dies_meanwhile_ends_them_all(workshop):
    workshop.corpus()
    config = workshop.config("run", {"elastic": {"heartbeat_timeout_s": 1.5 * PATIENCE}})
    script = 'echo $$ > pid-$RANK\nexec "$@"\n'
    for number, words in ((signal.SIGKILL, "was killed or crashed"), (signal.SIGSTOP, "no heartbeat")):
        command = wrapped(workshop, "pid.sh", script, "doctor", config, TENSOR)
        with Process(command, workshop.folder, {**workshop.env, **MPI}) as process:
            check(process.wait_for(lambda: "ok    limits" in process.text(), "the first checks"),
                  process.text())
            os.kill(int((workshop / "pid-1").read_text()), number)
            result = process.wait()
        check(result.code != 0 and f"rank 1 ({HOST})" in result.err and words in result.err, result)


@fact
def a_run_with_preflight_tells_it_at_every_start(workshop):
    workshop.corpus()
    config = workshop.config("run", {"training": {"steps": 7}, "elastic": {"preflight": True}})
    workshop.run_ranks(2, "train", config, TENSOR, "--training.steps=5").done()
    workshop.run_ranks(2, "train", config, TENSOR, "--checkpoint.allow_changes=[\"all\"]").done()
    told = events(workshop / "run", "preflight")
    check([event["step"] for event in told] == [0, 5], told)
    for event in told:
        check(event["passed"] and 0 < event["seconds"] < 60 * PATIENCE, event)
        names = [row["name"] for row in event["checks"]]
        check(names == ["limits", "devices", "matrix product", "axes", "folders"], names)
        note(f"{event['seconds']:.2f} s")
    check(steps_done(workshop / "run") == 7, "steps")


@fact
def a_run_whose_preflight_fails_does_not_start(workshop):
    workshop.corpus()
    config = workshop.config("run", {"training": {"steps": 5}, "elastic": {"preflight": True}})
    script = '[ $RANK = 1 ] && ulimit -n 120\nexec "$@"\n'
    result = run_wrapped(workshop, "files.sh", script, "train", config, TENSOR)
    result.refused(5, "preflight: limits: rank 1", HOST, "can open 120 files")
    told = events(workshop / "run")
    check([event["event"] for event in told] == ["preflight"] and not told[0]["passed"], told)
    check(told[0]["checks"][0]["faults"][0]["ranks"] == [1], told)
    workshop.config("other", {"job": {"dump_folder": "run"}, "training": {"steps": 6},
                              "elastic": {"preflight": True}})
    script = f'[ $RANK = 1 ] && exec "$1" train other.toml {TENSOR}\nexec "$@"\n'
    result = run_wrapped(workshop, "other.sh", script, "train", config, TENSOR)
    result.refused(5, "preflight: program: rank 1", "a different config")
    workshop.run_ranks(2, "train", config, TENSOR).done()


if __name__ == "__main__":
    # Ranks on one core are disturbed alike by what else runs on the machine.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    main()
