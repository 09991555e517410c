"""Reads what --help prints of every command, and compares the man page, the completion that each
shell offers, the config reference and what 'cmake --install' puts down with it."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PROGRAM, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:])


def run(*words, code=0, **more):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, **more)
    assert result.returncode == code, (words, result.returncode, result.stdout, result.stderr)
    return result.stdout


class Command:
    """As its --help shows it."""

    def __init__(self, path):
        self.path = path
        self.text = run(PROGRAM, *path.split()[1:], "--help")
        self.takes_config = "\n  CONFIG " in self.text
        self.options, self.commands, self.choices = set(), [], {}
        section = ""
        for line in self.text.splitlines():
            if re.fullmatch(r"[A-Z]\w+:", line):
                section = line
            elif section == "Options:" and line.startswith("  -"):
                names = re.sub(r"\{\w+\}", "", re.match(r"  (-[^ ]+)", line)[1]).split(",")
                self.options.update(names)
                for choices in re.findall(r"\{([^}]+)\}", line):
                    self.choices[names[-1]] = choices.split(",")
            elif section == "Subcommands:" and re.match(r"  \w", line):
                self.commands.append(line.split()[0])


def all_commands(path="trireme"):
    command = Command(path)
    return [command] + [one for name in command.commands for one in all_commands(f"{path} {name}")]


COMMANDS = all_commands()
KEYS = re.findall(r"(?m)^([a-z_]+\.\w+) \(", run(PROGRAM, "config", "keys"))
assert len(COMMANDS) > 20 and len(KEYS) > 100, (len(COMMANDS), len(KEYS))
assert {"completion", "man", "train"} <= set(COMMANDS[0].commands)


def those_with_a_config_and_no_others_take_keys():
    for command in COMMANDS:
        if command.commands:
            continue
        words = command.path.split()[1:]
        result = subprocess.run([PROGRAM, *words, *["/nowhere"] * 3, "--job.seed=1"],
                                capture_output=True, text=True, check=False)
        if not command.takes_config:
            assert result.returncode == 2, (command.path, result)
        else:
            assert "takes no --job.seed" not in result.stderr, (command.path, result)


def exit_codes_stand_once_in_the_help():
    codes = re.findall(r"(?m)^ +(\d+)  \w", COMMANDS[0].text.partition("Exit codes")[2])
    assert codes == "0 1 2 3 4 5 6 7 75 93".split(), codes
    for command in COMMANDS[1:]:
        found = re.search(r"(?i)exit codes? \d|exits? with \d", command.text)
        assert not found, (command.path, found)
    notes, _, others = run(PROGRAM, "man").partition(".SH COMMANDS")
    assert "Exit codes" in notes and "Exit code" not in others.partition(".SH CONFIG KEYS")[0]


def the_man_page_has_every_command_option_and_key():
    page = run(PROGRAM, "man")
    if not shutil.which("groff"):
        print("skipped: groff")
        return
    shown = subprocess.run(["groff", "-man", "-ww", "-Tascii", "-P-cbou", "-rLL=200n"], input=page,
                           capture_output=True, text=True, check=True)
    assert not shown.stderr, shown.stderr
    parts = re.split(r"(?m)^   (trireme [a-z -]+)$", shown.stdout)
    sections = dict(zip(parts[1::2], parts[2::2]))
    assert list(sections) == [command.path for command in COMMANDS[1:]], list(sections)
    for command in COMMANDS[1:]:
        text = sections[command.path]
        for option in command.options:
            assert re.search(rf"(?m)^ .*(?<![\w-]){re.escape(option)}(?![\w-])", text), (
                command.path, option)
        assert ("[--section.key=value]" in text) == command.takes_config, command.path
    keys = shown.stdout.split("CONFIG KEYS")[1]
    assert re.findall(r"(?m)^ +([a-z_]+\.\w+)$", keys) == KEYS


def bash_words(script, line):
    """What bash offers for a command line that ends at the cursor, as it splits it."""
    words = [part for part in re.split(r"\s+|(=)", line) if part]
    if line[-1] in " ":
        words.append("")
    quoted = " ".join(f"'{word}'" for word in words)
    return run("bash", "-c", f"""source {script}
COMP_LINE='{line}' COMP_POINT={len(line)} COMP_WORDS=({quoted}) COMP_CWORD={len(words) - 1}
_trireme
printf '%s\\n' "${{COMPREPLY[@]}}" """).split()


def fish_words(script, line):
    found = run("fish", "--no-config", "-c", f"source {script}; complete -C '{line}'")
    return [entry.split("\t")[0] for entry in found.splitlines()]


def zsh_words(script, line):
    """The script's function in zsh, with what only works while somebody types replaced: matching
    is the shell's."""
    words = line.split(" ")
    typed = "" if "=" in words[-1] else words[-1]
    quoted = " ".join(f"'{word}'" for word in words)
    found = run("zsh", "-f", "-c", f"""compdef() {{ }}
source {script}
_describe() {{ local list; for list in "$@"; do case $list in
  (commands|options|keys) print -l -- "${{(@)${{(P)list}}%%:*}}" ;; esac; done }}
compadd() {{ print -l -- "${{(@P)2}}" }}
compset() {{ PREFIX=${{PREFIX#*=}} }}
_files() {{ }}
words=({quoted}) CURRENT={len(words)} PREFIX='{words[-1]}'
_trireme""").split()
    return [word for word in found if word.startswith(typed)]


def a_shell_offers_what_help_lists(shell, offered):
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "completion"
        script.write_text(run(PROGRAM, "completion", shell))
        run(shell, "-n", script)
        for command in COMMANDS:
            if command.commands:
                assert set(command.commands) <= set(offered(script, command.path + " ")), command.path
        # Options cost a start of the shell each: of every kind of command some.
        for path in ("trireme", "trireme train", "trireme config show", "trireme config keys",
                     "trireme slurm", "trireme tokenize"):
            (command,) = (one for one in COMMANDS if one.path == path)
            words = offered(script, path + " --")
            long_names = {name for name in command.options if name.startswith("--")}
            plain = {word for word in words if "." not in word}
            assert plain >= long_names and not {w for w in plain - long_names if w != "--"}, (
                path, plain ^ long_names)
            keys = sorted(word.strip("-=") for word in words if "." in word)
            assert keys == (sorted(KEYS) if command.takes_config else []), path
        (evaluating,) = (one for one in COMMANDS if one.path == "trireme eval")
        assert evaluating.choices["--device"] == ["auto", "cpu", "cuda"]
        assert set(offered(script, "trireme eval --device ")) == {"auto", "cpu", "cuda"}
        values = offered(script, "trireme train run.toml --lr_scheduler.decay_type=")
        allowed = re.search(r"lr_scheduler\.decay_type .*\n.*\n +allowed: (.+)", run(PROGRAM, "config", "keys"))[1]
        assert {word.split("=")[-1] for word in values} == set(allowed.split(", ")), values
        values = offered(script, "trireme train run.toml --job.reproducible=")
        assert {word.split("=")[-1] for word in values} == {"true", "false"}, values


def what_is_installed_is_where_man_and_the_shells_look():
    told = BUILD / "trainer" / "told"
    if len(list(told.glob("*"))) < 4:
        print("skipped: the program was not built here")
        return
    with tempfile.TemporaryDirectory() as folder:
        run("cmake", "--install", BUILD, "--prefix", folder)
        share = pathlib.Path(folder) / "share"
        assert (share / "man/man1/trireme.1").read_text() == run(PROGRAM, "man")
        for shell, path in (("bash", "bash-completion/completions/trireme"),
                            ("zsh", "zsh/site-functions/_trireme"),
                            ("fish", "fish/vendor_completions.d/trireme.fish")):
            assert (share / path).read_text() == run(PROGRAM, "completion", shell), path
        assert run(pathlib.Path(folder) / "bin/trireme", "--help") == COMMANDS[0].text


those_with_a_config_and_no_others_take_keys()
exit_codes_stand_once_in_the_help()
the_man_page_has_every_command_option_and_key()
for name, offers in (("bash", bash_words), ("zsh", zsh_words), ("fish", fish_words)):
    if shutil.which(name):
        a_shell_offers_what_help_lists(name, offers)
    else:
        print(f"skipped: {name}, which is not installed")
what_is_installed_is_where_man_and_the_shells_look()
print(len(COMMANDS), "commands and", len(KEYS), "keys, one voice")
