"""What the whole-program tests share: facts and how they are run, a scratch folder with a
corpus and runs in it, and readers of what a run leaves behind."""
import hashlib
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

try:
    import numpy as np
except ImportError:
    print("skipped: python3-numpy is not installed")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Seconds that a machine with two cores and nothing else to do takes for what machine_factor() times.
QUIET_WORK, QUIET_SYNC = 0.1, 0.02


def machine_factor():
    """How many times slower than a quiet one the machine is just now, at least 1: it is to start two
    processes that compute at once, and to put a small file on disk."""
    work = "n = 0\nfor i in range(400000): n += i * i"
    start = time.monotonic()
    both = [subprocess.Popen([sys.executable, "-S", "-E", "-c", work]) for _ in range(2)]
    for process in both:
        process.wait()
    computed = time.monotonic() - start
    with tempfile.TemporaryFile() as file:
        start = time.monotonic()
        file.write(bytes(1 << 18))
        file.flush()
        os.fsync(file.fileno())
        synced = time.monotonic() - start
    factor = max(1.0, computed / QUIET_WORK, synced / QUIET_SYNC)
    return min(20.0, math.ceil(10 * factor) / 10)


# Limits are multiplied by it, and the trainer's timeouts where a rank that got no core for a while
# is not to be taken for lost. They only end what hangs: no test waits for one to pass.
PATIENCE = machine_factor()
TIMEOUT = 200 * PATIENCE  # seconds for one command

# Of a metrics line, what must not depend on when and how often the run was interrupted.
DETERMINISTIC = ("step", "tokens", "loss", "grad_norm", "lr", "validation_loss",
                 "validation_bits_per_byte")


# Root may, more ranks than cores may, and those then do not spin for each other.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
       "OMPI_MCA_hwloc_base_binding_policy": "none"}


class Skip(Exception):
    """The machine lacks what the fact needs."""


def check(holds, *what):
    if not holds:
        raise AssertionError(" ".join(str(part) for part in what))


def note(*parts):
    print("   ", *parts, flush=True)


THOROUGH = os.environ.get("TRIREME_THOROUGH") == "1"


def _seed():
    """TRIREME_SEED; else with TRIREME_THOROUGH=1 a new one each time; else that of the commit, so
    that a red run is red again."""
    if "TRIREME_SEED" in os.environ:
        return int(os.environ["TRIREME_SEED"])
    if THOROUGH:
        return time.time_ns() % 1_000_000
    try:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True,
                                text=True, check=True).stdout
        return int(commit[:8], 16) % 1_000_000
    except (OSError, subprocess.CalledProcessError, ValueError):  # an unpacked archive
        return 0


SEED = _seed()


def random_of(*what):
    """A generator for `what`, which draws the same again with the same TRIREME_SEED, as it tells."""
    note(f"TRIREME_SEED={SEED}")
    return random.Random(" ".join(map(str, (SEED, *what))))


def some_of(things, count):
    """So many of them in their order, drawn by TRIREME_SEED; all with TRIREME_THOROUGH=1."""
    things = list(things)
    if THOROUGH or count >= len(things):
        return things
    note(f"{count} of {len(things)} cases: TRIREME_SEED={SEED}")
    chosen = random.Random(f"{SEED} {things}").sample(range(len(things)), count)
    return [things[at] for at in sorted(chosen)]


def inject_fault(action, step, phase="forward", ranks=1, once=None):
    """The environment in which each of so many ranks does this to itself in that phase of that step
    (trainer/loop/inject/fault.h)."""
    return {"TRIREME_INJECT_FAULT": ";".join(
        f"rank={rank} step={step} phase={phase} action={action}" + (f" once={once}" if once else "")
        for rank in range(ranks))}


def pause(begun):
    """Sleeps between two polls of a wait that began at `begun` (monotonic seconds). Polls get rarer
    with the wait, so that they leave the cores to the processes under test."""
    time.sleep(min(0.01, max(0.0003, (time.monotonic() - begun) / 100)))


FACTS = []


def fact(function):
    """Marks a function of one argument, a Workshop, whose name says what must hold."""
    FACTS.append(function)
    return function


def main(at_once=1):
    """TRIREME [NAME...]: tries the facts of the program that runs, all or those named; so many of
    them at once, where they neither measure time nor need what only one can have."""
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} PATH_TO_TRIREME [NAME...]\n" +
                 "".join(f"  {f.__name__}\n" for f in FACTS))
    trireme, names = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    unknown = set(names) - {f.__name__ for f in FACTS}
    check(not unknown, "no such fact:", unknown)
    print(f"machine factor {PATIENCE:.1f}: limits are {PATIENCE:.1f} times their usual", flush=True)
    chosen = [f for f in FACTS if not names or f.__name__ in names]
    with tempfile.TemporaryDirectory(prefix="trireme-test-", ignore_cleanup_errors=True) as common:
        common = pathlib.Path(common).resolve()
        if at_once > 1 and len(chosen) > 1:
            results = _try_at_once(chosen, trireme, common, at_once)
        else:
            results = [_try(f, trireme, common) for f in chosen]
    failed, skipped = results.count("FAILED"), results.count("skipped")
    print(f"{results.count('ok')} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 77 if skipped else 0)


def _try(function, trireme, common):
    print(f"{function.__name__}", flush=True)
    start = time.monotonic()
    outcome = "ok"
    with Workshop(trireme, common=common) as workshop:
        try:
            function(workshop)
        except Skip as why:
            note(f"skipped: {why}")
            outcome = "skipped"
        except Exception:  # every other fact is still worth trying
            traceback.print_exc(file=sys.stdout)
            outcome = "FAILED"
    print(f"  {outcome} ({time.monotonic() - start:.1f} s)", flush=True)
    return outcome


OUTCOMES = ["ok", "FAILED", "skipped"]  # as exit codes of a fact's process


def _try_at_once(functions, trireme, common, count):
    """Each in a process of its own, whose output is shown as a whole when it ends."""
    left, running, outcomes = list(functions), {}, []
    try:
        while left or running:
            while left and len(running) < count:
                output = tempfile.TemporaryFile()
                sys.stdout.flush()
                process = os.fork()
                if not process:
                    os.dup2(output.fileno(), 1)
                    os.dup2(output.fileno(), 2)
                    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # cleans up
                    code = OUTCOMES.index("FAILED")
                    try:
                        code = OUTCOMES.index(_try(left[0], trireme, common))
                    finally:
                        sys.stdout.flush()
                        os._exit(code)
                running[process] = output
                left.pop(0)
            process, status = os.wait()
            with running.pop(process) as output:
                size = os.fstat(output.fileno()).st_size
                print(os.pread(output.fileno(), size, 0).decode(errors="replace"), end="",
                      flush=True)
            code = os.waitstatus_to_exitcode(status)
            if code not in range(len(OUTCOMES)):
                print(f"  FAILED: its process ended with {code}", flush=True)
                code = OUTCOMES.index("FAILED")
            outcomes.append(OUTCOMES[code])
    finally:
        for process in running:  # where this one is interrupted
            os.kill(process, signal.SIGTERM)
    return outcomes


class Result:
    """A command that has ended."""

    def __init__(self, words, code, out, err):
        self.words, self.code, self.out, self.err = words, code, out, err

    def done(self):
        check(self.code == 0, f"exit {self.code}:", self)
        return self

    def refused(self, code, *words):
        """It ended with `code` and one message that has all `words`."""
        errors = self.err.count("trireme: error: ")
        message = self.err.partition("trireme: error: ")[2].strip()
        note(f"exit {self.code}: {message}")
        check(self.code == code, f"exit {self.code} instead of {code}:", self)
        check(errors == 1, f"{errors} error messages:", self)
        for word in words:
            check(str(word) in message, f"the message lacks {str(word)!r}:", self)
        return message

    def __str__(self):
        return f"{' '.join(map(str, self.words))}\n{self.out[-2000:]}{self.err[-4000:]}"


def has_pending(process, number):
    """Whether the process has yet to take that signal."""
    try:
        text = pathlib.Path(f"/proc/{process}/status").read_text()
    except OSError:  # it has ended
        return False
    waiting = [int(text.partition(f"\n{name}:")[2].split()[0], 16) for name in ("SigPnd", "ShdPnd")]
    return any(signals >> number - 1 & 1 for signals in waiting)


class Process:
    """A command that runs; ended with the block."""

    def __init__(self, words, folder, env):
        self.words = words
        self.log = tempfile.TemporaryFile()
        self.popen = subprocess.Popen(words, cwd=folder, env=env, stdin=subprocess.DEVNULL,
                                      stdout=self.log, stderr=self.log)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.running():
            self.popen.kill()
            self.popen.wait()
        self.log.close()

    def running(self):
        return self.popen.poll() is None

    def send(self, number):
        self.popen.send_signal(number)

    def state(self):
        """As /proc has it: R, S, D, T for stopped, Z for ended, ..."""
        text = pathlib.Path(f"/proc/{self.popen.pid}/stat").read_text()
        return text.rpartition(")")[2].split()[0]

    def wait_to_stand(self, token, what):
        """Until it has made the file and stopped itself."""
        check(self.wait_for(lambda: token.exists() and self.state() == "T", what),
              f"it ended before {what}:", self.text())

    def go_on(self):
        """One that Workshop.start_held held, to where it stops again."""
        self.send(signal.SIGCONT)
        self.wait_to_stand(self.token, "it stopped again")

    def has_pending(self, number):
        return has_pending(self.popen.pid, number)

    def text(self):
        size = os.fstat(self.log.fileno()).st_size
        return os.pread(self.log.fileno(), size, 0).decode(errors="replace")

    def wait_for(self, holds, what, timeout=TIMEOUT):
        """Until holds() is true. Returns whether the process still runs by then."""
        begun = time.monotonic()
        while not holds():
            if not self.running():
                return False
            check(time.monotonic() < begun + timeout, f"waited {timeout:.0f} s for {what}:", self.text())
            pause(begun)
        return self.running()

    def wait(self, timeout=TIMEOUT):
        code = self.popen.wait(timeout)
        return Result(self.words, code, "", self.text())


class Workshop:
    """A scratch folder, in which paths are relative; `common` is one that facts share."""

    def __init__(self, trireme, folder=None, common=None):
        self.trireme = trireme
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="trireme-test-")).resolve()
        self.common = common or self.folder / "common"
        self.mounts, self.held = [], 0
        launcher = re.compile("OMPI_|PMIX_|PMI_|SLURM_")
        self.env = {k: v for k, v in os.environ.items() if not launcher.match(k)}
        self.env.setdefault("XDG_CACHE_HOME", str(self.folder / "cache"))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for mount in reversed(self.mounts):
            subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __truediv__(self, name):
        return self.folder / name

    def run(self, *words, env=None, timeout=TIMEOUT):
        words = [str(self.trireme), *map(str, words)]
        done = subprocess.run(words, cwd=self.folder, env={**self.env, **(env or {})},
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)
        return Result(words, done.returncode, done.stdout.decode(errors="replace"),
                      done.stderr.decode(errors="replace"))

    def launch(self, ranks, *words):
        """The command of so many ranks; its environment is to have MPI."""
        if not shutil.which("mpirun"):
            raise Skip("mpirun is not installed")
        return ["mpirun", "-n", str(ranks), str(self.trireme), *map(str, words)]

    def run_ranks(self, ranks, *words, env=None, timeout=TIMEOUT):
        words = self.launch(ranks, *words)
        done = subprocess.run(words, cwd=self.folder, env={**self.env, **MPI, **(env or {})},
                              timeout=timeout, stdin=subprocess.DEVNULL, capture_output=True,
                              check=False)
        return Result(words, done.returncode, done.stdout.decode(errors="replace"),
                      done.stderr.decode(errors="replace"))

    def start(self, *words, env=None):
        return Process([str(self.trireme), *map(str, words)], self.folder,
                       {**self.env, **(env or {})})

    def start_held(self, step, *words, phase="forward", again=None, env=None):
        """The same, of a run of one rank that stops itself where it comes to that phase of the step:
        whoever acts then need not be fast. Returns when it has stopped. It does so once more in the
        step `again`, so that it does not come to its end unseen: Process.go_on() waits for that."""
        self.held += 1
        tokens = [self / f"held-{self.held}-{count}" for count in range(2)]
        injections = [inject_fault("stop", step, phase, once=tokens[0])]
        if again:
            injections.append(inject_fault("stop", again, once=tokens[1]))
        joined = ";".join(one["TRIREME_INJECT_FAULT"] for one in injections)
        process = self.start(*words, env={**(env or {}), "TRIREME_INJECT_FAULT": joined})
        try:
            process.wait_to_stand(tokens[0], f"the {phase} of step {step}")
        except BaseException:
            process.__exit__()
            raise
        process.token = tokens[1]
        return process

    def kill_in(self, step, *words, ranks=1, phase="forward"):
        """Trains until all ranks kill themselves where they come to that phase of the step."""
        env = inject_fault("kill", step, phase, ranks=ranks)
        done = self.run_ranks(ranks, *words, env=env) if ranks > 1 else self.run(*words, env=env)
        check(done.code != 0, f"it ended before the {phase} of step {step}:", done)
        return done

    def config(self, name, changes=None, base=None):
        """Writes NAME.toml, of a run into the folder NAME: SMALL with `changes`, which maps
        a section to its keys. Returns the file's name."""
        sections = json.loads(json.dumps(base or SMALL))
        sections["job"].setdefault("dump_folder", name)
        for section, keys in (changes or {}).items():
            sections.setdefault(section, {}).update(keys)
        text = ""
        for section, keys in sections.items():
            text += f"[{section}]\n" + "".join(f"{k} = {_toml(v)}\n" for k, v in keys.items())
        (self / f"{name}.toml").write_text(text)
        return f"{name}.toml"

    def corpus(self, prefix="corpus", seed=1, words=20000):
        """Token files of made-up English, by bytes, a line a document."""
        lines = self / f"{prefix}.jsonl"
        lines.write_text("".join(json.dumps({"text": line}) + "\n"
                                 for line in made_up_text(seed, words).splitlines()))
        self.run("tokenize", "--tokenizer", "bytes", "--output", prefix, lines).done()

    def tmpfs(self, name, options):
        """A small file system of its own; skips where that is not allowed."""
        folder = self / name
        folder.mkdir()
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)],
                              capture_output=True, check=False)
        if made.returncode != 0:
            raise Skip(f"cannot mount a tmpfs: {made.stderr.decode().strip()}")
        self.mounts.append(str(folder))
        return folder


class Faults:
    """Commands that file_faults, a library from tests/file_faults, is preloaded into: what is to
    go wrong below a folder is told by rules, see control.h there."""

    def __init__(self, workshop, under):
        self.workshop, self.under, self.used = workshop, under, 0
        self.library = workshop.trireme.parent / "tests/file_faults/libfile_faults.so"
        if not self.library.exists():
            raise Skip("file_faults is not built")

    def start(self, ranks, *words, rules=(), log=None, env=None):
        self.used += 1
        told = {"LD_PRELOAD": self.library, "FILE_FAULTS_UNDER": self.under,
                "FILE_FAULTS_STATE": self.workshop / f"faults-{self.used}",
                "FILE_FAULTS": "+".join(rules), **({"FILE_FAULTS_LOG": log} if log else {}),
                **(env or {})}
        told = {name: str(value) for name, value in told.items()}
        command = [str(self.workshop.trireme), *map(str, words)]
        if ranks == 1:
            return Process(command, self.workshop.folder, {**self.workshop.env, **told})
        command = self.workshop.launch(ranks, *words)
        command[1:1] = [part for pair in told.items() for part in ("-x", "=".join(pair))]
        return Process(command, self.workshop.folder, {**self.workshop.env, **MPI})


def slurm_cluster(**options):
    """A Slurm of several nodes on this machine, see tests/slurm/cluster.py."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "slurm"))
    import cluster  # needs what only some machines have
    lacking = cluster.missing()
    if lacking:
        raise Skip(lacking)
    return cluster.Cluster(**{"patience": PATIENCE, **options})


# A run of seconds: 131,392 parameters, 40 steps, on one thread because the machine may be
# busy.
SMALL = {
    "job": {"threads": 1},
    "model": {"flavor": "tiny"},
    "data": {"train": [{"path": "corpus"}], "tokenizer": "bytes"},
    "training": {"seq_len": 32, "local_batch_size": 4, "global_batch_size": 4, "steps": 40},
    "optimizer": {"lr": 3e-3},
    "lr_scheduler": {"warmup_steps": 4},
    "checkpoint": {"interval": 5},
}


def _toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(str(value) if isinstance(value, pathlib.Path) else value)


def made_up_text(seed, words):
    rng = random.Random(seed)
    known = ("the ship rows over dark water and nobody speaks of three banks "
             "oars rise fall wind stars shore night").split()
    return " ".join(rng.choice(known) + rng.choice(["", "", "", ",", ".\n"])
                    for _ in range(words))


def write_tokens(prefix, ids, dtype="uint16"):
    """A Megatron indexed dataset of one document."""
    codes = {"uint16": 8, "int32": 4}
    tokens = np.asarray(ids, dtype)
    tokens.tofile(f"{prefix}.bin")
    pathlib.Path(f"{prefix}.idx").write_bytes(
        b"MMIDIDX\x00\x00" + np.array([1], "<u8").tobytes() + bytes([codes[dtype]]) +
        np.array([1, 2], "<u8").tobytes() + np.array([tokens.size], "<i4").tobytes() +
        np.array([0], "<i8").tobytes() + np.array([0, 1], "<i8").tobytes())


def whole_lines(path):
    """Those of a file that may be growing, or whose writer was killed: not a last one without an end."""
    return path.read_text().rpartition("\n")[0].splitlines() if path.exists() else []


def metrics(run):
    """One dict a step; numbers as the text that stands in the file."""
    return [json.loads(line, parse_float=str, parse_int=str)
            for line in whole_lines(pathlib.Path(run) / "metrics.jsonl")]


def curve(run):
    """What must be the same bit for bit, a tuple of texts a step."""
    return [tuple(line.get(key) for key in DETERMINISTIC) for line in metrics(run)]


def steps_done(run):
    """Whole lines of metrics.jsonl, cheaply."""
    try:
        return (pathlib.Path(run) / "metrics.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def events(run, kind=None):
    found = [json.loads(line) for line in whole_lines(pathlib.Path(run) / "events.jsonl")]
    return [event for event in found if kind in (None, event["event"])]


def checkpoints(run):
    """Steps of the committed ones, ascending."""
    folder = pathlib.Path(run) / "checkpoints"
    return sorted(int(p.name[5:]) for p in folder.glob("step-*"))


def partials(run):
    return list((pathlib.Path(run) / "checkpoints").glob(".partial-*"))


def leftovers(run):
    """What only a write under way may leave in a run folder."""
    return [path for path in pathlib.Path(run).rglob("*")
            if path.name.startswith((".partial-", ".trash-")) or ".tmp-" in path.name]


def checkpoint(run, step):
    return pathlib.Path(run) / "checkpoints" / f"step-{step:08}"


def contents(folder):
    """Every file below, and a hash of what it holds; but not where the ranks were last, nor how
    often a run folder had a holder."""
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(pathlib.Path(folder).rglob("*"))
            if p.is_file() and "flight-recorder" not in p.parts and p.name != "incarnation"}


def same_curve(run, expected):
    got = curve(run)
    check([line[0] for line in got] == [line[0] for line in expected],
          "steps", [line[0] for line in got])
    for mine, theirs in zip(got, expected):
        check(mine == theirs, f"step {mine[0]}:", dict(zip(DETERMINISTIC, mine)), "instead of",
              dict(zip(DETERMINISTIC, theirs)))


def same_checkpoint(workshop, run, expected):
    result = workshop.run("checkpoint", "diff", run, expected)
    check(result.code == 0 and result.out.endswith("identical\n"), result)
