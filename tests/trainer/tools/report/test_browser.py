"""Opens reports in headless Chromium: no error, curves drawn, hover and zoom work, runs can be
hidden, and nothing is asked of a network. TRIREME [FOLDER]: leaves screenshots in FOLDER."""
import base64
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import zlib

from browser import Browser, find_browser

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
PICTURES = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
STEPS = 300


def write_run(folder, lr):
    """A run with a restart, a skipped step, checkpoints, validation and two ranks' traces."""
    folder.mkdir()
    lines, events = [], []

    def event(name, step, **more):
        seconds = 2 * step
        time = f"2026-03-01T12:{seconds // 60:02}:{seconds % 60:02}.000Z"
        events.append({"time": time, "event": name, "step": step, **more})

    plan = {"weights": 4 << 20, "gradients": 4 << 20, "optimizer": 8 << 20, "activations": 6 << 20,
            "workspace": 2 << 20}
    begin = {"model": "tiny", "parameters": 1 << 20, "ranks": 2, "device": "cpu",
             "total_steps": STEPS, "memory_plan_bytes": sum(plan.values()), "memory_plan": plan}
    event("start", 0, **begin)
    for step in range(1, STEPS + 1):
        loss = 2 + 4 * math.exp(-step * lr * 20) + 0.1 * math.sin(step * 1.7)
        line = {"step": step, "tokens": 512 * step, "loss": loss, "lr": lr * min(1, step / 20),
                "grad_norm": 1 + 0.3 * math.cos(step * 2.3), "step_seconds": 2.0,
                "tokens_per_second": 256 - (100 if step == 151 else 5 * math.sin(step)),
                "mfu": 0.41, "hfu": 0.43, "memory_peak_bytes": sum(plan.values()),
                "process_peak_bytes": 60 << 20}
        if step % 50 == 0:
            line |= {"validation_loss": loss + 0.1, "validation_bits_per_byte": (loss + 0.1) / 2.1}
            event("checkpoint", step, path="checkpoints", bytes=1 << 21, seconds=0.1)
        if step == 80:
            event("skip", step, reason="spike")
        if step == 150:
            event("failure", step, text="rank 1 is gone")
            event("resume", step, **begin)
        lines.append(line)
    event("sample", STEPS, prompt="Once upon", text=" a time there was a step.")
    event("stop", STEPS, reason="done", exit_code=0)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "events.jsonl").write_text("".join(json.dumps(one) + "\n" for one in events))
    (folder / "config.toml").write_text(
        f'[job]\ndump_folder = "{folder}"  # run.toml:2\nseed = 0  # default\n'
        f"[optimizer]\nlr = {lr}  # command line\n")
    for rank in range(2):
        spans = [("M", "process_name", "", 0, None, {"args": {"name": f"rank {rank}"}})]
        for step in range(3):
            start = 1e15 + step * 50_000
            for micro in range(4):
                at = start + 1000 + 4000 * rank + 9000 * micro
                spans.append(("X", f"{rank}F{micro}", "compute", at, 4000 + 300 * rank, {}))
                spans.append(("X", f"{rank}B{micro}", "compute", at + 4500, 4000, {}))
            spans.append(("X", "waits", "idle", start + 42000, 3000, {}))
            spans.append(("X", f"step {step + 1}", "step", start, 48_000, {}))
        trace = [{"ph": ph, "name": name, "cat": cat, "ts": ts, "pid": rank, "tid": rank, **more,
                  **({} if length is None else {"dur": length})}
                 for ph, name, cat, ts, length, more in spans]
        (folder / f"trace-{rank}.json").write_text(
            "[\n" + ",\n".join(json.dumps(one) for one in trace) + "\n]\n")


def report(output, *folders):
    subprocess.run([PROGRAM, "report", *folders, "--output", output], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return output


def center(browser, selector, part=0.5):
    box = browser.run(f"""(() => {{
      const one = document.querySelector('{selector}');
      one.scrollIntoView({{block: 'center'}});
      const box = one.getBoundingClientRect();
      return [box.left, box.top, box.width, box.height];
    }})()""")
    return box[0] + part * box[2], box[1] + 0.5 * box[3]


def legend(browser, selector):
    return browser.run(f"document.querySelector('{selector} .legend').textContent")


def a_run_is_drawn_and_read(browser, page):
    browser.open(page)
    titles = browser.run("[...document.querySelectorAll('#charts strong')].map((e) => e.textContent)")
    assert {"Loss", "Tokens per second", "FLOPs utilization", "Gradient norm", "Learning rate"} <= set(
        titles), titles
    points = browser.run("[...document.querySelectorAll('#charts .curve')]"
                         ".map((path) => (path.getAttribute('d').match(/[ML]/g) || []).length)")
    assert len(points) >= 10 and max(points) == STEPS and min(points) >= 2, points
    marks = browser.run("['failure', 'restart', 'spike', 'checkpoint'].map((kind) => document"
                        ".querySelectorAll('.chart:first-child .mark.' + kind).length)")
    assert marks == [1, 1, 1, 6], marks
    before = legend(browser, ".chart:first-child")
    assert "step" not in before, before
    x, y = center(browser, ".chart:first-child svg")
    browser.mouse("mouseMoved", x, y)
    during = legend(browser, ".chart:first-child")
    assert "step 1" in during and "training" in during and during != before, during
    # The other charts show the same step.
    assert "step 1" in legend(browser, ".chart:nth-child(2)")
    browser.mouse("mousePressed", x, y)
    browser.mouse("mouseMoved", x + 200, y)
    browser.mouse("mouseReleased", x + 200, y)
    assert browser.run("!document.getElementById('reset-zoom').hidden"), "a drag does not zoom"
    zoomed = browser.run("document.querySelector('#charts .curve').getAttribute('d')"
                         ".match(/[ML]/g).length")
    assert 2 < zoomed < STEPS / 2, zoomed
    browser.run("document.getElementById('reset-zoom').click()")
    bars = browser.run("document.querySelectorAll('.timeline rect:not(.zoom)').length")
    assert bars == 18, bars
    x, y = center(browser, ".timeline rect.forward")
    browser.mouse("mouseMoved", x, y)
    told = legend(browser, ".timeline")
    assert "rank 0: 0F0 (forward), 4.000 ms from 1.000 ms" in told, told
    text = browser.run("document.body.textContent")
    for part in ("Memory: planned and used", "optimizer", "slowest ranks", "rank 1 is gone",
                 "Config with the origin of each value", "command line"):
        assert part in text, part


def several_runs_are_laid_over_each_other(browser, page):
    browser.open(page)
    count = "document.querySelectorAll('.chart:first-child .curve').length"
    before = browser.run(count)
    browser.run("document.querySelector('#runs input').click()")
    after = browser.run(count)
    assert before > 0 and after * 2 == before, (before, after)
    browser.run("document.querySelector('#runs input').click()")
    tables = browser.run("[...document.querySelectorAll('table.runs')].map((e) => e.textContent)")
    assert "goodput" in tables[0] and "optimizer.lr" in tables[1], tables
    assert "job.seed" not in tables[1], tables


def headless(program, folder, page, *options):
    """What a plain run of the browser makes of the page; it waits for nothing but its loading."""
    subprocess.run([program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                    "--disable-dev-shm-usage", f"--user-data-dir={folder / 'profile'}", *options,
                    page.resolve().as_uri()], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def the_first_frame_and_the_print_have_the_curves(browser, program, folder, page):
    browser.open(page)
    boxes = browser.run("""[...document.querySelectorAll('#charts svg[role=img]')].map((svg) => {
      const box = svg.getBoundingClientRect();
      return [box.left, box.top + window.scrollY, box.width, box.height];
    })""")
    stroke = browser.run("getComputedStyle(document.querySelector('#charts .curve')).stroke")
    picture = folder / "first-frame.png"
    height = math.ceil(max(box[1] + box[3] for box in boxes)) + 100
    headless(program, folder, page, f"--window-size=1280,{height}", f"--screenshot={picture}")
    data = base64.b64encode(picture.read_bytes()).decode()
    counts = browser.run(f"""(async () => {{
      const image = new Image();
      image.src = 'data:image/png;base64,{data}';
      await image.decode();
      const canvas = document.createElement('canvas');
      [canvas.width, canvas.height] = [image.width, image.height];
      const context = canvas.getContext('2d');
      context.drawImage(image, 0, 0);
      const color = '{stroke}'.match(/[0-9]+/g).map(Number);
      return {json.dumps(boxes[:1])}.map(([x, y, width, height]) => {{
        const pixels = context.getImageData(x, y, width, height).data;
        let count = 0;
        for (let i = 0; i < pixels.length; i += 4) {{
          if (color.every((part, at) => Math.abs(part - pixels[i + at]) < 24)) ++count;
        }}
        return count;
      }});
    }})()""")
    print("pixels of the loss in the first frame:", counts)
    assert counts[0] > 300, counts
    printed = folder / "report.pdf"
    headless(program, folder, page, f"--print-to-pdf={printed}")
    lines = 0
    for part in printed.read_bytes().split(b"stream\n")[1:]:
        try:
            lines += zlib.decompressobj().decompress(part.lstrip(b"\r\n")).count(b" l\n")
        except zlib.error:
            continue
    print("lines in the print:", lines)
    assert lines > 10 * STEPS, lines


def main():
    program = find_browser()
    if not program:
        print("skipped: no Chromium is installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name, Browser(program) as browser:
        folder = pathlib.Path(name)
        write_run(folder / "first", 0.002)
        write_run(folder / "second", 0.003)
        pages = {"one": (folder / "first",), "two": (folder / "first", folder / "second")}
        for (page, folders), look in zip(pages.items(), (a_run_is_drawn_and_read,
                                                         several_runs_are_laid_over_each_other)):
            look(browser, report(folder / f"{page}.html", *folders))
            assert not browser.complaints(), browser.complaints()
            if page == "one":
                the_first_frame_and_the_print_have_the_curves(browser, program, folder,
                                                              folder / "one.html")
            if PICTURES:
                browser.mouse("mouseMoved", 640, 400)
                browser.screenshot(PICTURES / f"{page}.png")
    print("drawn, read and zoomed in", program)


main()
