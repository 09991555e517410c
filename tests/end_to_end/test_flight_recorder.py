#!/usr/bin/python3
"""trireme doctor --flight-recorder: what the ranks of a run did last, and who is to blame, while
it hangs and after it was killed."""
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import time

from checks import PATIENCE, TIMEOUT, check, note
from commands import Process
from facts import fact, main
from flight_recorder import PHASES, Ledger, state_of
from run_folder import events, steps_done
from workshop import MPI

HOST = re.escape(os.uname().nodename)
LONG = {"training": {"seq_len": 32, "local_batch_size": 4, "global_batch_size": 4,
                     "steps": 100000}}


def is_gone(pid):
    try:
        return state_of(pid) in "ZX"
    except OSError:
        return True


class Run:
    """Two ranks that share every matrix."""

    def __init__(self, workshop, changes=None):
        workshop.corpus()
        self.folder = workshop / "run"
        config = workshop.config("run", {**LONG, **(changes or {})})
        self.process = Process(workshop.launch(2, "train", config, "--parallelism.tensor=2"),
                               workshop.folder, {**workshop.env, **MPI})
        self.pids = []

    def __enter__(self):
        check(self.process.wait_for(lambda: steps_done(self.folder) >= 3, "three steps"),
              self.process.text())
        self.pids = [struct.unpack_from("<i", self.ledger(rank), 28)[0] for rank in range(2)]
        return self

    def __exit__(self, *error):
        for pid in self.pids:
            if pathlib.Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)
        self.process.__exit__(*error)

    def ledger(self, rank):
        return (self.folder / f"flight-recorder/rank-{rank:05}").read_bytes()

    def place(self, rank):
        """As the file has it (parallel/comm/flight_recorder_layout.h)."""
        step, _, _, phase = struct.unpack_from("<qiiI", self.ledger(rank), 256 + 24)
        return f"step {step}, {PHASES[phase]}"


def told(workshop, *where):
    """The verdict, and the words of each rank's row."""
    result = workshop.run("doctor", "--flight-recorder", *where).done()
    verdict = re.search(r"^verdict: (.*)$", result.out, re.M)
    check(verdict, result)
    note(verdict[1])
    rows = {int(row.split()[0]): row for row in re.findall(r"^\d+  .*$", result.out, re.M)}
    return verdict[1], rows, result.out


@fact
def a_killed_rank_is_named_with_its_phase_and_is_still_after_a_restart(workshop):
    with Run(workshop) as run:
        os.kill(run.pids[1], signal.SIGKILL)
        check(run.process.wait().code != 0, run.process.text())
        verdict, rows, text = told(workshop, "run")
        check(re.match(rf"rank 1 \({HOST}\) was killed or crashed .* in {run.place(1)}\b", verdict),
              "it should be in", run.place(1))
        check(" killed " in rows[1] and " aborted by watchdog " in rows[0], text)
        check("last calls of rank 1:\n" in text and "all_reduce" in text, text)
        check("watchdog verdict: " + events(run.folder, "failure")[0]["text"] in text, text)
        place = run.place(1)
    workshop.run_ranks(2, "train", "run.toml", "--parallelism.tensor=2",
                       f"--training.steps={steps_done(run.folder) + 2}",
                       "--checkpoint.allow_changes=[\"all\"]").done()
    verdict, rows, text = told(workshop, "run/flight-recorder")
    check(verdict == "none: every rank finished", text)
    verdict, rows, text = told(workshop, "run/flight-recorder/previous-1")
    check(verdict.startswith("rank 1 ") and f" in {place}" in verdict, text)


@fact
def of_a_run_that_hangs_the_stopped_rank_is_named_and_so_when_all_were_killed(workshop):
    with Run(workshop, {"elastic": {"heartbeat_timeout_s": 600 * PATIENCE}}) as run:
        verdict, _, text = told(workshop, "run")
        check(verdict == "none: the run is still running", text)
        # In no call: who stopped in one that all have begun, nobody can tell when all are gone.
        Ledger(run.folder / "flight-recorder/rank-00000").stop_in(
            "forward", lambda what: check(run.process.running(), what), at_work=True)
        # At first there is no verdict: the other rank still runs up to where it waits.
        end = time.monotonic() + TIMEOUT
        while (verdict := told(workshop, "run")[0]) == "none: the run is still running" or not (
                "; blocked on it for " in verdict):
            check(time.monotonic() < end, verdict)
        verdict, rows, text = told(workshop, "run")
        check(re.match(rf"rank 0 \({HOST}\) sent no heartbeat .* in {run.place(0)}\b", verdict),
              "it should be in", run.place(0))
        check(re.search(r"; blocked on it for \d+\.\d s: rank 1 in [a-z_]+ \d+ of group", verdict),
              text)
        check(" stopped " in rows[0] and " running " in rows[1], text)
        run.process.popen.send_signal(signal.SIGSTOP)  # a launcher that goes first ends rank 1 itself
        for pid in reversed(run.pids):
            os.kill(pid, signal.SIGKILL)
        run.process.popen.kill()
        end = time.monotonic() + TIMEOUT
        while not all(is_gone(pid) for pid in run.pids):
            check(time.monotonic() < end, "they do not end:", run.pids)
            time.sleep(0.01)
        verdict, rows, text = told(workshop, "run")
        check(re.match(rf"every rank was killed; before that rank 0 \({HOST}\) made no progress",
                       verdict), text)
        check(all(" killed " in row for row in rows.values()), text)


@fact
def what_is_damaged_or_foreign_is_refused_in_one_message(workshop):
    workshop.corpus()
    workshop.run("train", workshop.config("run", {"training": {"steps": 5}})).done()
    told(workshop, "run")
    path = workshop / "run/flight-recorder/rank-00000"
    whole = path.read_bytes()

    def refused(data, *words):
        path.write_bytes(data)
        workshop.run("doctor", "--flight-recorder", "run").refused(5, "rank-00000", *words)
    refused(whole[:-1], "not a flight recorder")
    refused(b"", "not a flight recorder")
    refused(whole.replace(b"TRILEDGR", b"TRILEDGE", 1), "not a flight recorder of version")
    refused(whole[:20] + struct.pack("<i", 3) + whole[24:], "damaged", "rank 3")
    path.unlink()
    workshop.run("doctor", "--flight-recorder", "run").refused(5, "no flight recorder")
    workshop.run("doctor", "--flight-recorder", "nowhere").refused(5, "nowhere")
    rng, codes = random.Random(5), set()
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(30):
            data[rng.randrange(1024 if rng.random() < 0.8 else len(data))] = rng.randrange(256)
        path.write_bytes(data)
        codes.add(workshop.run("doctor", "--flight-recorder", "run").code)
    note(f"60 damaged ledgers: exit codes {codes}")
    check(codes <= {0, 5}, codes)
    shutil.rmtree(workshop / "run")


if __name__ == "__main__":
    main()
