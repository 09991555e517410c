"""Reads a report page with Python's HTML parser: every tag closed in order, nothing
loaded from anywhere, no script but our own, and data that parses and fits together."""
import html.parser
import json
import pathlib
import re
import sys

VOID = {"meta", "link", "input", "br", "img"}
LOADING = {"img", "iframe", "object", "embed", "video", "audio", "source", "base", "form"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open = []
        self.scripts = []
        self.ids = set()
        self.text = []
        self.title = ""

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        assert tag not in LOADING, f"<{tag}> loads something"
        for name, value in attributes:
            assert not name.startswith("on"), f"{tag} {name}={value}"
            if name in ("href", "src"):
                assert value == "data:,", f"{tag} {name}={value}"
        if "id" in values:
            assert values["id"] not in self.ids, values["id"]
            self.ids.add(values["id"])
        if tag == "script":
            self.scripts.append([values, ""])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        where = self.open[-1] if self.open else ""
        if where == "script":
            self.scripts[-1][1] += data
        elif where == "title":
            self.title += data
        elif where != "style":
            self.text.append(data)


raw = pathlib.Path(sys.argv[1]).read_bytes()
text = raw.decode("utf-8")  # strict
assert text.startswith("<!DOCTYPE html>")
assert not re.search(r"(https?:)?//[a-z0-9]", re.sub(r"(?m)^\s*//.*$|  // .*$", "", text)), "an address"
assert "@import" not in text and "url(" not in text
page = Page()
page.feed(text)
page.close()
assert page.open == [], page.open
assert len(page.scripts) == 2, [values for values, _ in page.scripts]
(data_values, data), (code_values, code) = page.scripts
assert data_values == {"type": "application/json", "id": "run-data"} and code_values == {}
assert "evil" not in code


def no_constant(name):
    raise AssertionError(name)


run = json.loads(data, parse_constant=no_constant)
for used in re.findall(r"getElementById\('([^']+)'\)", code):
    assert used in page.ids, used
for curve in run["curves"]:
    for series in curve["series"]:
        assert len(series["x"]) == len(series["y"]) == len(series["mean"]) <= 2000
        assert series["x"] == sorted(set(series["x"]))
        assert run["first_step"] <= series["x"][0] and series["x"][-1] <= run["last_step"]
        for values in (series["y"], series["mean"]):
            assert all(value is None or abs(value) < 1e308 for value in values)
shown = "".join(page.text)
titles = [curve["title"] for curve in run["curves"]]
assert all(0 <= mark["run"] < len(run["runs"]) for mark in run["marks"])
if sys.argv[2] == "empty":
    assert titles == [], titles
elif sys.argv[2] == "several":
    assert len(run["runs"]) == 3 and page.title == "Several runs: training report", page.title
    assert [series["run"] for series in run["curves"][0]["series"]] == [0, 1, 2]
    assert "<img src=x onerror=evil()>" in shown and "none" in shown
else:
    assert titles[:1] == ["Loss"] and "</script><b>" in titles, titles
    (loss,) = [s for s in run["curves"][0]["series"] if s["name"] == "training"]
    assert loss["y"][loss["x"].index(7)] is None
    assert page.title.startswith("</title><script>evil()</script>"), page.title
    assert "<img src=x onerror=evil()>" in shown
    assert "{{script}}" in shown
    assert "ends in the middle of a line (line 5001)" in shown
    assert "</p><script>evil()</script> # no comment" in shown
print(len(raw), "bytes,", len(titles), "charts")
