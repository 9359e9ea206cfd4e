"""What passes between clients and the server: written down by a pass-through, checked against the schema afterwards.

Clients that start the server themselves get `programs/record_frames.py` in its place; those that connect get the address of
a proxy. The check is `programs/check_frames.py`, with the schema that the server exports.
"""
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import uuid

HERE = pathlib.Path(__file__).resolve().parent.parent


class FrameLog:
    """The messages of one connection, a line each: who sent it, and what."""

    def __init__(self, directory):
        directory.mkdir(exist_ok=True)
        self.file = open(directory / f"{uuid.uuid4()}.jsonl", "w")
        self.lock = threading.Lock()

    def write(self, sender, text):
        try:
            message = json.loads(text)
        except ValueError:
            return
        with self.lock:
            self.file.write(json.dumps({"from": sender, "message": message}) + "\n")
            self.file.flush()


def recorded(binary, directory):
    """Writes a program that stands for the server; gives its path."""
    directory.mkdir(exist_ok=True)
    program = directory / "codicil"
    script = HERE / "programs" / "record_frames.py"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -B "{script}" "{binary}" "{directory}" "$@"\n')
    program.chmod(0o755)
    return program


def check(place, python):
    """Gives how many messages were checked, and a line for each that the schema does not allow."""
    schema = place.root / "schema"
    export = ["app-server", "generate-json-schema", "--generation", "0.166", "--experimental", "--out", str(schema)]
    subprocess.run([place.binary, *export], check=True, capture_output=True, env=place.environment())
    program = HERE / "programs" / "check_frames.py"
    done = subprocess.run([python, "-B", program, schema, place.frames], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        return 0, [done.stderr]
    report = json.loads(done.stdout)
    return report["checked"], report["violations"]


class Proxy:
    """A websocket proxy that leaves every byte as it is and writes down the messages."""

    def __init__(self, port, directory):
        self.port, self.directory = port, directory
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"ws://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.port))
            log = FrameLog(self.directory)
            for source, target, sender in ((client, server, "client"), (server, client, "server")):
                threading.Thread(target=pass_on, args=(source, target, Reader(sender, log)), daemon=True).start()


def pass_on(source, target, reader):
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
            reader.feed(data)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Reader:
    """Reads the text messages out of one direction of a websocket connection, after its HTTP head."""

    TEXT, CONTINUED = 1, 0

    def __init__(self, sender, log):
        self.sender, self.log = sender, log
        self.bytes, self.is_open, self.parts, self.kind = b"", False, [], None

    def feed(self, data):
        self.bytes += data
        if not self.is_open:
            head, end, rest = self.bytes.partition(b"\r\n\r\n")
            if not end:
                return
            self.is_open, self.bytes = True, rest
        while self._frame():
            pass

    def _frame(self):
        if len(self.bytes) < 2:
            return False
        first, second = self.bytes[:2]
        at, length = 2, second & 0x7F
        for code, size in ((126, 2), (127, 8)):
            if second & 0x7F == code:
                length, at = int.from_bytes(self.bytes[2:2 + size]), 2 + size
        mask = self.bytes[at:at + 4] if second & 0x80 else b""
        at += len(mask)
        if len(self.bytes) < at + length or (second & 0x80 and len(mask) < 4):
            return False
        payload, self.bytes = self.bytes[at:at + length], self.bytes[at + length:]
        if mask:
            pattern = (mask * (length // 4 + 1))[:length]
            payload = (int.from_bytes(payload) ^ int.from_bytes(pattern)).to_bytes(length)
        kind = first & 0x0F
        if kind in (self.TEXT, self.CONTINUED):
            self.kind = kind or self.kind
            self.parts.append(payload)
            if first & 0x80:
                self.log.write(self.sender, b"".join(self.parts))
                self.parts = []
        return True
