"""A server made with FastMCP, over pipes and over HTTP."""
import socket
import subprocess

from harness import HERE, expect, listens, until
from install import pip
from mcp import Session

VERSION = "4.1.2"
WHAT = f"a server made with FastMCP {VERSION} (PyPI fastmcp), pipes and streamable HTTP"
PROGRAM = HERE / "programs" / "fastmcp_server.py"
TURNS = [
    ("add them", [("mcp__fast__add", {"a": 2, "b": 40})]),
    ("count them", [("mcp__fast__count", {"to": 3})]),
    ("wish", [("mcp__fast__ask", {})]),
    ("read the note", [("read_mcp_resource", {"server": "fast", "uri": "note://today"})]),
    ("grow and use", [("mcp__fast__grow", {}), ("mcp__fast__grown", {})]),
]


def install(cache):
    return pip(cache, f"fastmcp-{VERSION}", f"fastmcp=={VERSION}")


def check(place, python):
    drive(place, {"command": str(python), "args": [str(PROGRAM)]})
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    place.start([python, PROGRAM, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until("the HTTP server to listen", lambda: listens(port))
    drive(place, {"url": f"http://127.0.0.1:{port}/mcp"})


def drive(place, server):
    server = {**server, "startup_timeout_sec": 60}
    session = Session(place, {"fast": server}, TURNS, lambda question: {"action": "accept", "content": {"colour": "blue"}})
    report = session.open()["fast"]
    expect(report["status"] == "ready", f"the server did not start: {report}")
    expect("42" in session.result("add them"), "no sum")
    session.result("count them")
    progress = [m["params"]["message"] for m in session.seen if m["method"] == "item/mcpToolCall/progress"]
    expect(progress == ["at 1", "at 2", "at 3"], f"progress: {progress}")
    text = session.result("wish")
    expect("blue" in text and "3" in text, f"the form was not answered: {text}")
    expect("a note of today" in session.result("read the note"), "the resource was not read")
    items = session.turn("grow and use")
    expect([item["status"] for item in items] == ["completed"] * 2, f"the added tool was not called: {items}")
    offered = [tool.get("name") for tool in place.model_requests()[-2]["tools"]]
    expect("mcp__fast__grown" in offered, "the added tool was not offered within the turn")
    session.close()
