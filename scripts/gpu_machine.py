"""Shared by gpu_check and gpu_hour: the built programs, NVIDIA's libraries for them, wherever the machine
has them, and commands with a time limit. Standard library only."""

import collections
import glob
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
# In an unpacked archive, in a build with CUDA, and in one with the emulator, which comes first because
# such a build also has the programs without CUDA.
PLACES = {
    "trireme": ("tests/end_to_end/trireme_emulated", "trireme"),
    "tests": ("tests/emulated_test", "tests/on_cuda_test", "on_cuda_test"),
    "bench": ("tests/bench/cuda_bench_emulated", "tests/bench/cuda_bench", "cuda_bench"),
}
# Where a missing library comes from: packages of PyPI, for CUDA 13.
PACKAGES = {
    "libcublas": "nvidia-cublas",
    "libcublasLt": "nvidia-cublas",
    "libcudnn": "nvidia-cudnn-cu13",
    "libnccl": "nvidia-nccl-cu13",
    "libnvrtc": "nvidia-cuda-nvrtc",
}
SEARCH_SECONDS = 20


class Programs:
    """The programs of a folder, and the environment in which they find their libraries."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        self.paths = {}
        for name, places in PLACES.items():
            found = [self.folder / place for place in places if os.access(self.folder / place, os.X_OK)]
            if found:
                self.paths[name] = found[0]
        # Open MPI's libraries look for each other in their install folder first, not next to the program.
        own = self.folder / "lib"
        self.library_path = [own] if own.is_dir() else []
        self.loader = None  # the archive's, with its glibc; None: the machine's
        self.found, self.missing, self.too_old = {}, [], ""

    @property
    def emulated(self):
        return "emulated" in self.paths["trireme"].name

    def command(self, name, *words):
        """The argv of one of the programs."""
        loader = []
        if self.loader:
            path = ":".join(map(str, [self.loader.parent, *self.library_path]))
            loader = [self.loader, "--library-path", path]
        return [*loader, self.paths[name], *words]

    @property
    def environment(self):
        """Only for our programs: others must not get our libstdc++."""
        theirs = os.environ.get("LD_LIBRARY_PATH")
        path = [str(folder) for folder in self.library_path] + ([theirs] if theirs else [])
        return {**os.environ, **({"LD_LIBRARY_PATH": ":".join(path)} if path else {})}

    def traced(self):
        """{library: path} of all programs by the dynamic loader, as ldd prints it; the path of a missing
        one is None."""
        libraries, self.too_old = {}, ""
        for name in self.paths:
            done = subprocess.run(self.command(name), env={**self.environment, "LD_TRACE_LOADED_OBJECTS": "1"},
                                  capture_output=True, text=True, check=False, timeout=60)
            for line in done.stdout.splitlines():
                if match := re.match(r"\s*(\S+) => (/\S+|not found)", line):
                    libraries[match[1]] = None if match[2] == "not found" else match[2]
            if versions := re.findall(r"version .(GLIBC_[\d.]+). not found", done.stdout + done.stderr):
                self.too_old = max(versions, key=lambda text: [int(n) for n in re.findall(r"\d+", text)])
        return libraries

    def find_libraries(self):
        """Adds the folders of libraries that the loader does not find. Whether all are found."""
        lacking = [name for name, path in self.traced().items() if path is None]
        own = self.folder / "lib/glibc/ld-linux-x86-64.so.2"
        if self.too_old and own.exists():
            self.loader = own
            lacking = [name for name, path in self.traced().items() if path is None]
        if lacking:
            found = search(lacking)
            self.library_path += sorted({path.parent for path in found.values()})
            self.found = {name: str(path) for name, path in found.items()}
        self.missing = [name for name, path in self.traced().items() if path is None]
        return not self.missing and not self.too_old

    def why_not(self):
        """One line: what the machine lacks."""
        if self.too_old:
            return f"the programs need {self.too_old.replace('_', ' ')} or newer, which this machine lacks"
        names = [name + (f" (PyPI: {PACKAGES[stem]})" if (stem := name.split(".")[0]) in PACKAGES else "")
                 for name in self.missing]
        return f"missing libraries: {', '.join(names)}; searched CUDA toolkits and Python environments"


def search(names):
    """{library: path} of as many of `names` as the machine has, from as few environments as possible: an
    environment's libraries fit each other."""
    all_found = []
    for folders in environments():
        found = {name: folder / name for folder in folders for name in names if (folder / name).exists()}
        if len(found) == len(names):
            return found
        all_found.append(found)
    chosen = {}
    for found in sorted(all_found, key=len, reverse=True):
        chosen = {**found, **chosen}
    return chosen


def environments():
    """The library folders of each environment: CUDA toolkits, then Python's packages, the active ones
    first and in the end those that a walk over the file system finds."""
    for toolkit in toolkits():
        yield [toolkit / "lib64", toolkit / "lib", toolkit / "targets/x86_64-linux/lib"]
    seen = set()
    for packages in package_folders():
        if packages not in seen:
            seen.add(packages)
            yield [path for path in packages.glob("nvidia/*/lib") if path.is_dir()]


def toolkits():
    named = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX")]
    nvcc = shutil.which("nvcc")
    found = [*named, nvcc and pathlib.Path(nvcc).resolve().parent.parent]
    for pattern in ("/usr/local/cuda*", "/opt/cuda*", "/opt/nvidia/*", "/usr/lib/cuda"):
        found += sorted(glob.glob(pattern), reverse=True)
    return [pathlib.Path(path) for path in found if path]


def package_folders():
    prefixes = [os.environ.get("VIRTUAL_ENV"), os.environ.get("CONDA_PREFIX"), "~/.local", "/usr", "/usr/local"]
    for folder in os.get_exec_path():  # a Python's environment is above its bin
        if glob.glob(f"{folder}/python3*"):
            prefixes.insert(0, pathlib.Path(folder).parent)
    for prefix in filter(None, prefixes):
        for packages in ("site-packages", "dist-packages"):
            yield from pathlib.Path(prefix).expanduser().glob(f"lib*/python3*/{packages}")
    yield from walk()


def walk():
    """Folders of Python packages with NVIDIA's, nearest to the root first."""
    end = time.monotonic() + SEARCH_SECONDS
    left = collections.deque(["/"])
    while left and time.monotonic() < end:
        try:
            entries = [entry for entry in os.scandir(left.popleft()) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        for entry in entries:
            if entry.name in ("site-packages", "dist-packages"):
                if os.path.isdir(entry.path + "/nvidia"):
                    yield pathlib.Path(entry.path)
            elif entry.path not in ("/proc", "/sys", "/dev", "/run"):
                left.append(entry.path)


def find_tool(name):
    """A program of the toolkit: on the PATH, or in an environment's bin."""
    if path := shutil.which(name):
        return path
    for toolkit in toolkits():
        if path := shutil.which(name, path=f"{toolkit}/bin"):
            return path
    return None


class Result:
    def __init__(self, code, seconds, timed_out):
        self.code, self.seconds, self.timed_out = code, seconds, timed_out


def run(command, log, limit, environment, done=lambda: False):
    """Runs it in a process group of its own, with its output in the file `log`. Kills the group after
    `limit` seconds, or as soon as done()."""
    start = time.monotonic()
    with open(log, "wb") as output:
        process = subprocess.Popen([str(word) for word in command], stdout=output, stderr=output,
                                   stdin=subprocess.DEVNULL, env=environment, start_new_session=True)
    enough = timed_out = False
    while process.poll() is None and not enough and not timed_out:
        time.sleep(0.02)
        enough = done()
        timed_out = time.monotonic() - start > limit
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    try:
        code = process.wait(10)
    except subprocess.TimeoutExpired:  # stuck in the driver
        code = -signal.SIGKILL
    return Result(0 if enough else code, time.monotonic() - start, timed_out)


def test_suites(programs):
    """Names of the device tests' suites, attention last: it has the most cases, and its kernels are compiled
    when they are first used."""
    listed = subprocess.run(programs.command("tests", "--gtest_list_tests"), env=programs.environment,
                            capture_output=True, text=True, check=True, timeout=60).stdout
    names = [line.split()[0].rstrip(".") for line in listed.splitlines() if re.match(r"\S+\.(\s|$)", line)]
    return sorted(names, key=lambda name: "Attention" in name)


def default_folder():
    """The archive that the script is in, or the build with CUDA, or the one with the emulator."""
    for folder in (HERE, ROOT / "build/cuda", ROOT / "build/cpu"):
        if Programs(folder).paths.keys() == PLACES.keys():
            return folder
    return ROOT / "build/cuda"


def open_programs(folder):
    """Exits with a message where a program is missing."""
    programs = Programs(folder or default_folder())
    lacking = [name for name in PLACES if name not in programs.paths]
    if lacking:
        name = pathlib.Path(sys.argv[0]).name
        sys.exit(f"{name}: no built program in {programs.folder} for: {', '.join(lacking)}")
    return programs
