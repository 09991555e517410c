"""What the whole-program tests share: facts and how they are run, a scratch folder with a
corpus and runs in it, and readers of what a run leaves behind."""
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
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

TIMEOUT = 150  # seconds for one command, on a machine that does much else

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


SEED = int(os.environ.get("TRIREME_SEED", time.time_ns() % 1_000_000))
THOROUGH = os.environ.get("TRIREME_THOROUGH") == "1"


def some_of(things, count):
    """So many of them in their order, others each time; all with TRIREME_THOROUGH=1. The same again
    with the TRIREME_SEED that is told."""
    things = list(things)
    if THOROUGH or count >= len(things):
        return things
    note(f"{count} of {len(things)} cases: TRIREME_SEED={SEED}")
    chosen = random.Random(f"{SEED} {things}").sample(range(len(things)), count)
    return [things[at] for at in sorted(chosen)]


FACTS = []


def fact(function):
    """Marks a function of one argument, a Workshop, whose name says what must hold."""
    FACTS.append(function)
    return function


def main():
    """TRIREME [NAME...]: tries the facts of the program that runs, all or those named."""
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} PATH_TO_TRIREME [NAME...]\n" +
                 "".join(f"  {f.__name__}\n" for f in FACTS))
    trireme, names = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    unknown = set(names) - {f.__name__ for f in FACTS}
    check(not unknown, "no such fact:", unknown)
    results = [_try(f, trireme) for f in FACTS if not names or f.__name__ in names]
    failed, skipped = results.count("FAILED"), results.count("skipped")
    print(f"{results.count('ok')} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 77 if skipped else 0)


def _try(function, trireme):
    print(f"{function.__name__}", flush=True)
    start = time.monotonic()
    outcome = "ok"
    with Workshop(trireme) as workshop:
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

    def text(self):
        size = os.fstat(self.log.fileno()).st_size
        return os.pread(self.log.fileno(), size, 0).decode(errors="replace")

    def wait_for(self, holds, what, timeout=TIMEOUT):
        """Until holds() is true. Returns whether the process still runs by then."""
        end = time.monotonic() + timeout
        while not holds():
            if not self.running():
                return False
            check(time.monotonic() < end, f"waited {timeout} s for {what}:", self.text())
            time.sleep(0.0003)
        return self.running()

    def wait(self, timeout=TIMEOUT):
        code = self.popen.wait(timeout)
        return Result(self.words, code, "", self.text())


class Workshop:
    """A scratch folder, in which paths are relative."""

    def __init__(self, trireme):
        self.trireme = trireme
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-whole-")).resolve()
        self.mounts = []
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

    def run_ranks(self, ranks, *words, env=None, timeout=200):
        words = self.launch(ranks, *words)
        done = subprocess.run(words, cwd=self.folder, env={**self.env, **MPI, **(env or {})},
                              timeout=timeout, stdin=subprocess.DEVNULL, capture_output=True,
                              check=False)
        return Result(words, done.returncode, done.stdout.decode(errors="replace"),
                      done.stderr.decode(errors="replace"))

    def start(self, *words):
        return Process([str(self.trireme), *map(str, words)], self.folder, self.env)

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

    def start(self, ranks, *words, rules=(), log=None):
        self.used += 1
        told = {"LD_PRELOAD": self.library, "FILE_FAULTS_UNDER": self.under,
                "FILE_FAULTS_STATE": self.workshop / f"faults-{self.used}",
                "FILE_FAULTS": "+".join(rules), **({"FILE_FAULTS_LOG": log} if log else {})}
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
    return cluster.Cluster(**options)


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


def metrics(run):
    """One dict a step; numbers as the text that stands in the file."""
    path = pathlib.Path(run) / "metrics.jsonl"
    if not path.exists():
        return []
    return [json.loads(line, parse_float=str, parse_int=str)
            for line in path.read_text().splitlines()]


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
    path = pathlib.Path(run) / "events.jsonl"
    if not path.exists():
        return []
    found = [json.loads(line) for line in path.read_text().splitlines()]
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
