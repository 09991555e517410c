"""The page of scripts/gpu_hour --summary, and what it writes to KERNELS.md: times, and rows of new kernels."""

import json
import pathlib
import re
import statistics

HERE = pathlib.Path(__file__).resolve().parent
SLOW = 1.25  # times the expected time, or less than the expected rate by it
SHOWN = 8  # rows of a stage with many
# Attention rates that an H200 reached (KERNELS.md), shown next to the planner's times.
ESTIMATES = {
    "own/forward": "450 to 670 TFLOP/s", "own/backward": "280 to 370 TFLOP/s",
    "cuDNN/forward": "450 to 650 TFLOP/s", "cuDNN/backward": "230 to 330 TFLOP/s",
}
BANDWIDTHS = {"H100": 3.35e12, "A100": 2.04e12}  # of KERNELS.md's bounds, bytes a second
# The benchmarks of KERNELS.md's rows for attention; the others have the rows' names.
ATTENTION = {
    "attention/32 + 8 heads of 128/8192/own/forward": "attention",
    "attention/32 + 8 heads of 128/8192/own/backward": "attention_backward",
}


def show(folder, stages):
    """Prints the page; 1 if something failed or is missing."""
    folder = pathlib.Path(folder)
    records = {name: json.loads(path.read_text()) for name in stages if (path := folder / f"{name}.json").exists()}
    if not records:
        print(f"gpu_hour: no results in {folder}")
        return 1
    source = kernels_file()
    for record in records.values():
        for row in rows_of(record):
            complete(row, source, record["small"])
    print(page(records, stages, folder))
    written = fill(records, source, folder)
    (folder / "results.md").write_text(all_rows(records))
    print(f"All rows: {folder / 'results.md'}. Kernels' times: {written}")
    return 1 if troubles(records, stages, folder) else 0


def page(records, stages, folder):
    first = next(iter(records.values()))
    lines = [f"{first['device']}, {first['started']}: measured, and expected of {first['expected_of']}"
             + (" (small shapes: only whether it runs is telling)" if first["small"] else "")]
    for name in stages:
        lines.append("")
        if name not in records:
            lines.append(f"{name:<10} not run")
            continue
        record = records[name]
        counts = {}
        for command in record["commands"]:
            counts[command["status"]] = counts.get(command["status"], 0) + 1
        states = ", ".join(f"{count} {status}" for status, count in counts.items()) or "nothing ran"
        lines.append(f"{name:<10} {record['seconds']:.0f} s: {states}; {record['about']}")
        lines += stage_lines(list(rows_of(record)))
    problems = troubles(records, stages, folder)
    lines += ["", "Failed or missing:", *(problems or ["  nothing"]), "", "Next:", *advice(records, problems, stages)]
    return "\n".join(lines)


def stage_lines(rows):
    compared = sorted((row for row in rows if slowness(row)), key=slowness, reverse=True)
    others = [row for row in rows if not slowness(row)]
    lines = []
    if len(compared) > 2 * SHOWN:
        middle = statistics.median(map(slowness, compared))
        lines.append(f"  {len(compared)} rows, median {middle:.2f} times as slow as expected; the slowest:")
        compared = compared[:SHOWN]
    lines += [f"  {text_of(row)}" for row in compared + others[: 3 * SHOWN]]
    if len(others) > 3 * SHOWN:
        lines.append(f"  and {len(others) - 3 * SHOWN} more")
    return lines


def troubles(records, stages, folder):
    """Lines about what did not run well."""
    lines = [f"  {name}: not run" for name in stages if name not in records]
    for name, record in records.items():
        if "why" in record:
            lines.append(f"  {name}: {record['why']}")
        for command in record["commands"]:
            if command["status"] in ("failed", "timed out", "not run"):
                lines.append(f"  {name}, {command['name']}: {command['status']}: {command['why']}")
                bad = [row for row in command["rows"] if row["failed"]]
                lines += [f"    {row['name']}: {row['measured']}; {row['note'][:160]}" for row in bad[:5]]
    if any(": failed" in line or ": timed out" in line for line in lines):
        lines.append(f"  logs: {folder / 'logs'}")
    return lines


def advice(records, problems, stages):
    lines = []
    if any(": failed" in line or ": timed out" in line for line in problems):
        lines.append("  Repair what failed, above: a figure of a wrong kernel is worth nothing.")
    rest = {re.split("[,:]", line)[0].strip() for line in problems if ": not run" in line}
    again = [name for name in stages if name in rest]
    if again:
        lines.append(f"  Run the rest: gpu_hour --stages {','.join(again)}")
    if next(iter(records.values()))["small"]:
        return lines or ["  Small shapes say nothing about speed: run it on a GPU."]
    rows = [row for record in records.values() for row in rows_of(record) if slowness(row)]
    slow = sorted((row for row in rows if slowness(row) > SLOW), key=slowness, reverse=True)
    for row in slow[:SHOWN]:
        lines.append(f"  {row['name']}: {slowness(row):.2f} times as slow as expected")
    fast = sum(slowness(row) < 1 / SLOW for row in rows)
    if fast:
        lines.append(f"  {fast} rows are {SLOW} times as fast as expected: correct the planner's profile.")
    times = {row["name"]: row["measured"] for record in records.values() for row in rows_of(record)}
    for name, ours in times.items():
        theirs = times.get(name.replace("/own/", "/cuDNN/"))
        if name.startswith("attention/") and "/own/" in name and theirs:
            lines.append(f"  {name}: {ours / theirs:.2f} times cuDNN's time")
        match = re.fullmatch(r"(\S+) PyTorch, (.*)", name)
        trireme = match and times.get(f"{match[1]} bfloat16")
        if trireme:
            lines.append(f"  {match[1]}: {ours / trireme:.2f} times as fast as PyTorch with {match[2]}")
    return lines or ["  Nothing is slower than expected."]


def rows_of(record):
    for command in record["commands"]:
        yield from command["rows"]


def complete(row, source, small):
    """Adds the floor by KERNELS.md, which is the expectation of a memory-bound kernel, and estimates."""
    is_stream = row["name"].startswith("stream/") and row.get("bandwidth")
    found = kernel_row(source, kernel_of(row["name"])) if is_stream else None
    if found and found["H100"] != "-":  # not bound by latency
        if row["expected"]:
            row["note"] += f", planned {human(row['expected'], 'us')}"
        row["expected"] = float(found["MB"]) * 1e6 / row["bandwidth"] * 1e6
    estimate = next((text for key, text in ESTIMATES.items() if key in row["name"]), "")
    if estimate and not small:
        row["note"] += f", measured on an H200: {estimate}"


def slowness(row):
    """How many times as slow as expected; None where that says nothing."""
    measured, expected = row["measured"], row["expected"]
    if not expected or row["unit"] not in ("us", "ms", "s") or isinstance(measured, str):
        return None
    return measured / expected


def text_of(row):
    measured, expected = row["measured"], row["expected"]
    text = f"{row['name']}: {human(measured, row['unit'])}"
    if expected is not None:
        text += f" (expected {human(expected, row['unit'])})"
    return text + (f"; {row['note'].strip(', ')}" if row["note"] else "")


def human(value, unit):
    if isinstance(value, str) or value is None:
        return str(value)
    if unit == "us" and value >= 1000:
        value, unit = value / 1000, "ms"
    return f"{value:.4g} {unit}".strip()


def all_rows(records):
    lines = []
    for name, record in records.items():
        lines += [f"## {name}", "", "| what | measured | expected | times as slow | notes |", "|---|---|---|---|---|"]
        for row in rows_of(record):
            slow = slowness(row)
            expected = "" if row["expected"] is None else human(row["expected"], row["unit"])
            lines.append(f"| {row['name']} | {human(row['measured'], row['unit'])} | {expected} | "
                         f"{f'{slow:.2f}' if slow else ''} | {row['note'].strip(', ')} |")
        lines.append("")
    return "\n".join(lines)


# KERNELS.md


def kernels_file():
    places = (HERE / "KERNELS.md", HERE.parent / "model/ops/cuda/KERNELS.md")
    return next(path for path in places if path.exists())


def kernel_of(name):
    """The row of KERNELS.md that a benchmark measures, or ""."""
    return name.removeprefix("stream/") if name.startswith("stream/") else ATTENTION.get(name, "")


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables(lines):
    """(line number, {column: cell}) of each row of a table with a column "measured"."""
    header = None
    for number, line in enumerate(lines):
        if not line.startswith("|"):
            header = None
        elif header is None:
            header = cells(line)
        elif any(column.startswith("measured") for column in header) and not line.startswith("|---"):
            yield number, dict(zip(header, cells(line)))


def kernel_row(source, name):
    return next((row for _, row in tables(source.read_text().splitlines()) if row["kernel"] == name), None)


def new_row(header, name, row):
    """The row of a kernel that the table does not have, from its benchmark."""
    moved = row.get("bytes") or 0
    floor = {card: f"{moved / bandwidth * 1e6:.0f} us" for card, bandwidth in BANDWIDTHS.items()}
    known = {"kernel": name, "MB": f"{moved / 1e6:.0f}", "GFLOP": f"{(row.get('flops') or 0) / 1e9:.1f}", **floor}
    return "| " + " | ".join(known.get(column, "-") for column in header) + " |"


def with_new_rows(lines, times):
    """The lines, with a row at the end of the first table for each memory-bound kernel that no row has."""
    known = list(tables(lines))
    there = {row["kernel"] for _, row in known}
    end = next(number for number, _ in known if not lines[number + 1].startswith("|")) + 1
    new = [new_row(known[0][1], name, row) for name, row in times.items()
           if row["name"].startswith("stream/") and name not in there]
    return lines[:end] + new + lines[end:]


def fill(records, source, folder):
    """Writes the times into the column; returns the file's name."""
    first = next(iter(records.values()))
    times = {kernel_of(row["name"]): row for record in records.values() for row in rows_of(record)
             if row["unit"] == "us"}
    lines = with_new_rows(source.read_text().splitlines(), times)
    for number, old in list(tables(lines)):
        if (row := times.get(old["kernel"])) is not None:
            column = next(column for column in old if column.startswith("measured"))
            filled = {**old, column: human(row["measured"], "us")}
            lines[number] = ("| " + " | ".join(filled.values()) + " |").replace("|  |", "| |")
    heading = re.compile(r"^(\| kernel \|.*\| )measured[^|]*( \|)")
    lines = [heading.sub(rf"\g<1>measured, {first['device']}\g<2>", line) for line in lines]
    path = folder / "KERNELS.md" if first["small"] else source
    path.write_text("\n".join(lines) + "\n")
    return path
