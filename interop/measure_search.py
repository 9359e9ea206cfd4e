#!/usr/bin/env python3
"""Measures `thread/search` over many threads, with codicil and with codex, in the same way.

Each server runs one turn in a home of its own. Its file of that thread is then copied with other ids and other words, as
often as there are to be threads, and the server is started again. Measured is the time to the first page: of the first search
after the start, and later, when an index has had time to grow.

    interop/measure_search.py --codicil target/release/codicil --codex PATH/TO/codex
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import uuid

MARK = "TEMPLATE WORDS"
WORDS = [f"w{number:x}" for number in range(0x1000, 0x5000)]
CLIENT = {"clientInfo": {"name": "codex-tui", "title": "measure", "version": "0.166.0"},
          "capabilities": {"experimentalApi": True}}


class Server:
    """A server on its standard input and output."""

    def __init__(self, binary, root):
        environment = {**os.environ, "HOME": str(root), "CODEX_HOME": str(root / "home"), "CODICIL_HOME": str(root / "home")}
        self.process = subprocess.Popen([binary, "app-server"], cwd=root / "work", env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.last, self.seen = 0, set()
        self.call("initialize", CLIENT)
        self.send({"method": "initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def messages(self):
        for line in self.process.stdout:
            message = json.loads(line)
            self.seen.add(message.get("method"))
            yield message
        sys.exit("the server ended")

    def call(self, method, params):
        self.last += 1
        self.send({"id": self.last, "method": method, "params": params})
        for message in self.messages():
            if message.get("id") == self.last and "method" not in message:
                if "error" in message:
                    sys.exit(f"{method}: {message['error']}")
                return message["result"]

    def until(self, method):
        if method not in self.seen:
            next(message for message in self.messages() if message.get("method") == method)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def prepare(binary, model, root):
    """Makes a home with one thread; gives that thread."""
    for name in ("home", "work"):
        (root / name).mkdir(parents=True)
    (root / "home" / "config.toml").write_text(
        f'model = "gpt-5.5"\nmodel_provider = "mock"\n\n[model_providers.mock]\nname = "mock"\nbase_url = "{model}"\n'
        'wire_api = "responses"\nsupports_websockets = false\n')
    server = Server(binary, root)
    thread = server.call("thread/start", {"cwd": str(root / "work")})["thread"]
    server.call("turn/start", {"threadId": thread["id"], "input": [{"type": "text", "text": MARK}]})
    server.until("turn/completed")
    server.end()
    return thread


def fill(thread, count, size):
    """Copies the thread. One in a thousand copies has the word `seldom`."""
    path = pathlib.Path(thread["path"])
    text, choice = path.read_text(), random.Random(7)
    if MARK not in text or thread["id"] not in path.name:
        sys.exit(f"cannot copy {path}")
    parts = text.count(MARK)
    for number in range(count):
        new = str(uuid.UUID(int=(uuid.UUID(thread["id"]).int & ~0xFFFFFFFF) | (number + 1)))
        words = choice.choices(WORDS, k=max(1, size // parts // 6))
        if number % 1000 == 500:
            words[len(words) // 2] = "seldom"
        copy = text.replace(thread["id"], new).replace(MARK, " ".join(words))
        (path.parent / path.name.replace(thread["id"], new)).write_text(copy)
    # The copies are found when the server builds its index anew.
    home = next(parent for parent in path.parents if parent.name == "home")
    for index in home.glob("*.sqlite*"):
        index.unlink()


def measure(binary, root, patience):
    server = Server(binary, root)
    while not server.call("thread/list", {"limit": 1})["data"]:
        time.sleep(0.5)
    terms = {"seldom": "seldom", "common": WORDS[77], "absent": "nowhere at all"}

    def search(term):
        began = time.monotonic()
        found = len(server.call("thread/search", {"searchTerm": term, "limit": 20})["data"])
        return time.monotonic() - began, found

    first, found = search(terms["seldom"])
    print(f"  first search after the start: {first * 1000:9.1f} ms, {found} threads", flush=True)
    time.sleep(patience)
    for name, term in terms.items():
        times = []
        for _ in range(3):
            seconds, found = search(term)
            times.append(seconds)
        print(f"  {name:6}: {min(times) * 1000:9.1f} ms, {found} threads", flush=True)
    server.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--codicil", required=True, type=pathlib.Path, help="also the model of the first turn")
    parser.add_argument("--codex", type=pathlib.Path, help="the server to compare with")
    parser.add_argument("--threads", type=int, default=10_000)
    parser.add_argument("--bytes", type=int, default=100_000, help="content of one thread")
    parser.add_argument("--patience", type=float, default=60, help="seconds between the first search and the others")
    options = parser.parse_args()
    root = pathlib.Path(tempfile.mkdtemp(prefix="codicil-search-"))
    script = pathlib.Path(__file__).resolve().parent / "model.toml"
    command = [options.codicil.resolve(), "mock-model", "--script", script]
    model = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    address = model.stdout.readline().strip()
    try:
        for name in ("codicil", "codex"):
            binary = getattr(options, name)
            if binary is None:
                continue
            print(f"{name}: {options.threads} threads of {options.bytes} bytes", flush=True)
            thread = prepare(binary.resolve(), address, root / name)
            fill(thread, options.threads, options.bytes)
            measure(binary.resolve(), root / name, options.patience)
            shutil.rmtree(root / name)
    finally:
        model.terminate()
        model.wait()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
