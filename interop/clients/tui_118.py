"""The codex terminal interface 0.118 in remote mode, over a websocket."""
import tui

WHAT = "codex TUI 0.118.0 (npm @openai/codex), --remote"


def install(cache):
    return tui.install(cache, "0.118.0")


check = tui.check
