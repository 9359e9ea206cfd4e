"""A program that uses codex-app-server-client, a client by others for Python."""
import asyncio
import os
import pathlib

from codex_app_server_client import CodexAppServer
from codex_app_server_client.types.threads import ThreadStartParams

WORK = os.environ["WORK"]
ANSWER = "One two three four five, said the scripted model."


async def main():
    options = ThreadStartParams(cwd=WORK, approval_policy="never", sandbox="workspace-write")
    async with CodexAppServer(codex_bin=os.environ["CODICIL"]) as codex:
        thread = await codex.start_thread(options)
        assert (await thread.run("stream please")).final_response == ANSWER
        names = [type(event).__name__ async for event in thread.run_streamed("run a command")]
        assert "AgentMessageDeltaEvent" in names and "ItemCompletedEvent" in names, names
        await thread.run("patch the greeting")
        assert pathlib.Path(WORK, "greeting.txt").read_text() == "Hello, world!\n"
    async with CodexAppServer(codex_bin=os.environ["CODICIL"]) as codex:
        again = await codex.resume_thread(thread.id)
        result = await again.run("still there")
        assert result.final_response == "You said: still there", result


asyncio.run(main())
