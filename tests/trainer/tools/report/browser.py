"""A headless Chromium, spoken to over its debugging pipe: JSON messages that end in a zero byte."""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

LIMIT = 600  # seconds for an answer, which only end what hangs
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def find_browser():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    def __init__(self, program, width=1280, height=900):
        self.folder = tempfile.TemporaryDirectory(prefix="trireme-browser-")
        ours, theirs = os.pipe(), os.pipe()
        # Descriptors 3 and 4 are where it listens and answers.
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{ours[0]} 4>&{theirs[1]}', "browser", program,
             "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
             f"--user-data-dir={self.folder.name}", f"--window-size={width},{height}",
             "--remote-debugging-pipe"],
            pass_fds=(ours[0], theirs[1]), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        os.close(ours[0])
        os.close(theirs[1])
        self.write, self.read = ours[1], theirs[0]
        self.buffer, self.count, self.session = b"", 0, None
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page", "Network"):
            self.call(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.write)
        os.close(self.read)
        deadline = time.monotonic() + LIMIT  # its children may still write there
        while os.path.exists(self.folder.name) and time.monotonic() < deadline:
            shutil.rmtree(self.folder.name, ignore_errors=True)
            time.sleep(0.01)

    def receive(self, deadline):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read], [], [], max(0, deadline - time.monotonic()))
            part = os.read(self.read, 1 << 20) if ready else b""
            assert part, f"the browser does not answer (exit code {self.process.poll()})"
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.count += 1
        request = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.write, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + LIMIT
        while True:
            message = self.receive(deadline)
            if message.get("id") == self.count:
                assert "error" not in message, (method, message)
                return message["result"]
            self.events.append(message)

    def open(self, path):
        self.events.clear()
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        deadline = time.monotonic() + LIMIT
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive(deadline))
        # Curves are drawn before the second frame.
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, script):
        """The value of a JavaScript expression, awaited."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True,
                           returnByValue=True)
        assert "exceptionDetails" not in answer, (script, answer)
        return answer["result"].get("value")

    def mouse(self, kind, x, y):
        button = {"button": "left", "clickCount": 1} if kind != "mouseMoved" else {}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def complaints(self):
        """What the page's console shows of errors, and what it asked of any network."""
        found = []
        for event in self.events:
            method, what = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(what["exceptionDetails"])
            elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning"):
                found.append(what)
            elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
                found.append(what["entry"])
            elif method == "Network.requestWillBeSent":
                url = what["request"]["url"]
                if not url.startswith(("file:", "data:")):
                    found.append(url)
        return found

    def screenshot(self, path):
        image = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(image))
