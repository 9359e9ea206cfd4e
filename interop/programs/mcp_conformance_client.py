"""The client that the MCP conformance suite runs: codicil, with a person who signs in and agrees to what is asked.

The suite gives the address of its server as the last argument, and the scenario with its details in the environment.
"""
import json
import os
import pathlib
import sys
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE / "lib"))

from harness import Place, expect  # noqa: E402
from mcp import Session  # noqa: E402

# The address that the suite knows as a client's metadata document.
METADATA_DOCUMENT = "https://conformance-test.local/client-metadata.json"
CALLS = {
    "tools_call": ("add_numbers", {"a": 5, "b": 3}),
    "elicitation-sep1034-client-defaults": ("test_client_elicitation_defaults", {}),
    "sse-retry": ("test_reconnection", {}),
}


def main():
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    with Place(os.environ["CODICIL"], os.environ["INTEROP_CACHE"]) as place:
        run(place, sys.argv[-1], scenario, context)


def run(place, url, scenario, context):
    tool, arguments = CALLS.get(scenario, ("test-tool", {}))
    server = {"url": url}
    environment = {}
    if scenario == "auth/basic-cimd":
        server["oauth"] = {"client_id": METADATA_DOCUMENT}
    elif "client_id" in context:
        server["oauth"] = {"client_id": context["client_id"]}
        if "client_secret" in context:
            server["oauth"]["client_secret_env_var"] = "PEER_SECRET"
            environment["PEER_SECRET"] = context["client_secret"]
    session = Session(place, {"peer": server}, [("go", [(f"mcp__peer__{tool}", arguments)])], agree, **environment)
    report = session.open()["peer"]
    if report["status"] == "failed" and "not signed in" in report["error"]:
        sign_in(session)
    items = session.turn("go")
    print(json.dumps(items))
    session.close()


def sign_in(session):
    url = session.call("mcpServer/oauth/login", {"name": "peer"})["authorizationUrl"]
    visit(url)
    done = lambda: [m for m in session.seen if m["method"] == "mcpServer/oauthLogin/completed"]
    outcome = session.call_until(done)[0]["params"]
    expect(outcome["success"], f"signing in failed: {outcome}")


def agree(question):
    if question["mode"] == "url":
        visit(question["url"])
    return {"action": "accept"}


def visit(url):
    """What a browser does whose user is signed in already: it follows the redirects."""
    with urllib.request.urlopen(url, timeout=20) as page:
        page.read()


main()
