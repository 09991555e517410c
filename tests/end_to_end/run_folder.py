"""Readers of what a run leaves in its folder."""
import hashlib
import json
import pathlib

from checks import check

# Of a metrics line, what must not depend on when and how often the run was interrupted.
DETERMINISTIC = ("step", "tokens", "loss", "grad_norm", "lr", "validation_loss",
                 "validation_bits_per_byte")


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
