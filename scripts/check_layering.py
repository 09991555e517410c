#!/usr/bin/env python3
"""Checks the include rules between source folders (rooms): check_layering.py [ROOT]

A room is a source folder listed in ROOMS; other folders belong to the nearest listed parent. A
room may include itself and the rooms of its entry; "model/*" means all rooms below model. Files
under tests/ may include any room. Prints each forbidden include; no output and exit code 0 mean
that all includes are allowed.
"""

import pathlib
import re
import sys

GROUND = ["model/base", "model/device", "model/tensor"]
PARALLEL = ["model/*", "parallel/comm", "parallel/mesh"]
# The rooms of the checkpoint, lowest first, with the other rooms of it that each may include.
CHECKPOINT = {
    "format": [],
    "hdf5": ["format"],
    "read": ["format"],
    "write": ["format", "hdf5", "read"],
    "store": ["format", "hdf5", "read", "write"],
    "memory": ["format", "read", "write"],
    "huggingface": ["format"],
}
# The rooms of the trainer, lowest first, with the other rooms of the trainer that each may include.
TRAINER = {
    "telemetry": [],
    "config": [],
    "convert": ["config"],
    "engine": ["config"],
    "supervise/link": [],
    "supervise/watchdog": ["supervise/link", "telemetry"],
    "supervise/node_agent": ["supervise/link", "supervise/watchdog", "telemetry"],
    "supervise/preflight": ["config", "engine", "supervise/watchdog", "telemetry"],
    "supervise/launch": ["config", "supervise/node_agent", "supervise/watchdog", "telemetry"],
    "loop": ["config", "convert", "engine", "supervise/*", "telemetry"],
    "tools/report": ["config", "telemetry"],
    "tools/plan/device": ["engine"],
    "tools/plan/goodput": ["config", "tools/plan/device", "tools/report"],
    "tools/plan/estimate": ["engine", "tools/plan/device"],
    "tools/plan/calibrate": ["engine", "telemetry", "tools/plan/device", "tools/plan/estimate"],
    "tools/plan": ["config", "engine", "tools/plan/device", "tools/plan/estimate",
                   "tools/plan/goodput"],
    "tools/plan/search": ["config", "engine", "tools/plan", "tools/plan/device",
                          "tools/plan/estimate"],
    "tools/plan/show": ["config", "tools/plan", "tools/plan/device", "tools/plan/estimate",
                        "tools/plan/search", "tools/report"],
    "tools/audit": ["config", "engine", "telemetry"],
    "tools/verify": ["config", "engine"],
    "commands": ["config", "convert", "engine", "loop", "supervise/*", "telemetry", "tools/*"],
}

# room: the rooms it may include, besides itself
ROOMS = {
    "model/base": [],
    "model/device": ["model/base"],
    "model/device/cpu": ["model/base", "model/device"],
    "model/device/cuda": ["model/base", "model/device"],
    "model/tensor": ["model/base", "model/device"],
    "model/ops": GROUND,
    "model/ops/cpu": [*GROUND, "model/device/cpu", "model/ops"],
    "model/ops/cuda": [*GROUND, "model/device/cuda", "model/ops"],
    "model/params": [*GROUND, "model/ops"],
    "model/layers": [*GROUND, "model/ops", "model/params"],
    "model/stage": [*GROUND, "model/ops", "model/params", "model/layers"],
    "parallel/comm": [*GROUND, "model/device/cpu"],
    "parallel/comm/cuda": [*GROUND, "model/device/cuda", "parallel/comm"],
    "parallel/mesh": ["model/base", "parallel/comm"],
    "parallel/tensor": PARALLEL,
    "parallel/context": PARALLEL,
    "parallel/expert": PARALLEL,
    "parallel/pipeline": PARALLEL,
    "parallel/optimizer": PARALLEL,
    "parallel/data": [*PARALLEL, "parallel/optimizer"],
    "data": ["model/base"],
    "trainer": ["model/*", "parallel/*", "data", "checkpoint/*", "trainer/*"],
}
for name, others in CHECKPOINT.items():
    below = [f"checkpoint/{other}" for other in others]
    ROOMS[f"checkpoint/{name}"] = [
        *GROUND, "model/device/cpu", "model/params", "parallel/comm", *below]
for name, others in TRAINER.items():
    below = [f"trainer/{other}" for other in others]
    ROOMS[f"trainer/{name}"] = ["model/*", "parallel/*", "data", "checkpoint/*", *below]

# Sources, but not headers, of these rooms may also include the device-specific folders.
CHOOSERS = {
    "model/ops": ["model/ops/cpu", "model/ops/cuda"],
    "model/device": ["model/device/cpu", "model/device/cuda"],
    "parallel/comm": ["parallel/comm/cuda"],
}

# third-party headers, and the only folders that may include each
ONLY_IN = {
    r"mpi\.h": ["parallel/comm", "tests/bench"],
    r"nccl\.h": ["parallel/comm", "tests/bench", "tests/nccl_emulator"],
    r"hdf5\.h|H5.*\.h": ["checkpoint/hdf5"],
    r"toml\+\+/": ["trainer"],
    r"yaml-cpp/": ["trainer/convert"],
    r"CLI/": ["trainer", "tests"],
    r"nlohmann/": ["data", "checkpoint", "trainer", "model/base", "model/ops", "tests"],
    r"spdlog/": ["model/base", "tests"],
    r"sentencepiece_.*\.h": ["data", "tests/data"],
    r"(pcre2|utf8proc|zstd|zlib)\.h": ["data", "tests/data"],
    r"sodium(\.h|/)": ["trainer/supervise/link"],
    r"isa-l(\.h|/)": ["checkpoint/format", "trainer/telemetry"],
    r"cblas\.h|dnnl.*\.h(pp)?|hwy/|(imm|emm|xmm)intrin\.h|arm_neon\.h": ["model/ops/cpu"],
    r"omp\.h": ["model/device/cpu", "model/ops/cpu", "tests"],
    r"cublas.*\.h|cudnn.*\.h": ["model/ops/cuda", "tests/cuda_emulator"],
    r"cuda.*\.h|nvtx3/": ["model/device/cuda", "model/ops/cuda", "tests/cuda_emulator",
                          "tests/nccl_emulator"],
    r"gtest/|gmock/|benchmark/": ["tests"],
}

SOURCES = {".h", ".cpp", ".cu", ".cuh"}
TOP_FOLDERS = ("model", "parallel", "data", "checkpoint", "trainer", "tests")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def room_of(path):
    """The deepest listed room that holds `path`, or None."""
    return next((str(p) for p in pathlib.PurePosixPath(path).parents if str(p) in ROOMS), None)


def named(room, allowed):
    return room == allowed or (allowed.endswith("/*") and room.startswith(allowed[:-1]))


def may_include(path, header):
    room, other = room_of(path), room_of(header)
    if path.startswith("tests/"):
        return other is not None or header.startswith("tests/")
    allowed = [room, *ROOMS[room]]
    if path.endswith(".cpp"):
        allowed += CHOOSERS.get(room, [])
    return other is not None and any(named(other, entry) for entry in allowed)


def inside(path, folder):
    return path.startswith(folder + "/")


def complaints_about(path, text):
    if not path.startswith("tests/") and room_of(path) is None:
        yield f"{path}: not in a listed folder; add its folder to ROOMS in scripts/check_layering.py"
        return
    for number, line in enumerate(text.splitlines(), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        quote, header = found.groups()
        where = f"{path}:{number}"
        if quote == '"' and not may_include(path, header):
            yield f"{where}: {room_of(path) or 'tests'} may not include {header}"
        for pattern, homes in ONLY_IN.items():
            if re.match(pattern, header) and not any(inside(path, home) for home in homes):
                yield f"{where}: only {', '.join(homes)} may include {header}"


def complaints(root):
    for folder in TOP_FOLDERS:
        for source in sorted((root / folder).rglob("*")):
            if source.suffix in SOURCES:
                yield from complaints_about(source.relative_to(root).as_posix(), source.read_text())


if __name__ == "__main__":
    found = list(complaints(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)
