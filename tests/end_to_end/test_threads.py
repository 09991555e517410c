#!/usr/bin/python3
"""A run beside other work on its cores."""
import json
import os
import pathlib
import re
import subprocess
import sys

from checks import PATIENCE, Skip, check, note
from facts import fact, main
from run_folder import events


def waiting(workshop, config, env):
    """How a run's threads are told to wait for each other."""
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        workshop.env.pop(name, None)
    with workshop.start_held(2, "train", config, env=env) as process:
        text = pathlib.Path(f"/proc/{process.popen.pid}/environ").read_bytes().decode()
        words = pathlib.Path(f"/proc/{process.popen.pid}/cmdline").read_bytes().decode()
        name = pathlib.Path(f"/proc/{process.popen.pid}/comm").read_text().strip()
    check(config in words.split("\0"), words)
    check(name == workshop.trireme.name, "ps, top and pkill know it as", name)
    return dict(line.partition("=")[::2] for line in text.split("\0"))


@fact
def threads_spin_briefly_unless_the_user_said_otherwise(workshop):
    workshop.corpus()
    config = workshop.config("run")
    check(waiting(workshop, config, {}).get("GOMP_SPINCOUNT") == "10000", "it spins long")
    for name, value in (("OMP_WAIT_POLICY", "active"), ("GOMP_SPINCOUNT", "77")):
        told = waiting(workshop, config, {name: value})
        check(told[name] == value and told.get("GOMP_SPINCOUNT") in (None, "77"), told)


@fact
def other_work_on_the_cores_is_told_once_with_what_helps(workshop):
    if not pathlib.Path("/proc/self/schedstat").exists():
        raise Skip("the kernel does not count how long a process waits for a core")
    workshop.corpus()
    config = workshop.config("run", {"job": {"threads": 2}, "training": {"steps": 1000000},
                                     "metrics": {"log_freq": 5}, "checkpoint": {"interval": 0}})
    def warnings():
        return [event["text"] for event in events(workshop / "run", "warning")
                if "use this run's cores" in event["text"]]
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
              for _ in range(4 * len(os.sched_getaffinity(0)))]
    try:
        with workshop.start("train", config) as process:
            check(process.wait_for(warnings, "the warning", 120 * PATIENCE), process.text())
            told = process.text()
    finally:
        for other in others:
            other.kill()
            other.wait()
    note(warnings()[0])
    check(re.search(r"its threads waited \d+ % of .*job\.threads", warnings()[0]), warnings())
    check(told.count("use this run's cores") == 1, told)


@fact
def mfu_is_of_the_best_peak_seen(workshop):
    workshop.corpus()
    cache = workshop / "cache"
    env = {"XDG_CACHE_HOME": str(cache)}
    workshop.run("train", workshop.config("first"), env=env).done()
    file = cache / "trireme/matrix-peaks.json"
    peaks = json.loads(file.read_text())
    (key, peak), = peaks.items()
    # Far above what is measured again, and far below what cannot be of this machine.
    times = 10
    for changes in {}, {"measured_at": 0}:  # as it is kept, and as it is measured again
        kept = {**peak, "flops_per_second": times * peak["flops_per_second"], **changes}
        file.write_text(json.dumps({key: kept}))
        done = workshop.run("train", workshop.config(f"second-{len(changes)}"), env=env).done()
        best = round(times * 1e-9 * peak["flops_per_second"])
        check(f"{best} GFLOP/s" in done.out + done.err, best, "is not in", done)


if __name__ == "__main__":
    main()
