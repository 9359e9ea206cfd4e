"""A program in a terminal of its own, driven as a person would: keys in, what is on the screen out."""
import os
import shlex
import subprocess
import time

from harness import Failed, PATIENCE, need, until


class Screen:
    """A tmux server with one window. It ends with the `with` block, and the program with it."""

    def __init__(self, name, command, cwd, environment):
        need("tmux")
        self.socket = f"codicil-interop-{os.getpid()}-{name}"
        self.command, self.cwd, self.environment = command, cwd, environment

    def __enter__(self):
        line = " ".join(shlex.quote(str(part)) for part in self.command)
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "50", "-c", str(self.cwd),
                   f"{line}; echo; echo PROGRAM-ENDED; exec sleep 600")
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-L", self.socket, "kill-server"], capture_output=True)

    def text(self):
        """The screen and what has scrolled off it."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-500")

    def wait(self, text, patience=PATIENCE):
        """Waits until the text is to be seen."""
        end = time.monotonic() + patience
        while text not in self.text():
            if "PROGRAM-ENDED" in self.text() and text != "PROGRAM-ENDED":
                raise Failed(f"the program ended before {text!r} was to be seen:\n{self._shown()}")
            if time.monotonic() > end:
                raise Failed(f"waited {patience} s for {text!r} on the screen:\n{self._shown()}")
            time.sleep(0.1)

    def gone(self, text):
        """Waits until the text is no longer to be seen. What follows Escape too soon counts as part of it."""
        until(f"{text!r} to leave the screen", lambda: text not in self._tmux("capture-pane", "-p"))

    def keys(self, *names):
        self._tmux("send-keys", *names)

    def settle(self):
        """Waits until the screen has stayed the same for a moment."""
        before = None
        while before != (before := self.text()):
            time.sleep(1)

    def say(self, text):
        """Types a line and sends it. Text that comes at once counts as pasted, and Enter as part of it."""
        self._tmux("send-keys", "-l", text)
        self.wait(text)
        time.sleep(0.5)
        self.keys("Enter")

    def _shown(self):
        return "\n".join(f"    | {line}" for line in self.text().splitlines() if line.strip())

    def _tmux(self, *words):
        done = subprocess.run(["tmux", "-L", self.socket, *words], capture_output=True, text=True,
                              env=self.environment)
        if done.returncode != 0:
            raise Failed(f"tmux {words[0]}: {done.stderr.strip()}")
        return done.stdout
