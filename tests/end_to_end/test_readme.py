#!/usr/bin/python3
"""The command blocks of the READMEs, to the letter and in their order, in a scratch copy of what a reader
has when he comes to them, and the commands in the configs' comments; their links and inline commands."""
import itertools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

from checks import ROOT, TIMEOUT, Skip, check, note
from facts import fact, main
from workshop import MPI

# The README's folder for what the reader makes, which here is in the scratch folder.
TOUR = "/tmp/tour"
# Of these blocks each command is for a run of its own.
ALTERNATIVES = ("Many ranks", "Slurm and restarts")
# They build and test everything, this test included; all is made as if the first had run.
NOT_RUN = ("scripts/quickstart", "scripts/test")

# Slurm is another test's; here the commands are to be ones that it would take.
SRUN = """#!/bin/bash
[ "$1" = --mpi=pmix ] || { echo "srun: without --mpi=pmix every rank is alone" >&2; exit 1; }
exec mpirun -n 4 "${@:2}"
"""
SBATCH = """#!/bin/bash
grep -q '^#SBATCH --nodes=' "$1" && exec bash -n "$1"
"""

READMES = [ROOT / "README.md", *sorted(ROOT.glob("*/README.md")), ROOT / "configs/REFERENCE.md",
           ROOT / "scripts/speed/RESULTS.md"]


def blocks(text):
    """(heading, commands) of each block, with the lines of a command joined."""
    heading, found, inside = "", [], False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside
            if inside:
                found.append((heading, []))
        elif inside:
            commands = found[-1][1]
            if commands and commands[-1].endswith("\\"):
                commands[-1] += "\n" + line
            elif line and not line.startswith("#"):
                commands.append(line)
        elif line.startswith("#"):
            heading = line.lstrip("# ")
    return found


def checkout(workshop):
    """The source folder as the quickstart leaves it, with texts of another kind, and what the README
    calls the reader's own."""
    if not shutil.which("mpirun"):
        raise Skip("mpirun is not installed")
    home = workshop / "checkout"
    texts = home / "quickstart/text/train"
    texts.mkdir(parents=True)
    (home / "build/cpu").mkdir(parents=True)
    (home / "build/cpu/trireme").symlink_to(workshop.trireme)
    shutil.copytree(ROOT / "configs", home / "configs")
    # The tour's commands run to the letter, over a quarter of the tokens a step.
    quickstart = home / "configs/quickstart.toml"
    text, count = re.subn(r"batch_size = 4\b", "batch_size = 1", quickstart.read_text())
    check(count == 2, "quickstart.toml has other batch sizes")
    quickstart.write_text(text)
    shutil.copy(ROOT / "README.md", home)  # configs/tiny.toml tokenizes it
    sources = sorted(path for folder in ("model", "data", "checkpoint", "trainer")
                     for path in (ROOT / folder).rglob("*.cpp"))
    for source in sources:
        (texts / f"{'-'.join(source.relative_to(ROOT).parts)}.txt").write_text(source.read_text())
    for name, text in (("srun", SRUN), ("sbatch", SBATCH)):
        tool = workshop / "bin" / name
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(text)
        tool.chmod(0o755)
    at = ["tokenize", "--output"]
    made = home / "quickstart"
    workshop.run(*at, made / "vocabulary.model", "--train-sentencepiece", 4096, texts).done()
    for part in ("train", "validation"):
        workshop.run(*at, made / part, "--tokenizer", made / "vocabulary.model",
                     *sorted(texts.iterdir())[:40]).done()
    (home / "hosts").write_text("localhost slots=2\n")
    (home / "hellaswag.jsonl").write_text(json.dumps(
        {"ctx": "The function returns", "endings": ["a number", "an oar"], "label": 0}) + "\n")
    own = workshop.run("config", "show", home / "configs/quickstart.toml",
                       f"--job.dump_folder={home / 'run'}", "--job.threads=1",
                       "--training.local_batch_size=1", "--training.global_batch_size=8",
                       "--training.steps=4", "--lr_scheduler.warmup_steps=1").done().out
    (home / "run.toml").write_text(own)
    return home


def tried(workshop, home, commands):
    """By one shell, which tells each command before it runs it."""
    script = "\n".join(["set -euo pipefail", *(
        f"echo {shlex.quote('>> ' + command)} >&2\n{command}" for command in commands)])
    env = {**workshop.env, **MPI, "PATH": f"{workshop / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script.replace(TOUR, str(workshop / "tour"))], cwd=home,
                          env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=10 * TIMEOUT, check=False)
    check(done.returncode == 0, f"exit {done.returncode}:", done.stdout[-2000:], done.stderr[-4000:])


@fact
def every_command_of_the_readmes_works(workshop):
    home = checkout(workshop)
    first = "export PATH=$PWD/build/cpu:$PATH"
    found = [block for readme in READMES for block in blocks(readme.read_text())]
    check(any(commands[0].startswith(first) for _, commands in found), "no block has", first)
    tracked = {path: path.stat().st_mtime_ns for path in home.rglob("*")}
    count = 0
    for heading, commands in found:
        if all(command.startswith(NOT_RUN) for command in commands):
            for command in commands:
                workshop_tool = ROOT / command.split()[0]
                check(os.access(workshop_tool, os.X_OK), workshop_tool, "is not there")
            continue
        if heading in ALTERNATIVES:
            between = "rm -rf run"
            commands = [part for command in commands for part in (between, command)]
        tried(workshop, home, [first, *commands])
        count += len(commands)
    check(count > 25, "only", count, "commands")
    for name in ("train.bin", "run/report.html", "model/config.json", "imported/checkpoints"):
        check((workshop / "tour" / name).exists(), name, "is not there")
    stray = {path.relative_to(home).parts[0] for path in home.rglob("*") if path not in tracked}
    check(stray <= {"run", "run.sbatch", "plan.html", "best.toml"}, "in the source folder:", stray)
    note(f"{count} commands of {len(found)} blocks")


def spans(readme):
    """Inline code, outside of blocks; of the table of other trainers' keys the column with ours."""
    text = re.sub(r"```.*?```", "", readme.read_text(), flags=re.S)
    if readme == ROOT / "configs/README.md":
        text = re.sub(r"^(\|[^|]*\|).*", r"\1", text, flags=re.M)
    return re.findall(r"`([^`\n]+)`", text)


@fact
def what_the_readmes_name_exists(workshop):
    """Linked files, commands with their options, scripts and config keys in the text."""
    check(len((ROOT / "README.md").read_text().splitlines()) <= 200, "the front page is too long")
    keys = set(re.findall(r"^(\w+\.\w+) ", workshop.run("config", "keys").done().out, re.M))
    links = commands = named = 0
    for readme in READMES:
        for link in re.findall(r"\]\(([^)#]+)", readme.read_text()):
            links += 1
            check((readme.parent / link).exists(), readme, "links to", link)
        for span in spans(readme):
            words = span.split()
            if words[0] == "trireme" and len(words) > 1 and not words[1].startswith("-"):
                commands += 1
                named_so = itertools.takewhile(re.compile("[a-z][a-z-]*$").match, words[1:])
                told = workshop.run(*named_so, "--help").done().out
                for option in re.findall(r"--[a-z-]+", span):
                    check(option in told, readme, "has", span, "of which --help tells only", told)
            elif words[0].startswith("scripts/"):
                commands += 1
                check((ROOT / words[0]).exists(), readme, "names", words[0])
            elif re.fullmatch(r"(" + "|".join({key.split(".")[0] for key in keys}) + r")\.\w+", words[0]) \
                    and words[0] != "metrics.jsonl":
                named += 1
                check(words[0] in keys, readme, "names the key", words[0])
    check(links > 30 and commands > 30 and named > 40, links, commands, named)
    note(f"{links} links, {commands} commands, {named} keys")


@fact
def what_a_config_says_of_itself_works(workshop):
    """A comment's command, then the config it stands in."""
    home = checkout(workshop)
    commands = ["export PATH=$PWD/build/cpu:$PATH"]
    for config in sorted((home / "configs").glob("*.toml")):
        said = re.findall(r"^#   (trireme .*)$", config.read_text(), re.M)
        if said:
            commands += [*said, f"trireme train {config.relative_to(home)} --training.steps=6"]
    check(len(commands) > 2, commands)
    tried(workshop, home, commands)
    ignored = pathlib.Path(ROOT / ".gitignore").read_text().splitlines()
    for path in home.iterdir():
        known = (ROOT / path.name).exists() or f"/{path.name}/" in ignored
        check(known or path.name in ("run.toml", "hosts", "hellaswag.jsonl", "build"), path.name)


@fact
def an_install_wants_nothing_built_but_the_program(workshop):
    build = workshop.trireme.parent
    if not (build / "build.ninja").exists() or not shutil.which("ninja"):
        raise Skip("not a build folder of ninja's")
    made = subprocess.run(["ninja", "-C", build, "-t", "commands", workshop.trireme.name],
                          capture_output=True, text=True, check=True).stdout
    for told in ("trireme.1", "trireme.fish", "_trireme"):
        check(f"told/{told}" in made, "the program's target does not make", told)
    prefix = workshop / "prefix"
    done = subprocess.run(["cmake", "--install", build, "--prefix", prefix], capture_output=True,
                          text=True, check=False)
    check(done.returncode == 0, done.stdout[-1000:], done.stderr[-2000:])
    files = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()}
    for name in ("bin/trireme", "share/man/man1/trireme.1", "share/zsh/site-functions/_trireme"):
        check(name in files, name, "is not among", files)
        check((prefix / name).stat().st_size > 0, name, "is empty")


if __name__ == "__main__":
    main()
