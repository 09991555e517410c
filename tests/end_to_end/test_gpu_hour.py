#!/usr/bin/python3
"""scripts/gpu_hour and gpu_check on the emulator, and on a machine that has libraries in unusual places."""
import json
import os
import re
import shutil
import subprocess
import sys

from checks import ROOT, TIMEOUT, Skip, check
from facts import fact, main

sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
import gpu_machine  # noqa: E402
import gpu_summary  # noqa: E402

STAGES = ("doctor", "tests", "products", "attention", "streams", "train", "pytorch", "verify", "sanitizer", "profile")
PLACES = ("tests/end_to_end/trireme_emulated", "tests/emulated_test", "tests/bench/cuda_bench_emulated")


def build_folder(workshop):
    folder = workshop.trireme.parents[2]
    for place in PLACES:
        if not (folder / place).exists():
            raise Skip(f"there is no {place}")
    return folder


def script(name, *words, env=None):
    done = subprocess.run([sys.executable, "-B", ROOT / "scripts" / name, *map(str, words)], capture_output=True,
                          text=True, env={**os.environ, **(env or {})}, timeout=4 * TIMEOUT, check=False)
    return done.returncode, done.stdout + done.stderr


def statuses(folder, stage):
    return {one["name"]: one["status"] for one in json.loads((folder / f"{stage}.json").read_text())["commands"]}


@fact
def all_stages_run_and_the_page_is_complete(workshop):
    limits = ",".join(f"{stage}:{int(TIMEOUT)}" for stage in STAGES)  # on a busy machine
    code, said = script("gpu_hour", "--output", workshop / "out", "--stages", limits, build_folder(workshop))
    check(code == 0, said)
    for stage in STAGES:
        check(set(statuses(workshop / "out", stage).values()) <= {"ok", "skipped"}, stage, said)
    kernels = (ROOT / "model/ops/cuda/KERNELS.md").read_text()
    code, page = script("gpu_hour", "--summary", workshop / "out")
    check(code == 0, page)
    check(all(re.search(rf"^{stage} +\d+ s: ", page, re.M) for stage in STAGES), page)
    check("Failed or missing:\n  nothing" in page and "\nNext:\n" in page, page)
    # Every kernel has a benchmark, and a copy of the file its time: these shapes are the emulator's.
    lines = (workshop / "out/KERNELS.md").read_text().splitlines()
    rows = [row for _, row in gpu_summary.tables(lines)]
    check(len(rows) > 40, rows)
    for kernel in rows:
        check(re.fullmatch(r"[\d.]+(e\+\d+)? (us|ms)", kernel["measured, an emulator"]), kernel)
    check((ROOT / "model/ops/cuda/KERNELS.md").read_text() == kernels)


@fact
def a_kernel_that_no_row_has_gets_one_from_its_benchmark(workshop):
    source = workshop / "KERNELS.md"
    source.write_text("# Work\n\n| kernel | MB | GFLOP | H100 | A100 | measured | notes |\n|---|---|---|---|---|---|---|\n"
                      "| add | 201 | 0.03 | 60 us | 99 us | - | |\n\nThe rest.\n")
    rows = [{"name": f"stream/{name}", "measured": time, "unit": "us", "bytes": 3e9, "flops": 1.7e9}
            for name, time in (("add", 70.0), ("adamw", 950.0))]
    record = {"small": False, "device": "a card", "commands": [{"rows": rows}]}
    gpu_summary.fill({"streams": record}, source, workshop.folder)
    said = source.read_text()
    check("| add | 201 | 0.03 | 60 us | 99 us | 70 us | |\n"
          "| adamw | 3000 | 1.7 | 896 us | 1471 us | 950 us | - |\n\nThe rest." in said, said)


@fact
def a_stage_that_fails_or_hangs_does_not_stop_the_others(workshop):
    folder, build = workshop / "programs", build_folder(workshop)
    for place in PLACES:
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).symlink_to(build / place)
    bench = folder / PLACES[2]
    bench.unlink()
    bench.write_text("#!/bin/sh\n"
                     'case "$*" in *product/*) sleep 1000 ;; *attention/*) echo broken >&2; exit 3 ;; esac\n'
                     f'exec {build / PLACES[2]} "$@"\n')
    bench.chmod(0o755)
    out = workshop / "out"
    code, said = script("gpu_hour", "--output", out, "--stages", "doctor,products:2,attention,streams", folder)
    check(code == 1, said)
    check(set(statuses(out, "products").values()) == {"timed out", "not run"}, said)
    check(set(statuses(out, "attention").values()) == {"failed"}, said)
    after = statuses(out, "streams")
    check(after["stream"] == "ok" and after.get("calibrate") in ("ok", "skipped"), said)
    code, page = script("gpu_hour", "--summary", out)
    check(code == 1, page)
    for words in ("products, square: timed out", "attention, own: failed: exit code 3: broken", "verify: not run"):
        check(words in page, words, "is not in", page)


@fact
def only_commands_of_the_given_names_run(workshop):
    out = workshop / "out"
    code, said = script("gpu_hour", "--output", out, "--stages", "products:60", "--only", "^experts$",
                        build_folder(workshop))
    check(code == 0 and statuses(out, "products") == {"experts": "ok"}, said)
    code, said = script("gpu_hour", "--only", "[", build_folder(workshop))
    check(code == 2 and '"[" is not a regular expression' in said, said)


@fact
def libraries_are_found_in_any_environment_or_named_in_one_line(workshop):
    if not shutil.which("cc"):
        raise Skip("there is no C compiler")
    there = workshop / "venv/lib/python3.11/site-packages/nvidia/cu13/lib"
    there.mkdir(parents=True)
    (workshop / "library.c").write_text("int answer(void) { return 42; }")
    (workshop / "program.c").write_text("int answer(void); int main(void) { return answer(); }")
    name = "libcublasLt.so.99"
    subprocess.run(["cc", "-shared", f"-Wl,-soname,{name}", "-o", there / name, workshop / "library.c"], check=True)
    for program in ("trireme", "on_cuda_test", "cuda_bench"):
        subprocess.run(["cc", "-o", workshop / program, workshop / "program.c", there / name], check=True)
    code, said = script("gpu_check", "--dry-run", workshop.folder, env={"VIRTUAL_ENV": str(workshop / "venv")})
    check(code == 0 and str(there / name) in said and "libraries, all found" in said, said)
    os.environ.pop("VIRTUAL_ENV", None)
    gpu_machine.SEARCH_SECONDS = 0  # the walk over this machine's folders
    programs = gpu_machine.Programs(workshop.folder)
    check(not programs.find_libraries() and programs.missing == [name], programs.missing)
    check(f"{name} (PyPI: nvidia-cublas)" in programs.why_not() and "\n" not in programs.why_not(), programs.why_not())


if __name__ == "__main__":
    main()
