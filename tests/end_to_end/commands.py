"""Commands that have ended, and those that run."""
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from checks import TIMEOUT, check, note, pause


class Result:
    """A command that has ended."""

    def __init__(self, words, code, out, err):
        self.words, self.code, self.out, self.err = words, code, out, err

    def done(self):
        check(self.code == 0, f"exit {self.code}:", self)
        return self

    def refused(self, code, *words):
        """It ended with `code` and one message that has all `words`."""
        errors = self.err.count("trireme: error: ")
        message = self.err.partition("trireme: error: ")[2].strip()
        note(f"exit {self.code}: {message}")
        check(self.code == code, f"exit {self.code} instead of {code}:", self)
        check(errors == 1, f"{errors} error messages:", self)
        for word in words:
            check(str(word) in message, f"the message lacks {str(word)!r}:", self)
        return message

    def __str__(self):
        return f"{' '.join(map(str, self.words))}\n{self.out[-2000:]}{self.err[-4000:]}"


def has_pending(process, number):
    """Whether the process has yet to take that signal."""
    try:
        text = pathlib.Path(f"/proc/{process}/status").read_text()
    except OSError:  # it has ended
        return False
    waiting = [int(text.partition(f"\n{name}:")[2].split()[0], 16) for name in ("SigPnd", "ShdPnd")]
    return any(signals >> number - 1 & 1 for signals in waiting)


class Process:
    """A command that runs; ended with the block."""

    def __init__(self, words, folder, env):
        self.words = words
        self.log = tempfile.TemporaryFile()
        self.popen = subprocess.Popen(words, cwd=folder, env=env, stdin=subprocess.DEVNULL,
                                      stdout=self.log, stderr=self.log)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.running():
            self.popen.kill()
            self.popen.wait()
        self.log.close()

    def running(self):
        return self.popen.poll() is None

    def send(self, number):
        self.popen.send_signal(number)

    def state(self):
        """As /proc has it: R, S, D, T for stopped, Z for ended, ..."""
        text = pathlib.Path(f"/proc/{self.popen.pid}/stat").read_text()
        return text.rpartition(")")[2].split()[0]

    def wait_to_stand(self, token, what):
        """Until it has made the file and stopped itself."""
        check(self.wait_for(lambda: token.exists() and self.state() == "T", what),
              f"it ended before {what}:", self.text())

    def go_on(self):
        """One that Workshop.start_held held, to where it stops again."""
        self.send(signal.SIGCONT)
        self.wait_to_stand(self.token, "it stopped again")

    def has_pending(self, number):
        return has_pending(self.popen.pid, number)

    def text(self):
        size = os.fstat(self.log.fileno()).st_size
        return os.pread(self.log.fileno(), size, 0).decode(errors="replace")

    def wait_for(self, holds, what, timeout=TIMEOUT):
        """Until holds() is true. Returns whether the process still runs by then."""
        begun = time.monotonic()
        while not holds():
            if not self.running():
                return False
            check(time.monotonic() < begun + timeout, f"waited {timeout:.0f} s for {what}:", self.text())
            pause(begun)
        return self.running()

    def wait(self, timeout=TIMEOUT):
        code = self.popen.wait(timeout)
        return Result(self.words, code, "", self.text())
