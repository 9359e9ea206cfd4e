"""The reference server for git repositories, made with the Python SDK."""
import subprocess

from harness import expect
from install import pip
from mcp import Session

VERSION = "2026.10.19"
WHAT = f"mcp-server-git {VERSION} (PyPI)"


def install(cache):
    return pip(cache, f"mcp-server-git-{VERSION}", f"mcp-server-git=={VERSION}")


def check(place, python):
    repository = str(place.work)
    turns = [
        ("show the log", [("mcp__git__git_log", {"repo_path": repository})]),
        ("stage and commit", [("mcp__git__git_add", {"repo_path": repository, "files": ["new.txt"]}),
                              ("mcp__git__git_commit", {"repo_path": repository, "message": "second"})]),
    ]
    (place.work / "new.txt").write_text("new\n")
    names = {"GIT_AUTHOR_NAME": "Me", "GIT_AUTHOR_EMAIL": "me@example.com", "GIT_COMMITTER_NAME": "Me",
             "GIT_COMMITTER_EMAIL": "me@example.com"}
    server = {"command": str(python), "args": ["-m", "mcp_server_git", "--repository", repository], "env": names}
    session = Session(place, {"git": server}, turns)
    report = session.open()["git"]
    expect(report["status"] == "ready", f"the server did not start: {report}")
    expect("first" in session.result("show the log"), "the log lacks the commit")
    items = session.turn("stage and commit")
    expect([item["status"] for item in items] == ["completed"] * 2, f"the calls failed: {items}")
    log = subprocess.run(["git", "log", "--format=%s"], cwd=place.work, capture_output=True, text=True, check=True)
    expect(log.stdout.split() == ["second", "first"], f"commits: {log.stdout.split()}")
    session.close()
