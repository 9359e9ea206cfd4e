"""The reference server for files: reads, and writes that need an approval."""
import os

from harness import expect, need
from install import npm
from mcp import Session

VERSION = "2026.8.31"
WHAT = f"server-filesystem {VERSION} (npm @modelcontextprotocol/server-filesystem)"


def install(cache):
    need("node")
    place = npm(cache, f"mcp-filesystem-{VERSION}", f"@modelcontextprotocol/server-filesystem@{VERSION}")
    return place / "node_modules" / "@modelcontextprotocol" / "server-filesystem" / "dist" / "index.js"


def check(place, program):
    shared = place.root / "shared"
    shared.mkdir()
    (shared / "note.txt").write_text("buy milk\n")
    turns = [
        ("read the note", [("mcp__files__read_text_file", {"path": str(shared / "note.txt")})]),
        ("write a note", [("mcp__files__write_file", {"path": str(shared / "new.txt"), "content": "fresh"})]),
        ("leave the directory", [("mcp__files__read_text_file", {"path": str(place.home / "config.toml")})]),
    ]
    session = Session(place, {"files": {"command": "node", "args": [str(program), os.path.realpath(shared)]}}, turns)
    report = session.open()["files"]
    expect(report["status"] == "ready", f"the server did not start: {report}")
    expect("buy milk" in session.result("read the note"), "the note was not read")
    expect(session.asked == [], f"reading was asked about: {session.asked}")
    session.result("write a note")
    expect((shared / "new.txt").read_text() == "fresh", "the file was not written")
    expect(len(session.asked) == 1, f"writing was asked about {len(session.asked)} times")
    items = session.turn("leave the directory")
    expect(items[0]["status"] == "failed", f"a file outside was read: {items}")
    session.close()
