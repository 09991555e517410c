"""The scratch folder of a fact: the configs and the corpus in it, and how the program is run there."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from checks import PATIENCE, TIMEOUT, Skip, check
from commands import Process, Result
from corpora import made_up_text

# Root may, more ranks than cores may, and those then do not spin for each other.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
       "OMPI_MCA_hwloc_base_binding_policy": "none"}

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


def inject_fault(action, step, phase="forward", ranks=1, once=None):
    """The environment in which each of so many ranks does this to itself in that phase of that step
    (trainer/loop/inject/fault.h)."""
    return {"TRIREME_INJECT_FAULT": ";".join(
        f"rank={rank} step={step} phase={phase} action={action}" + (f" once={once}" if once else "")
        for rank in range(ranks))}


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
    """Commands that preload file_faults (tests/file_faults), which makes calls on files below a folder
    fail by rules (control.h there)."""

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
