"""A program that uses codex-sdk-python, an SDK by others, in both of its modes."""
import asyncio
import os
import pathlib

from codex_sdk import ApprovalDecisions, AppServerClient, AppServerOptions, Codex, CodexOptions, ThreadOptions

WORK, ROOT, CODICIL = os.environ["WORK"], pathlib.Path(os.environ["ROOT"]), os.environ["CODICIL"]
ANSWER = "One two three four five, said the scripted model."


async def exec_mode():
    codex = Codex(CodexOptions(codex_path_override=CODICIL))
    thread = codex.start_thread(ThreadOptions(working_directory=WORK, sandbox_mode="workspace-write"))
    assert (await thread.run("stream please")).final_response == ANSWER
    assert (await thread.run("and again")).final_response == "You said: and again"
    resumed = codex.resume_thread(thread.id, ThreadOptions(working_directory=WORK))
    assert (await resumed.run("still there")).final_response == "You said: still there"


async def server_mode():
    async with AppServerClient(AppServerOptions(codex_path_override=CODICIL)) as app:
        started = await app.thread_start(cwd=WORK, approval_policy="on-request", sandbox="workspace-write")
        session = await app.turn_session(started["thread"]["id"], "touch outside",
                                         approvals=ApprovalDecisions(command_execution="accept"))
        methods = [notification.method async for notification in session.notifications()]
        await session.wait()
        assert "item/agentMessage/delta" in methods, methods
        assert (ROOT / "stamp.txt").read_text() == "stamped\n"


asyncio.run(exec_mode())
asyncio.run(server_mode())
