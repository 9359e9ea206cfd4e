"""A program that uses the official Python SDK: threads, streams, approvals, schemas, resuming."""
import asyncio
import inspect
import json
import os
import pathlib

from openai_codex import AsyncCodex, Codex, CodexConfig, LocalImageInput, TextInput
from openai_codex.client import CodexClient

WORK, ROOT = os.environ["WORK"], pathlib.Path(os.environ["ROOT"])
CONFIG = CodexConfig(codex_bin=os.environ["CODICIL"], cwd=WORK)
ANSWER = "One two three four five, said the scripted model."


def kinds(items):
    return [getattr(item, "root", item).type for item in items]


def turns_and_threads():
    from openai_codex import ApprovalMode, Sandbox
    with Codex(CONFIG) as codex:
        assert codex.metadata.serverInfo.version.startswith(os.environ.get("CODICIL_ANNOUNCE_VERSION", "0.1"))
        assert codex.account().requires_openai_auth is False
        assert codex.models(include_hidden=True).data
        thread = codex.thread_start(cwd=WORK, approval_mode=ApprovalMode.deny_all, sandbox=Sandbox.workspace_write)
        result = thread.run("stream please")
        assert result.final_response == ANSWER, result
        assert result.usage.total.total_tokens > 0
        assert kinds(result.items) == ["userMessage", "reasoning", "agentMessage"], kinds(result.items)

        turn = thread.turn("run a command")
        methods = [event.method for event in turn.stream()]
        for wanted in ("turn/started", "item/started", "item/agentMessage/delta", "turn/completed"):
            assert wanted in methods, (wanted, methods)

        result = thread.run("patch the greeting")
        assert "fileChange" in kinds(result.items), kinds(result.items)
        assert pathlib.Path(WORK, "greeting.txt").read_text() == "Hello, world!\n"

        schema = {"type": "object", "properties": {"colour": {"type": "string", "enum": ["green"]}},
                  "required": ["colour"], "additionalProperties": False}
        assert json.loads(thread.run("which colour", output_schema=schema).final_response) == {"colour": "green"}

        image = ROOT / "dot.png"
        image.write_bytes(bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944"
                                        "41547801636460f8cf500f0003860180ab50a5b50000000049454e44ae426082"))
        looked = thread.run([TextInput("look"), LocalImageInput(str(image))])
        assert looked.final_response == "You said: look", looked

        thread.set_name("a good name")
        assert thread.read(include_turns=True).thread.name == "a good name"
        return thread.id


def threads_again(first):
    with Codex(CONFIG) as codex:
        listed = codex.thread_list(limit=10)
        assert first in [thread.id for thread in listed.data], listed
        resumed = codex.thread_resume(first)
        assert resumed.id == first
        assert resumed.run("still there").final_response == "You said: still there"
        turns = resumed.read(include_turns=True).thread.turns
        assert len(turns) == 6, len(turns)
        fork = codex.thread_fork(first)
        assert fork.id != first
        assert fork.run("the copy").final_response == "You said: the copy"
        resumed.compact()
        codex.thread_archive(first)
        assert first in [thread.id for thread in codex.thread_list(archived=True).data]
        assert codex.thread_unarchive(first).id == first
        # Older versions always get the history.
        lean = "include_turns" in inspect.signature(codex.thread_resume).parameters
        lean = codex.thread_resume(first, **({"include_turns": False} if lean else {}))
        assert lean.run("without history").final_response == "You said: without history"


def interrupt_and_steer():
    with Codex(CONFIG) as codex:
        thread = codex.thread_start(cwd=WORK)
        turn = thread.turn("wait for it")
        status = None
        for event in turn.stream():
            if event.method == "item/started" and kinds([event.payload.item]) == ["commandExecution"]:
                turn.steer("and be quick")
                turn.interrupt()
            if event.method == "turn/completed":
                status = event.payload.turn.status.value
        assert status == "interrupted", status
        try:
            thread.run("fail")
        except RuntimeError as error:
            assert "the model refuses" in str(error), error
        else:
            raise AssertionError("a failed turn has to be an error")


def approvals():
    asked = []

    def decide(method, params):
        asked.append((method, params))
        return {"decision": "accept" if len(asked) > 1 else "decline"}

    stamp = ROOT / "stamp.txt"
    with CodexClient(CONFIG, approval_handler=decide) as client:
        client.initialize()
        started = client.thread_start({"cwd": WORK, "approvalPolicy": "on-request", "sandbox": "workspace-write"})
        thread = started.thread.id
        for expected in (False, True):
            turn = client.turn_start(thread, [{"type": "text", "text": "touch outside"}])
            completed = client.wait_for_turn_completed(turn.turn.id)
            assert completed.turn.status.value == "completed", completed
            assert stamp.exists() is expected
    assert [method for method, _ in asked] == ["item/commandExecution/requestApproval"] * 2, asked
    assert asked[0][1]["reason"] == "May I leave a stamp outside?"


async def asynchronous():
    async with AsyncCodex(CONFIG) as codex:
        threads = [await codex.thread_start(cwd=WORK) for _ in range(3)]
        results = await asyncio.gather(*(thread.run(f"number {at}") for at, thread in enumerate(threads)))
        assert [result.final_response for result in results] == [f"You said: number {at}" for at in range(3)]


threads_again(turns_and_threads())
interrupt_and_steer()
approvals()
asyncio.run(asynchronous())
