"""codex-acp, the adapter by which editors that speak the Agent Client Protocol use an app-server."""
from harness import expect, need
from install import npm
from lines import Peer

WHAT = "codex-acp 2.6.0 (npm @agentclientprotocol/codex-acp), ACP editors"
CHECKS_FRAMES = True
ANSWER = "One two three four five, said the scripted model."


def install(cache):
    need("node")
    place = npm(cache, "codex-acp-2.6.0", "@agentclientprotocol/codex-acp@2.6.0")
    return place / "node_modules" / "@agentclientprotocol" / "codex-acp" / "dist" / "index.js"


class Editor(Peer):
    """An editor without a person: it allows what it is asked for."""

    def __init__(self, place, adapter):
        self.asked = []
        super().__init__(place, ["node", adapter], self.decide, CODEX_PATH=place.codicil, NO_BROWSER="1")
        files = {"readTextFile": False, "writeTextFile": False}
        self.call("initialize", {"protocolVersion": 1, "clientCapabilities": {"fs": files, "terminal": False}})

    def decide(self, method, params):
        self.asked.append((method, params))
        allowed = [option for option in params.get("options", []) if option["kind"] == "allow_once"]
        return {"outcome": {"outcome": "selected", "optionId": allowed[0]["optionId"]}} if allowed else {}

    def prompt(self, session, text, meanwhile=None):
        params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
        return self.call("session/prompt", params, meanwhile=meanwhile)["stopReason"]

    def updates(self, kind):
        updates = [message["params"]["update"] for message in self.seen if message["method"] == "session/update"]
        return [update for update in updates if update["sessionUpdate"] == kind]

    def text(self, kind="agent_message_chunk"):
        return "".join(update["content"].get("text", "") for update in self.updates(kind))


def check(place, adapter):
    editor = Editor(place, adapter)
    session = editor.call("session/new", {"cwd": str(place.work), "mcpServers": []})["sessionId"]
    expect(editor.prompt(session, "stream please") == "end_turn", "the turn did not end well")
    expect(ANSWER in editor.text(), f"no answer: {editor.text()!r}")

    expect(editor.prompt(session, "touch outside") == "end_turn", "the turn with a question did not end well")
    expect([method for method, _ in editor.asked] == ["session/request_permission"], f"asked: {editor.asked}")
    expect((place.root / "stamp.txt").exists(), "the allowed command did not run")

    expect(editor.prompt(session, "patch the greeting") == "end_turn", "the turn with a patch did not end well")
    expect(place.greeting() == "Hello, world!\n", "the patch was not applied")
    expect(any(update.get("kind") == "edit" for update in editor.updates("tool_call")), "the edit was not shown")

    def give_up(message):
        update = message.get("params", {}).get("update", {})
        if update.get("sessionUpdate") == "tool_call" and "sleep" in str(update):
            editor.notify("session/cancel", {"sessionId": session})

    expect(editor.prompt(session, "wait for it", give_up) == "cancelled", "the turn was not cancelled")
    editor.close()

    again = Editor(place, adapter)
    again.call("session/load", {"sessionId": session, "cwd": str(place.work), "mcpServers": []})
    expect("stream please" in again.text("user_message_chunk"), "the history lacks what the person said")
    expect(ANSWER in again.text(), "the history lacks what the model said")
    expect(again.prompt(session, "still there") == "end_turn", "the loaded session does not go on")
    expect("You said: still there" in again.text(), "no answer in the loaded session")
    again.close()
