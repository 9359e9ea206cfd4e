"""What every check needs: a place of its own, the scripted model, a server, and clear words when it fails.

A check gets a `Place`: a temporary directory with a home for the server, a workspace in git, and
`codicil mock-model` running. Everything that a place has started ends with it, by its own process id.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import frames

HERE = pathlib.Path(__file__).resolve().parent.parent
PATIENCE = 60


class Failed(AssertionError):
    """What a client saw is not what it should have seen."""


class Skipped(Exception):
    """The check cannot be made here; the text says what is missing."""


def expect(condition, what):
    if not condition:
        raise Failed(what)


def need(program):
    if shutil.which(program) is None:
        raise Skipped(f"{program} is not installed")


def until(what, condition, patience=PATIENCE):
    """Polls until the condition gives something, and gives it back."""
    end = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed(f"waited {patience} s for {what}")
        time.sleep(0.05)


class Place:
    """One check's surroundings. `announced` is the version that the server announces, if not its own choice. `is_recorded` says that every message
    between clients and the server is written down; `codicil` is then a pass-through in front of `binary`."""

    def __init__(self, codicil, cache, announced=None, is_recorded=False):
        self.codicil, self.cache, self.announced = str(codicil), pathlib.Path(cache), announced
        self.binary, self.is_recorded = str(codicil), is_recorded
        self.processes, self.proxies = [], []
        self.root = None

    def __enter__(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="codicil-interop-"))
        self.home, self.work, self.user = self.root / "home", self.root / "work", self.root / "user"
        for directory in (self.home, self.work, self.user):
            directory.mkdir()
        self.model_log = self.root / "model.jsonl"
        self.server_log = self.root / "server.log"
        self.frames = self.root / "frames"
        if self.is_recorded:
            self.codicil = str(frames.recorded(self.binary, self.frames))
        (self.work / "greeting.txt").write_text("Helo, world!\n")
        self._git()
        try:
            self.model = self.start_model(HERE / "model.toml")
            self.use_model(self.model)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind, _error, _trace):
        for process in reversed(self.processes):
            end(process)
        for proxy in self.proxies:
            proxy.close()
        if kind is not None and kind is not Skipped and os.environ.get("CODICIL_INTEROP_KEEP"):
            print(f"      left for you to look at: {self.root}")
        else:
            shutil.rmtree(self.root, ignore_errors=True)

    # -- what clients are given

    def environment(self, **more):
        """The environment of a client that starts the server itself."""
        kept = {key: value for key, value in os.environ.items()
                if not key.startswith(("CODEX", "CODICIL", "OPENAI", "TMUX"))}
        announced = {"CODICIL_ANNOUNCE_VERSION": self.announced} if self.announced else {}
        return {**kept, **announced, "HOME": str(self.user), "CODEX_HOME": str(self.home),
                "CODICIL_HOME": str(self.home), "CODICIL": self.codicil,
                "WORK": str(self.work), "ROOT": str(self.root), "CI": "1", **more}

    def as_codex(self):
        """A directory for PATH in which the server is called `codex`."""
        directory = self.root / "bin"
        directory.mkdir(exist_ok=True)
        link = directory / "codex"
        if not link.exists():
            link.symlink_to(self.codicil)
        return directory

    def serve(self):
        """A server that listens on a websocket; gives its address."""
        port = self.free_port()
        log = open(self.server_log, "ab")
        self.start([self.binary, "app-server", "--listen", f"ws://127.0.0.1:{port}"], cwd=self.work, stderr=log,
                   stdout=log, stdin=subprocess.DEVNULL, env=self.environment())
        until("the server to listen", lambda: listens(port))
        if not self.is_recorded:
            return f"ws://127.0.0.1:{port}"
        self.proxies.append(frames.Proxy(port, self.frames))
        return self.proxies[-1].address

    def start_model(self, script):
        """A model server that follows a script; gives its address."""
        command = [self.binary, "mock-model", "--script", script, "--log", self.model_log]
        process = self.start([str(part) for part in command], stdout=subprocess.PIPE, text=True)
        address = process.stdout.readline().strip()
        expect(address.startswith("http://"), "the model server did not start")
        return address

    def free_port(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return probe.getsockname()[1]

    def start(self, command, **options):
        process = subprocess.Popen(command, **options)
        self.processes.append(process)
        return process

    def run(self, command, timeout=180, **more):
        """Runs a client to its end and gives what it printed; its failure is the check's."""
        done = subprocess.run([str(part) for part in command], cwd=self.work, env=self.environment(**more),
                              capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-40:])
            raise Failed(f"exit code {done.returncode}:\n{tail}")
        return done.stdout

    def use_model(self, base_url, wire_api="responses", model="mock-model", stream_max_retries=0, more="", provider=""):
        """Writes the server's configuration: this model of this server. `more` are further lines of it, `provider`
        of the provider's table."""
        work = json.dumps(str(self.work))
        (self.home / "config.toml").write_text(
            f'model = "{model}"\nmodel_provider = "mock"\n{more}\n\n'
            f'[model_providers.mock]\nname = "mock"\nbase_url = "{base_url}"\nwire_api = "{wire_api}"\n'
            f'request_max_retries = 0\nstream_max_retries = {stream_max_retries}\nsupports_websockets = false\n'
            f'{provider}\n\n'
            f'[projects.{work}]\ntrust_level = "trusted"\n')

    # -- what was seen

    def model_requests(self):
        """The bodies that the model was sent, oldest first."""
        if not self.model_log.exists():
            return []
        with open(self.model_log) as log:
            return [json.loads(line)["body"] for line in log if line.endswith("\n")]

    def thread_records(self):
        """The files of all threads, as one text."""
        files = [path for path in self.home.rglob("*.jsonl") if "sessions" in str(path) or "threads" in str(path)]
        return "".join(path.read_text(errors="replace") for path in files)

    def thread_name(self):
        """The name that a thread was given last."""
        def found():
            with open(self.frames_of("thread/name/set")) as log:
                named = [json.loads(line)["message"] for line in log if '"thread/name/set"' in line]
            return named[-1]["params"]["name"]
        return until("a thread with a name", lambda: self.frames_of("thread/name/set") and found())

    def frames_of(self, method):
        """The recorded connection that has used a method."""
        logs = [path for path in self.frames.glob("*.jsonl") if f'"{method}"' in path.read_text()]
        return logs[0] if logs else None

    def greeting(self):
        return (self.work / "greeting.txt").read_text()

    def check_frames(self, python):
        """Fails if the schema does not allow a message that the server has sent."""
        checked, violations = frames.check(self, python)
        expect(not violations, "the schema does not allow:\n" + "\n".join(violations[:30]))
        expect(checked, "no message was recorded")
        return checked

    # -- inside

    def _git(self):
        run = lambda *words: subprocess.run(["git", *words], cwd=self.work, check=True, capture_output=True)
        need("git")
        run("init", "-q")
        run("add", "-A")
        run("-c", "user.name=Me", "-c", "user.email=me@example.com", "commit", "-qm", "first")


def listens(port):
    with contextlib.closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def end(process):
    """Ends one process that was started here: asked first, then made to."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout:
        process.stdout.close()
