"""The codex terminal interface 0.166 in remote mode, over a websocket."""
import tui

WHAT = "codex TUI 0.166.0 (npm @openai/codex), --remote"
GENERATION = "0.166.0"


def install(cache):
    return tui.install(cache, "0.166.0")


def check(place, program):
    tui.check(place, program, more)


def more(screen):
    """Methods that servers of the 0.118 generation do not have."""
    screen.say("/goal")
    screen.wait("No goal is currently set")
    screen.say("/hooks")
    screen.wait("Lifecycle hooks")
    screen.keys("Escape")
    screen.gone("Lifecycle hooks")
    screen.say("/ps")
    screen.wait("No background terminals running")
    screen.say("/model")
    screen.wait("Select Model")
    for _ in range(3):
        if "Model changed to" not in screen.text():
            screen.keys("Enter")
            screen.settle()
    screen.wait("Model changed to")
