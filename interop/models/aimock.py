"""aimock, a server that plays fixtures in the wire formats of many providers."""
import json
import subprocess

from harness import expect, listens, need, until
from install import npm
from turns import AppServer

WHAT = "aimock 1.43.0 (npm @copilotkit/aimock), a model server: Responses, Chat Completions, Messages"
ANSWER = "Eine Antwort mit Umlauten: äöü, and an emoji: \U0001f600, in many small chunks."

FIXTURES = [
    {"match": {"userMessage": "say something"},
     "response": {"content": ANSWER, "usage": {"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150}}},
    {"match": {"userMessage": "think first"},
     "response": {"content": "Thought through.", "reasoning": "Let me think about this."}},
    {"match": {"userMessage": "think aloud"},
     "response": {"content": "<think>Inline reasoning.</think>\n\nThe message alone."}},
    {"match": {"userMessage": "use a tool", "hasToolResult": False},
     "response": {"content": "Let me look.", "reasoning": "A tool will help.",
                  "toolCalls": [{"name": "exec_command", "arguments": {"cmd": "cat greeting.txt"}}]}},
    {"match": {"userMessage": "use a tool", "toolResultContains": "Helo, world!"},
     "response": {"content": "The file says: Helo, world!"}},
    {"match": {"userMessage": "be cut off"},
     "response": {"content": "The beginning of a long story", "finishReason": "length",
                  "usage": {"prompt_tokens": 70, "completion_tokens": 7, "total_tokens": 77}}},
    {"match": {"userMessage": "break off", "sequenceIndex": 0},
     "response": {"content": "A fragment that must not stay, because the stream ends within it."}, "truncateAfterChunks": 4},
    {"match": {"userMessage": "break off"}, "response": {"content": "The whole answer."}},
    {"match": {"userMessage": "be limited", "sequenceIndex": 0},
     "response": {"error": {"message": "Slow down, please", "type": "rate_limit_error"}, "status": 429}},
    {"match": {"userMessage": "be limited"}, "response": {"content": "Patience pays."}},
    {"match": {"userMessage": "be overloaded", "sequenceIndex": 0},
     "response": {"error": {"message": "Too many people", "type": "overloaded_error"}, "status": 529}},
    {"match": {"userMessage": "be overloaded"}, "response": {"content": "There is room now."}},
    {"match": {"userMessage": "fail"},
     "response": {"error": {"message": "The GPU is on fire", "type": "server_error"}, "status": 500}},
    {"match": {"userMessage": "too long"},
     "response": {"error": {"message": "This model's maximum context length is 8192 tokens. However, your messages "
                                       "resulted in 9001 tokens.",
                            "type": "invalid_request_error", "code": "context_length_exceeded"}, "status": 400}},
]


def install(cache):
    need("node")
    place = npm(cache, "aimock-1.43.0", "@copilotkit/aimock@1.43.0")
    return place / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"


def check(place, program):
    fixtures = place.root / "fixtures.json"
    fixtures.write_text(json.dumps({"fixtures": FIXTURES}))
    for wire_api in ("responses", "chat", "anthropic"):
        # One server for each: it counts how often a fixture was used.
        port = place.free_port()
        log = open(place.root / f"aimock-{wire_api}.log", "wb")
        place.start(["node", str(program), "-p", str(port), "-f", str(fixtures), "-c", "5", "--strict"], stdout=log,
                    stderr=log, stdin=subprocess.DEVNULL)
        until("aimock to listen", lambda: listens(port))
        place.use_model(f"http://127.0.0.1:{port}/v1", wire_api, "gpt-5.2", stream_max_retries=2,
                        more="show_raw_agent_reasoning = true")
        server = AppServer(place)
        try:
            check_dialect(server, wire_api)
        finally:
            server.close()


def check_dialect(server, wire_api):
    def completed(turn):
        expect(turn.end["status"] == "completed", f"{wire_api}: {turn.error}")
        return turn

    def failed(turn, info):
        expect(turn.end["status"] == "failed", f"{wire_api}: {turn.end}")
        expect(turn.error["codexErrorInfo"] == info, f"{wire_api}: {turn.error}")
        return turn

    turn = completed(server.turn("say something"))
    expect(turn.text == ANSWER, f"{wire_api}: {turn.text!r}")
    deltas = "".join(params["delta"] for params in turn.of("item/agentMessage/delta"))
    expect(deltas == ANSWER, f"{wire_api}: streamed {deltas!r}")
    expect((turn.usage["inputTokens"], turn.usage["outputTokens"]) == (120, 30), f"{wire_api}: {turn.usage}")

    turn = completed(server.turn("think first"))
    expect(turn.text == "Thought through.", f"{wire_api}: {turn.text!r}")
    expect("Let me think about this." in json.dumps(thoughts(turn)), f"{wire_api}: {thoughts(turn)}")
    if wire_api == "chat":
        turn = completed(server.turn("think aloud"))
        expect(turn.text == "The message alone.", f"{wire_api}: {turn.text!r}")
        expect("Inline reasoning." in json.dumps(thoughts(turn)), f"{wire_api}: {thoughts(turn)}")

    turn = completed(server.turn("use a tool"))
    expect([command["exitCode"] for command in turn.commands] == [0], f"{wire_api}: {turn.commands}")
    expect(turn.text.endswith("The file says: Helo, world!"), f"{wire_api}: {turn.text!r}")

    turn = failed(server.turn("be cut off"), "other")
    expect(turn.text == "The beginning of a long story", f"{wire_api}: {turn.text!r}")
    # Its Responses say `incomplete` without a reason.
    reason = "unknown" if wire_api == "responses" else "max_output_tokens"
    expect(turn.error["message"].endswith(f"reason: {reason}"), f"{wire_api}: {turn.error}")
    expect(turn.usage["outputTokens"] == 7 and not turn.retries, f"{wire_api}: {turn.usage} {turn.retries}")

    turn = completed(server.turn("break off"))
    expect(turn.text == "The whole answer.", f"{wire_api}: {turn.text!r}")
    expect(len(turn.retries) == 1, f"{wire_api}: {turn.retries}")

    for text, answer, words in (("be limited", "Patience pays.", "Slow down, please"),
                                ("be overloaded", "There is room now.", "Too many people")):
        turn = completed(server.turn(text))
        expect(turn.text == answer, f"{wire_api}: {turn.text!r}")
        expect(words in turn.retries[0]["additionalDetails"], f"{wire_api}: {turn.retries}")

    turn = failed(server.turn("fail"), "internalServerError")
    expect("The GPU is on fire" in turn.error["message"], f"{wire_api}: {turn.error}")
    turn = failed(server.turn("too long"), "contextWindowExceeded")
    expect("9001 tokens" in turn.error["additionalDetails"], f"{wire_api}: {turn.error}")
    expect("first message" in turn.error["message"], f"{wire_api}: {turn.error}")


def thoughts(turn):
    return [item for item in turn.items if item["type"] == "reasoning"]
