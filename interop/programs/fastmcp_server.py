"""A server made with FastMCP. Without an argument it speaks over pipes, else over HTTP on that port."""
import dataclasses
import sys

from fastmcp import Context, FastMCP
from mcp.types import ToolListChangedNotification

server = FastMCP("interop")


@dataclasses.dataclass
class Wish:
    colour: str
    size: int = 3


@server.tool(annotations={"readOnlyHint": True})
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool(annotations={"readOnlyHint": True})
async def count(to: int, ctx: Context) -> str:
    """Counts and reports its progress."""
    for step in range(1, to + 1):
        await ctx.report_progress(step, to, f"at {step}")
    return "counted"


@server.tool
async def ask(ctx: Context) -> str:
    """Asks the user for a wish."""
    answer = await ctx.elicit("What do you wish for?", response_type=Wish)
    return f"{answer.action} {getattr(answer, 'data', None)}"


@server.tool
async def grow(ctx: Context) -> str:
    """Adds a tool to the server."""

    @server.tool(name="grown", annotations={"readOnlyHint": True})
    def grown() -> str:
        """Says that it was added."""
        return "I was added"

    await ctx.send_notification(ToolListChangedNotification())
    return "grown"


@server.resource("note://today")
def note() -> str:
    return "a note of today"


if len(sys.argv) > 1:
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
else:
    server.run(show_banner=False)
