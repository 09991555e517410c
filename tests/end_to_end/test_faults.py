#!/usr/bin/python3
"""Ranks under mpirun that are killed, stopped, hung or out of luck, in every phase: the others
end in time with exit code 7, and one line says who, where and who waited."""
import contextlib
import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import uuid

from checks import PATIENCE, TIMEOUT, Skip, check, note, random_of, some_of
from commands import Process
from facts import fact, main
from flight_recorder import Ledger, is_marked, marked_processes
from run_folder import events
from workshop import MPI

HEARTBEAT = 1.5 * PATIENCE  # seconds
STALL = 5 * PATIENCE
TGKILL = {"x86_64": 234, "aarch64": 131}[os.uname().machine]
LONG = {"data": {"validation": [{"path": "corpus"}]},
        "model": {"flavor": "tiny", "num_hidden_layers": 4},
        "training": {"seq_len": 64, "local_batch_size": 1, "global_batch_size": 4,
                     "steps": 100000},
        "checkpoint": {"interval": 3}, "validation": {"freq": 3, "steps": 1},
        "elastic": {"heartbeat_timeout_s": HEARTBEAT}}
TENSOR = ["--parallelism.tensor=2"]
PIPELINE = ["--parallelism.pipeline=2"]

# Once a rank is dead, mpirun kills those that have not ended by themselves after a second, which on
# a busy machine is too early.
PATIENT = {"OMPI_MCA_odls_base_sigkill_timeout": "3"}

# A rank's exit code, written down by its parent, which mpirun's signals do not reach: they go
# to the process group of what it started, which the rank joins again.
WRAPPER = """#!/usr/bin/python3 -IS
import os, signal, sys
command = sys.argv[1:]
group, recorder = os.getpgrp(), os.fork()
if recorder:
    for number in signal.SIGTERM, signal.SIGUSR1:
        signal.signal(number, lambda *_: None)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(recorder, 0)[1]))
os.setpgid(0, 0)
rank = os.fork()
if not rank:
    os.setpgid(0, group)
    os.execvp(command[0], command)
code = os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1])
with open("codes/" + os.environ["OMPI_COMM_WORLD_RANK"], "w") as file:
    file.write(str(code if code >= 0 else 128 - code))
os._exit(code if code >= 0 else 128 - code)
"""


class Run:
    """A run of several ranks. Each one's ledger can be read, and its process reached."""

    def __init__(self, workshop, name, layout, changes=None, wrapper=WRAPPER):
        if not shutil.which("mpirun"):
            raise Skip("mpirun is not installed")
        if not (workshop / "corpus.idx").exists():
            workshop.corpus()
        self.folder, self.ranks, self.mark = workshop / name, 2 ** len(layout), uuid.uuid4().hex
        self.codes = workshop / f"{name}-codes"
        shutil.rmtree(self.codes, ignore_errors=True)
        (self.codes / "codes").mkdir(parents=True)
        (self.codes / "wrapper").write_text(wrapper)
        (self.codes / "wrapper").chmod(0o755)
        sections = {section: {**LONG.get(section, {}), **(changes or {}).get(section, {})}
                    for section in {**LONG, **(changes or {})}}
        self.process = Process(
            ["mpirun", "-n", str(self.ranks), str(self.codes / "wrapper"), str(workshop.trireme),
             "train", str(workshop / workshop.config(name, sections)), *layout], self.codes,
            {**workshop.env, **MPI, **PATIENT, "TRIREME_TEST_MARK": self.mark})
        self.ledgers = {}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.__exit__(*error)
        for pid in self.left():
            os.kill(pid, signal.SIGKILL)

    def ledger(self, rank):
        """Of this run's process, not of an earlier one's."""
        path = self.folder / "flight-recorder" / f"rank-{rank:05}"

        def is_there():
            if path.exists() and is_marked((ledger := Ledger(path)).pid, self.mark):
                self.ledgers[rank] = ledger
            return rank in self.ledgers
        if rank not in self.ledgers:
            check(self.process.wait_for(is_there, f"the ledger of rank {rank}"),
                  self.process.text())
        return self.ledgers[rank]

    def page(self, rank):
        return self.ledger(rank).page()

    def left(self):
        return marked_processes(self.mark)

    def stop_in(self, rank, phase, least_step=2, at_work=False):
        """Stops the rank in that phase, or in what it does there itself. Returns its page."""
        ledger, end = self.ledger(rank), time.monotonic() + TIMEOUT

        def running(what):
            if time.monotonic() > end or not self.process.running():
                check(False, what, self.process.text())
        page = ledger.stop_in(phase, running, least_step, at_work)
        for other in range(self.ranks):
            self.ledger(other)  # found while the process lives
        return page

    def end(self, started, limit, recorded=True):
        """The verdict, and the exit code of every rank; those of 7 came within the limit."""
        result, codes = self.process.wait(), {}
        deadline = time.monotonic() + 20 * PATIENCE
        while self.left() and time.monotonic() < deadline:
            time.sleep(0.01)
        check(not self.left(), "processes are left:", self.left())
        for path in (self.codes / "codes").iterdir():
            rank, took = int(path.name), path.stat().st_mtime - started
            codes[rank] = int(path.read_text())
            check(took < limit or codes[rank] != 7, f"rank {rank} took {took:.1f} s:", result)
        lines = [line for line in result.err.splitlines() if "trireme: error: " in line]
        check(len(lines) == 1, f"{len(lines)} verdicts:", result)
        text = lines[0].partition("trireme: error: ")[2]
        note(text)
        told = [event["text"] for event in events(self.folder, "failure")]
        check(told == ([text] if recorded else []), "the events tell", told)
        return text, codes

    def others_ended_for(self, rank, codes):
        others = [codes.get(other) for other in range(self.ranks) if other != rank]
        check(others == [7] * (self.ranks - 1), "exit codes", codes, self.process.text())


def inject_signal(workshop, name, layout, rank, phase, number, changes=None):
    """Rank `rank` gets signal `number` in that phase; all that must follow does."""
    with Run(workshop, name, layout, changes) as run:
        page, pid = run.stop_in(rank, phase), run.ledger(rank).pid
        started, since, limit = time.time(), time.monotonic(), 5 * PATIENCE
        if number == signal.SIGSTOP:
            limit += HEARTBEAT
        elif number == signal.SIGKILL:
            os.kill(pid, number)
        else:  # as a failed assertion does, in the thread that works
            ctypes.CDLL(None).syscall(TGKILL, pid, pid, number)
            os.kill(pid, signal.SIGCONT)
        text, codes = run.end(started, limit)
        what = (r"sent no heartbeat for \d+\.\d s \(stopped, or its node is unreachable\)"
                if number == signal.SIGSTOP else
                r"was killed or crashed \(connection lost\)")
        waiting = blamed(text, rank, what, page.place())
        run.others_ended_for(rank, codes)
        if page.step and phase != "end":
            all_ranks_wait(run, rank, waiting, since)


def blamed(text, rank, what, place):
    """The verdict says that of this rank in this place; returns what it says of the others."""
    start = rf"rank {rank} \({re.escape(socket.gethostname())}\) {what} in {re.escape(place)}\b"
    check(re.match(start, text), "it should begin with:", start)
    return text.partition("; blocked on it for ")[2]


def all_ranks_wait(run, rank, waiting, since):
    """The verdict names all others; where they came to rest late, or were still at work, on a busy
    machine, no more than these."""
    named = {int(digit) for ranks in re.findall(r"ranks? ((?:\d|, | and )+) in ", waiting)
             for digit in re.findall(r"\d", ranks)}
    others = set(range(run.ranks)) - {rank}
    pages = [run.page(other) for other in others]
    came = [page.waits_since / 1e9 - since if page.operation != "nothing" else float("inf")
            for page in pages]
    if max(came) < 0.05:
        check(named == others, "it tells that these wait:", named)
    else:
        note(f"the others waited after {max(came):.2f} s")
        check(named <= others, "it tells that these wait:", named)


@fact
def killed_while_it_starts(workshop):
    inject_signal(workshop, "start", TENSOR, 1, "start", signal.SIGKILL)


@fact
def killed_while_it_loads_or_reads_data(workshop):
    """With enough to load and to read that both can be met."""
    wide = {"model": {"flavor": "tiny", "num_hidden_layers": 4, "hidden_size": 256,
                      "intermediate_size": 1024}}
    with Run(workshop, "load", PIPELINE, {**wide, "training": {"steps": 4}}) as run:
        check(run.process.wait().code == 0, run.process.text())
    inject_signal(workshop, "load", PIPELINE, 1, "load", signal.SIGKILL, wide)
    batch = {"training": {"seq_len": 512, "local_batch_size": 32, "global_batch_size": 128}}
    inject_signal(workshop, "data", PIPELINE, 0, "data", signal.SIGKILL, batch)


@fact
def killed_or_aborted_while_it_computes(workshop):
    for case in some_of([
            ("forward", TENSOR, 0, "forward", signal.SIGKILL),
            ("backward", TENSOR + PIPELINE, 3, "backward", signal.SIGABRT),
            ("optimizer", PIPELINE, 1, "optimizer", signal.SIGKILL)], 2):
        inject_signal(workshop, *case)


@fact
def killed_while_it_talks_to_others(workshop):
    for case in some_of([
            ("reduction", PIPELINE, 0, "reduction", signal.SIGKILL),
            ("norm", TENSOR + PIPELINE, 1, "gradient norm", signal.SIGKILL),
            ("report", TENSOR, 1, "report", signal.SIGKILL)], 2):
        inject_signal(workshop, *case)


@fact
def killed_while_it_validates_saves_or_leaves(workshop):
    for case in some_of([
            ("validation", TENSOR + PIPELINE, 2, "validation", signal.SIGKILL),
            ("save", PIPELINE, 0, "save", signal.SIGKILL),
            ("end", TENSOR, 1, "end", signal.SIGKILL, {"training": {"steps": 6}})], 2):
        inject_signal(workshop, *case)


# Rank 1 sees another corpus than the others, as on a node with an old copy of it.
OWN_CORPUS = WRAPPER.replace("command = sys.argv[1:]", """command = sys.argv[1:]
if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
    command = ["unshare", "--mount", "sh", "-c",
               'mount --bind ../torn.bin ../corpus.bin && exec "$@"', "-", *command]""")


@fact
def one_that_fails_by_itself_ends_with_its_own_code(workshop):
    workshop.corpus()
    (workshop / "torn.bin").write_bytes((workshop / "corpus.bin").read_bytes()[:1000])
    if subprocess.run(["unshare", "--mount", "mount", "--bind", workshop / "torn.bin",
                       workshop / "corpus.bin"], capture_output=True, check=False).returncode:
        raise Skip("may not mount a file of its own for one rank")
    with Run(workshop, "torn", TENSOR + PIPELINE, wrapper=OWN_CORPUS) as run:
        text, codes = run.end(time.time(), 20 * PATIENCE, recorded=False)
        blamed(text, 1, "failed", "start")
        check("corpus.bin" in text and "truncated" in text, "it does not tell why")
        check(codes[1] == 3, "exit codes", codes)
        run.others_ended_for(1, codes)


@fact
def all_that_fail_alike_are_told_of_once(workshop):
    workshop.corpus()
    (workshop / "corpus.bin").write_bytes((workshop / "corpus.bin").read_bytes()[:1000])
    with Run(workshop, "alike", TENSOR) as run:
        text, codes = run.end(time.time(), 20 * PATIENCE, recorded=False)
        check("corpus.bin" in text and "truncated" in text, "it does not tell why")
        # One that comes late finds the run ended.
        check(3 in codes.values() and set(codes.values()) <= {3, 7}, "exit codes", codes)


@fact
def one_that_hangs_is_named(workshop):
    """Its thread is held while its watchdog is well, as in a file system that does not answer."""
    with Run(workshop, "hangs", PIPELINE, {"elastic": {"stall_timeout_s": STALL}}) as run:
        page, pid = run.stop_in(1, "forward", at_work=True), run.ledger(1).pid
        if not held(pid):
            raise Skip("may not trace a process")
        started, since = time.time(), time.monotonic()
        os.kill(pid, signal.SIGCONT)
        text, codes = run.end(started, STALL + 5 * PATIENCE)
        waiting = blamed(text, 1, r"made no progress for (\d+\.\d) s", page.place())
        stalled = float(re.search(r"made no progress for (\d+\.\d) s", text)[1])
        check(STALL - 0.05 <= stalled < STALL + 4 * PATIENCE, f"{stalled} s, not {STALL}")
        run.others_ended_for(1, codes)
        all_ranks_wait(run, 1, waiting, since)


@fact
def ranks_that_end_in_order_are_not_taken_for_lost(workshop):
    for name, number, code in ("done", None, 0), ("asked", signal.SIGUSR1, 75):
        steps = {"training": {"steps": 100000 if number else 6}}
        with Run(workshop, name, TENSOR + PIPELINE, steps) as run:
            if number:
                run.process.wait_for(lambda: run.page(0).step > 2, "step 2")
                run.process.send(number)
            result = run.process.wait()
            codes = {path.name: int(path.read_text()) for path in (run.codes / "codes").iterdir()}
            # Once one has ended with 75, mpirun ends those that are about to.
            fine = {code, 137, 143} if number else {code}
            check(len(codes) == 4 and code in codes.values() and set(codes.values()) <= fine,
                  "exit codes", codes, result)
            check(result.code == code, result)
            check(events(run.folder, "stop")[-1]["exit_code"] == code, result)
            check("trireme: error" not in result.err and not events(run.folder, "failure"), result)


def listening_ports(pid):
    """(address, port) of the TCP sockets at which a process waits for connections."""
    sockets = set()
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        try:
            sockets.add(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
        except OSError:  # closed meanwhile
            continue
    with open(f"/proc/{pid}/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in list(table)[1:]]
    places = [row[1].split(":") for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]
    return [(socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16))
            for address, port in places]


def watchdog_of(pid):
    """Where the watchdog of a rank that leads waits: the port that greets."""
    for address, port in listening_ports(pid):
        with socket.create_connection((address.replace("0.0.0.0", "127.0.0.1"), port), 5) as link:
            link.settimeout(0.5 * PATIENCE)
            try:
                if link.recv(64).startswith(b"trireme1"):
                    return address, port
            except OSError:  # another's, which waits for words or closes
                continue
    return None


@fact
def strangers_at_the_watchdogs_port_change_nothing(workshop):
    """They neither get in nor fill it: connections that say nothing, noise, and what looks like a
    rank's first words. Then a rank is killed, and that is noticed as ever."""
    with Run(workshop, "strangers", TENSOR) as run:
        check(run.process.wait_for(lambda: run.page(0).step > 2, "step 2"), run.process.text())
        pid, rank_1 = run.ledger(0).pid, run.ledger(1).pid
        place = watchdog_of(pid)
        check(place is not None, "no port greets:", listening_ports(pid))
        check(place[0] == "127.0.0.1", "a run on one machine listens at", place)
        before = len(os.listdir(f"/proc/{pid}/fd"))
        random = random_of("strangers")
        with contextlib.ExitStack() as links:
            for number in range(300):
                link = links.enter_context(socket.create_connection(place, 5))
                words = (b"", random.randbytes(5000), b"trireme1" + random.randbytes(5000),
                         b"trireme1" + 16 * b"x" + b"\0\0\0\x09" + random.randbytes(41))[number % 4]
                with contextlib.suppress(OSError):  # it was closed while it spoke
                    link.sendall(words)
            step = run.page(0).step
            check(run.process.wait_for(lambda: run.page(0).step > step + 5, "five more steps"),
                  run.process.text())
            held_open = len(os.listdir(f"/proc/{pid}/fd")) - before
            note(f"of 300 connections {held_open} are open five steps later")
            check(held_open <= 64 + run.ranks, held_open)
            started = time.time()
            os.kill(rank_1, signal.SIGKILL)
            text, codes = run.end(started, 5 * PATIENCE)
        check(text.startswith(f"rank 1 ({socket.gethostname()}) was killed or crashed"), text)
        run.others_ended_for(1, codes)


def held(pid):
    """Stops the first thread of another process for good."""
    seize, interrupt = 0x4206, 0x4207
    libc, nothing = ctypes.CDLL(None, use_errno=True), ctypes.c_void_p()
    if any(libc.ptrace(request, pid, nothing, nothing) for request in (seize, interrupt)):
        return False

    def see_it_end():  # its parent does not before its tracer does
        while os.WIFSTOPPED(os.waitpid(pid, 0)[1]):
            pass
    threading.Thread(target=see_it_end, daemon=True).start()
    return True


@fact
def stopped_in_a_step(workshop):
    for case in some_of([
            ("stop1", PIPELINE, 1, "backward", signal.SIGSTOP),
            ("stop0", TENSOR, 0, "report", signal.SIGSTOP),
            ("stop2", TENSOR + PIPELINE, 2, "forward", signal.SIGSTOP)], 2):
        inject_signal(workshop, *case)


if __name__ == "__main__":
    main()
