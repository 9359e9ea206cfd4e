"""The reference server with an example of everything, over pipes and over HTTP."""
import json
import os
import socket
import subprocess

from harness import expect, listens, need, until
from install import npm
from mcp import Session

VERSION = "2026.8.31"
WHAT = f"server-everything {VERSION} (npm @modelcontextprotocol/server-everything), pipes and streamable HTTP"
PAGE = {"url": "https://example.com/a-page", "message": "Open it"}
TURNS = [
    ("echo it", [("mcp__all__echo", {"message": "over there"})]),
    ("add them", [("mcp__all__get-sum", {"a": 2, "b": 40})]),
    ("count steps", [("mcp__all__trigger-long-running-operation", {"duration": 1, "steps": 3})]),
    ("look at it", [("mcp__all__get-tiny-image", {})]),
    ("structure it", [("mcp__all__get-structured-content", {"location": "Chicago"})]),
    ("ask by form", [("mcp__all__trigger-elicitation-request", {})]),
    ("ask by page", [("mcp__all__trigger-url-elicitation", PAGE)]),
    ("require a page", [("mcp__all__trigger-url-elicitation", {**PAGE, "errorPath": True})]),
]


def install(cache):
    need("node")
    place = npm(cache, f"mcp-everything-{VERSION}", f"@modelcontextprotocol/server-everything@{VERSION}")
    return place / "node_modules" / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"


def check(place, program):
    drive(place, {"command": "node", "args": [str(program), "stdio"]})
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    place.start(["node", program, "streamableHttp"], env={**os.environ, "PORT": str(port)},
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until("the HTTP server to listen", lambda: listens(port))
    drive(place, {"url": f"http://127.0.0.1:{port}/mcp"})


def drive(place, server):
    session = Session(place, {"all": server}, TURNS, answer)
    report = session.open()["all"]
    expect(report["status"] == "ready", f"the server did not start: {report}")
    expect("over there" in session.result("echo it"), "no echo")
    expect("42" in session.result("add them"), "no sum")

    expect("completed" in session.result("count steps"), "the operation did not complete")
    progress = [m["params"]["message"] for m in session.seen if m["method"] == "item/mcpToolCall/progress"]
    expect(len(progress) == 3, f"progress: {progress}")

    session.result("look at it")
    outputs = [item for item in place.model_requests()[-1]["input"] if item["type"] == "function_call_output"]
    expect("input_image" in json.dumps(outputs[-1]["output"]), "the model does not see the image")
    expect("temperature" in session.result("structure it"), "no structured content")

    text = session.result("ask by form")
    expect("Ada" in text, f"the form was not answered: {text}")
    expect("It was a dark and stormy night." in text, f"a default was not filled in: {text}")
    text = session.result("ask by page")
    expect("User completed the URL elicitation flow" in text, f"the page was not answered: {text}")
    before = len(session.asked)
    text = session.result("require a page")
    expect("User completed the URL elicitation flow" in text, f"the call was not repeated: {text}")
    pages = [params["url"] for _, params in session.asked[before:] if params.get("mode") == "url"]
    expect(pages == ["https://modelcontextprotocol.io", PAGE["url"]], f"pages: {pages}")
    session.close()


def answer(question):
    """Fills in what the form requires, and opens pages."""
    if question["mode"] == "form":
        return {"action": "accept", "content": {"name": "Ada", "check": True}}
    return {"action": "accept"}
