"""MCP servers behind `codicil app-server`: a scripted model calls their tools, one call in each turn."""
import json

from harness import Failed, expect
from lines import Peer

APPROVAL = "codex_approval_kind"


class Session(Peer):
    """A client of codicil with MCP servers in its configuration.

    `servers` are tables of `[mcp_servers]` by name. `turns` are the texts of turns with the calls that the model makes
    in them, one after another: pairs of a tool's name for the model and its arguments. Approvals are given; `elicit`
    answers the questions of servers.
    """

    def __init__(self, place, servers, turns, elicit=None, **environment):
        self.asked, self.elicit = [], elicit
        script = place.root / "calls.toml"
        script.write_text("\n".join(reply for text, calls in turns for reply in replies(text, calls)))
        model = place.start_model(script)
        flags = [f"mcp_servers.{name}={toml(table)}" for name, table in servers.items()]
        flags.append(f'model_providers.mock.base_url="{model}"')
        command = [place.codicil, "app-server", *(part for flag in flags for part in ("-c", flag))]
        super().__init__(place, command, self.decide, **environment)
        info = {"name": "interop", "version": "1", "title": None}
        self.call("initialize", {"clientInfo": info, "capabilities": {"experimentalApi": True}})
        self.notify("initialized", {})
        self.place, self.thread = place, None

    def decide(self, method, params):
        self.asked.append((method, params))
        if method != "mcpServer/elicitation/request":
            return {}
        if APPROVAL in (params.get("_meta") or {}):
            return {"action": "accept", "content": None, "_meta": None}
        answer = self.elicit(params) if self.elicit else {"action": "decline"}
        return {"content": None, "_meta": None, **answer}

    def open(self):
        """Starts the thread and waits for its servers; gives the last report of each."""
        thread = self.call("thread/start", {"cwd": str(self.place.work), "sandbox": "workspace-write",
                                            "approvalPolicy": "on-request"})
        self.thread = thread["thread"]["id"]
        return self.call_until(lambda: self.startup())

    def startup(self):
        """The last report of each server, once none is still starting."""
        reports = {}
        for message in list(self.seen):
            if message["method"] == "mcpServer/startupStatus/updated":
                reports[message["params"]["name"]] = message["params"]
        return reports if reports and all(r["status"] != "starting" for r in reports.values()) else None

    def call_until(self, condition):
        """Reads messages until the condition gives something."""
        while True:
            value = condition()
            if value:
                return value
            if self.news.get(timeout=60) is None:
                raise Failed(f"codicil ended: {''.join(self.errors[-20:])}")

    def turn(self, text):
        """Runs a turn to its end; gives its completed items."""
        before = len(self.seen)
        self.call("turn/start", {"threadId": self.thread, "input": [{"type": "text", "text": text}]})
        ended = lambda: [m for m in self.seen[before:] if m["method"] == "turn/completed"]
        turn = self.call_until(ended)[0]["params"]["turn"]
        expect(turn["status"] == "completed", f"the turn {text!r} ended with {json.dumps(turn)[:2000]}")
        done = [m["params"]["item"] for m in self.seen[before:] if m["method"] == "item/completed"]
        return [item for item in done if item["type"] == "mcpToolCall"]

    def result(self, text):
        """Runs a turn with one call; gives the texts of its result."""
        items = self.turn(text)
        expect(len(items) == 1, f"{text!r}: {len(items)} calls instead of one")
        item = items[0]
        expect(item["status"] == "completed", f"{text!r}: {json.dumps(item)[:2000]}")
        return "\n".join(part.get("text", "") for part in item["result"]["content"])


def replies(text, calls):
    for step, (tool, arguments) in enumerate(calls):
        yield (f"[[reply]]\nwhen = {{ user = {json.dumps(text)}, step = {step} }}\n"
               f"steps = [{{ call = {json.dumps(tool)}, args = {toml(arguments)} }}]\n")
    yield (f"[[reply]]\nwhen = {{ user = {json.dumps(text)}, step = {len(calls)} }}\n"
           'steps = [{ say = "Done." }]\n')


def toml(value):
    """A value as inline TOML."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(each) for each in value) + "]"
    return json.dumps(value)
