"""Connects to the app-server as any client and asks for a command without a sandbox.

Arguments: how to connect (`unix` or `tcp`), where (a path, or HOST:PORT), the kind of socket (`plain`, `mptcp` or
`fastopen`), and the command's words. Ends with 0 if the server answers that the command ran.
"""
import base64
import json
import os
import socket
import struct
import sys

way, where, kind, command = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]


def opened():
    if way == "unix":
        stream = socket.socket(socket.AF_UNIX)
        stream.settimeout(10)
        stream.connect(where)
        return stream
    host, port = where.rsplit(":", 1)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    stream = socket.socket(family, socket.SOCK_STREAM, 262 if kind == "mptcp" else 0)
    if kind == "fastopen":
        stream.sendto(b"", 0x20000000, (host, int(port)))
    else:
        stream.connect((host, int(port)))
    stream.settimeout(10)
    return stream


def websocket(stream):
    key = base64.b64encode(os.urandom(16)).decode()
    request = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" \
              "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n" % key
    stream.sendall(request.encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        part = stream.recv(1)
        if not part:
            break
        answer += part
    if b" 101 " not in answer:
        sys.exit("no websocket: %r" % answer)


def exactly(count):
    data = b""
    while len(data) < count:
        part = stream.recv(count - len(data))
        if not part:
            sys.exit("the server closed the connection")
        data += part
    return data


def send(message):
    data = json.dumps(message).encode()
    if way == "unix":
        return stream.sendall(data + b"\n")
    length = struct.pack("!BBH", 0x81, 0x80 | 126, len(data))
    stream.sendall(length + b"\0\0\0\0" + data)


def receive():
    if way == "unix":
        data = b""
        while not data.endswith(b"\n"):
            data += exactly(1)
        return json.loads(data)
    _, length = exactly(2)
    length &= 127
    if length == 126:
        length = struct.unpack("!H", exactly(2))[0]
    elif length == 127:
        length = struct.unpack("!Q", exactly(8))[0]
    return json.loads(exactly(length))


def ask(number, method, params):
    send({"id": number, "method": method, "params": params})
    while True:
        message = receive()
        if message.get("id") == number and "method" not in message:
            return message


stream = opened()
if way == "tcp":
    websocket(stream)
ask(1, "initialize", {"clientInfo": {"name": "escape", "version": "1"}})
answer = ask(2, "command/exec", {"command": command, "sandboxPolicy": {"type": "dangerFullAccess"}})
if "result" not in answer or answer["result"]["exitCode"] != 0:
    sys.exit(json.dumps(answer))
