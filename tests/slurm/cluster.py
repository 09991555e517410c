#!/usr/bin/python3
"""A Slurm of several nodes on this machine, for tests: slurmctld, a slurmd for each node and munged,
as the user who runs the test, in a scratch folder, on free ports of the loopback interface. Nothing
of it outlives the test, however that ends.

    with Cluster(nodes=4) as cluster:
        job = cluster.submit("run.sbatch", "--time=1")
        cluster.wait_for(job, "RUNNING")
        cluster.power_off("n2")

By hand: cluster.py [NODES] COMMAND... runs a command inside, such as bash."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import keeper

PROGRAMS = ("slurmctld", "slurmd", "munged", "srun", "sbatch", "scontrol")

# Nodes share a host name, so Open MPI would take ranks of two for neighbours in one memory. The
# rest is what mpirun needs as well: root may, and ranks that wait leave the core to others.
MPI = {"OMPI_MCA_btl": "self,tcp", "OMPI_MCA_btl_tcp_if_include": "lo",
       "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
       "OMPI_MCA_hwloc_base_binding_policy": "none"}

# A launch credential is valid for cred_expire seconds; a requeued job is held for as long, see
# start_again(). Jobs are preempted by a partition of a higher tier after GraceTime seconds.
CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=120
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
TreeWidth=64
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdSpoolDir={folder}/%n/spool
SlurmdPidFile={folder}/%n/slurmd.pid
SlurmdLogFile={folder}/%n/slurmd.log
TmpFS={folder}/%n/tmp
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
SlurmdTimeout={slurmd_timeout}
KillWait={kill_wait}
InactiveLimit=0
{more}
{nodes}
PartitionName=normal Nodes=ALL Default=YES PriorityTier=1 GraceTime={grace} MaxTime=INFINITE
PartitionName=urgent Nodes=ALL PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE
"""


def missing():
    """What of Slurm is not installed, as text; empty when all of it is."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    lacking = [name for name in PROGRAMS if not shutil.which(name, path=path)]
    if not any(pathlib.Path("/usr").glob("lib*/**/slurm*/mpi_pmix*.so")):
        lacking.append("Slurm's plugin for PMIx")
    return ", ".join(lacking) + (" not installed" if lacking else "")


# Below what the kernel gives to whoever connects.
PORTS = range(20000, 32000)


class Ports:
    """Free ones of the loopback interface, which no other cluster takes meanwhile."""

    def __init__(self, count):
        self.numbers, self.claims = [], []
        first = os.getpid() % len(PORTS)
        for port in (*PORTS[first:], *PORTS[:first]):
            if len(self.numbers) == count:
                return
            claim = socket.socket(socket.AF_UNIX)
            try:
                claim.bind(f"\0trireme-test-port-{port}")  # a name that ends with the socket
                with socket.socket() as free:
                    free.bind(("127.0.0.1", port))
            except OSError:
                claim.close()
                continue
            self.numbers.append(port)
            self.claims.append(claim)
        self.release()
        raise OSError(f"fewer than {count} of the ports {PORTS.start} to {PORTS.stop - 1} are free")

    def release(self):
        for claim in self.claims:
            claim.close()


class Done:
    """A command that has ended."""

    def __init__(self, words, code, out, err):
        self.words, self.code, self.out, self.err = words, code, out, err

    def __str__(self):
        return f"{' '.join(self.words)}: exit {self.code}\n{self.out}{self.err}"


class Cluster:
    """Nodes n1, n2, ... of `cpus` processors each; all times are in seconds, and `patience` is how
    many times slower than usual the machine is. `more` is text for slurm.conf, such as
    "SlurmctldParameters=preempt_send_user_signal". `open_files` maps a node to how many files a
    process may open there, `beneath` to words before its slurmd's, as of a namespace."""

    def __init__(self, nodes=2, cpus=4, slurmd_timeout=30, grace=20, kill_wait=10, more="",
                 open_files=None, beneath=None, patience=1):
        lacking = missing()
        if lacking:
            raise FileNotFoundError(lacking)
        self.nodes = [f"n{i + 1}" for i in range(nodes)]
        self.open_files, self.beneath = open_files or {}, beneath or {}
        self.limit = 120 * patience  # seconds for what Slurm is to do
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-slurm-"))
        self.config = self.folder / "slurm.conf"
        self.ports = Ports(nodes + 1)
        ports = self.ports.numbers
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True)
        self.config.write_text(CONFIG.format(
            host=socket.gethostname(), port=ports[0], user=user.stdout.strip(),
            folder=self.folder, slurmd_timeout=int(slurmd_timeout * patience),
            grace=int(grace * patience), kill_wait=int(kill_wait * patience), more=more,
            nodes="\n".join(f"NodeName={name} NodeHostname={socket.gethostname()} "
                            f"NodeAddr=127.0.0.1 Port={port} CPUs={cpus} State=UNKNOWN"
                            for name, port in zip(self.nodes, ports[1:]))))
        launcher = re.compile("OMPI_|PMIX_|PMI_|SLURM_|SBATCH_|SRUN_|SCANCEL_")
        self.env = {k: v for k, v in os.environ.items() if not launcher.match(k)}
        # Its programs are not on every user's path, and what ranks leave is to end with it.
        self.env |= {**MPI, "SLURM_CONF": str(self.config), "TMPDIR": str(self.folder / "tmp"),
                     "PATH": self.env.get("PATH", "") + ":/usr/sbin:/sbin"}
        self.keeper = None

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *unused):
        self.stop()

    def _start(self):
        for name in ("state", "tmp"):
            (self.folder / name).mkdir()
        with open(self.folder / "keeper.log", "wb") as log:
            self.keeper = subprocess.Popen(
                [sys.executable, "-B", keeper.__file__, str(self.folder)], env=self.env,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1,
                start_new_session=True)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "seed-file": "seed"}
        # It objects to folders that others may not pass, and --force makes that a warning.
        self._daemon("munged", "--foreground", "--force", "--num-threads=2",
                     *(f"--{option}={self.folder}/munge.{end}" for option, end in files.items()))
        self._until(lambda: (self.folder / "munge.socket").exists(), "munged", self.limit)
        self._daemon("slurmctld", "-D", "-i", "-f", str(self.config))
        for node in self.nodes:
            for name in ("spool", "tmp"):
                (self.folder / node / name).mkdir(parents=True)
            limited = [] if node not in self.open_files else [
                "prlimit", f"--nofile={self.open_files[node]}"]
            self._daemon(*limited, *self.beneath.get(node, ()), "slurmd", "-D", "-f", str(self.config),
                         "-N", node, name=node)
        for node in self.nodes:
            self.wait_for_node(node, "idle")

    def _daemon(self, *words, name=None):
        program = shutil.which(words[0], path=self.env["PATH"])
        request = {"words": [program, *words[1:]],
                   "log": str(self.folder / f"{name or words[0]}.out")}
        self.keeper.stdin.write(json.dumps(request) + "\n")
        return int(self.keeper.stdout.readline())

    def stop(self):
        """Ends everything and removes the folder. Returns when nothing is left."""
        if self.keeper:
            self.keeper.stdin.close()
            self.keeper.stdout.close()
            self.keeper.wait(self.limit)
            self.keeper = None
            self.ports.release()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *words, timeout=None, **options):
        """A command that knows the cluster, to its end."""
        words = [str(word) for word in words]
        done = subprocess.run(words, env=self.env, capture_output=True,
                              timeout=self.limit if timeout is None else timeout,
                              stdin=subprocess.DEVNULL, check=False,
                              preexec_fn=keeper.die_with_parent, **options)
        return Done(words, done.returncode, done.stdout.decode(errors="replace"),
                    done.stderr.decode(errors="replace"))

    def start(self, *words, **options):
        """The same, as a subprocess.Popen; it ends with the test."""
        return subprocess.Popen([str(word) for word in words], env=self.env,
                                stdin=subprocess.DEVNULL, preexec_fn=keeper.die_with_parent,
                                **options)

    def ask(self, *words):
        """What a command of Slurm's answers; its failure is an error."""
        done = self.run(*words)
        if done.code != 0:
            raise RuntimeError(str(done))
        return done.out.strip()

    def submit(self, *words, folder=None):
        """sbatch WORDS, from within `folder`. Returns the job's number, as text."""
        done = self.run("sbatch", "--parsable", *words, cwd=folder)
        if done.code != 0:
            raise RuntimeError(str(done))
        return done.out.strip()

    def job(self, number):
        """What scontrol knows of a job: JobState, ExitCode, Restarts, Reason, ..."""
        text = self.ask("scontrol", "--oneliner", "show", "job", number)
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def wait_for(self, number, *states, timeout=None):
        """Until the job is in one of the states. Returns what scontrol knows of it."""
        seen = {}

        def there():
            seen.update(self.job(number))
            return seen["JobState"] in states
        self._until(there, f"job {number} to be {' or '.join(states)}", timeout,
                    lambda: f"it is {seen['JobState']} ({seen['Reason']})")
        return seen

    def start_again(self, number):
        """A requeued job, when it has ended, which would wait for the credentials of its last start
        to expire. Nodes know those by the second."""
        self.wait_for(number, "PENDING")
        self.ask("scontrol", "update", f"JobId={number}", "StartTime=now+2")

    def node_state(self, node):
        """Such as "idle", "mixed", "allocated", "down"; with a * it does not answer."""
        return self.ask("sinfo", "--noheader", "--nodes", node, "--partition=normal",
                        "--format=%T")

    def wait_for_node(self, node, *states, timeout=None):
        self._until(lambda: self.run("sinfo", "--noheader", "--nodes", node, "--partition=normal",
                                     "--format=%T").out.strip() in states,
                    f"node {node} to be {' or '.join(states)}", timeout)

    def processes(self, node):
        """Those of a node: its slurmd, its slurmstepds and their tasks."""
        home, found = f"{self.folder}/{node}/", set()
        for process in keeper.below(self.keeper.pid):
            try:
                links = [os.readlink(fd) for fd in os.scandir(f"/proc/{process}/fd")]
                environ = pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            except OSError:  # ended meanwhile
                continue
            if (any(link.startswith(home) for link in links) or
                    f"SLURMD_NODENAME={node}".encode() in environ):
                found.update((process, *keeper.below(process)))
        return found

    def steps(self):
        """The slurmstepds of all nodes, one a job step and node."""
        return [process for process in keeper.below(self.keeper.pid)
                if keeper.name_of(process) == "slurmstepd"]

    def power_off(self, node):
        """Kills all of a node's processes. Unlike a real loss of power this resets their
        connections, so peers learn of it at once."""
        while left := self.processes(node):
            for number in signal.SIGSTOP, signal.SIGKILL:  # so that none can tell of another's end
                for process in left:
                    keeper.kill(process, number)
            time.sleep(0.01)

    def report_lost(self, node):
        """Tells slurmctld what it would find out by itself half a minute after a power_off."""
        self.ask("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=lost")

    def power_on(self, node, timeout=None):
        """The node after power_off, newly booted; returns when it may have jobs again."""
        self._daemon(*self.beneath.get(node, ()), "slurmd", "-D", "-b", "-f", str(self.config), "-N",
                     node, name=node)
        self.wait_for_node(node, "idle", "mixed", "allocated", timeout=timeout)

    def logs(self):
        """The last words of the daemons."""
        files = sorted([*self.folder.glob("*.log"), *self.folder.glob("*/*.log"),
                        *self.folder.glob("*.out")])
        return "".join(f"--- {path.relative_to(self.folder)}\n"
                       f"{path.read_text(errors='replace')[-2000:]}\n" for path in files)

    def _until(self, holds, what, timeout, state=lambda: ""):
        timeout = self.limit if timeout is None else timeout
        end = time.monotonic() + timeout
        while not holds():
            if time.monotonic() > end:
                raise TimeoutError(f"waited {timeout} s for {what}: {state()}\n{self.logs()}")
            time.sleep(0.1)


def main():
    words = sys.argv[1:]
    nodes = int(words.pop(0)) if words and words[0].isdigit() else 2
    if not words:
        sys.exit(__doc__)
    with Cluster(nodes) as cluster:
        sys.exit(subprocess.run(words, env=cluster.env, check=False,
                                preexec_fn=keeper.die_with_parent).returncode)


if __name__ == "__main__":
    main()
