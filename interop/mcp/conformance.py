"""The official conformance suite of the protocol: every scenario for clients."""
import json
import os
import shlex
import subprocess
import sys

from harness import HERE, expect, need
from install import npm

WHAT = "MCP conformance suite 0.1.16 (npm @modelcontextprotocol/conformance), all scenarios for clients"
PACKAGE = "@modelcontextprotocol/conformance@0.1.16"
# Scenarios of these revisions; the others are extensions for programs without a user.
REVISIONS = ("2025-03-26", "2025-06-18", "2025-11-25", "draft")


def install(cache):
    need("node")
    # The suite needs a newer Node than the other peers.
    place = npm(cache, "mcp-conformance-0.1.16", PACKAGE, "node@22") / "node_modules"
    return [place / "node" / "bin" / "node", place / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"]


def check(place, suite):
    failures = [problem for name in scenarios(place, suite) for problem in problems(place, suite, name)]
    expect(not failures, "\n".join(failures))


def scenarios(place, suite):
    listed = subprocess.run([*suite, "list", "--client"], capture_output=True, text=True, timeout=60, check=True)
    lines = [line.split() for line in listed.stdout.splitlines() if line.startswith("  - ")]
    names = [name for _, name, versions in lines if any(revision in versions for revision in REVISIONS)]
    expect(len(names) > 15, f"too few scenarios: {names}")
    only = os.environ.get("CODICIL_INTEROP_SCENARIO")
    return [only] if only else names


def problems(place, suite, name):
    """Runs one scenario; gives what it reports as wrong, warnings included."""
    results = place.root / "results" / name.replace("/", "-")
    client = shlex.join([sys.executable, str(HERE / "programs" / "mcp_conformance_client.py")])
    command = [*suite, "client", "--command", client, "--scenario", name, "--timeout", "120000", "-o", results]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=180,
                          env={**place.environment(), "INTEROP_CACHE": str(place.cache)})
    checks = [each for file in results.rglob("checks.json") for each in json.loads(file.read_text())]
    bad = [f"{name}: {each['id']}: {each.get('errorMessage') or each['description']}" for each in checks
           if each["status"] in ("FAILURE", "WARNING")]
    if not any(each["status"] == "SUCCESS" for each in checks):
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        bad.append(f"{name}: nothing succeeded:\n{tail}")
    return bad
