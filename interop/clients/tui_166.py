"""The codex terminal interface 0.166 in remote mode, over a websocket."""
import tui
from harness import until

WHAT = "codex TUI 0.166.0 (npm @openai/codex), --remote"
CHECKS_FRAMES = True
PINNED = "01984de2-8f74-7c91-a3b2-5c5e937cf318"


def install(cache):
    return tui.install(cache, "0.166.0")


def check(place, program):
    recalled = ("The greeting is mended.", "You said: from the queue")
    tui.check(place, program, lambda screen: more(place, program, screen), recalled)


def more(place, program, screen):
    """What servers of the 0.118 generation do not have."""
    commands(screen)
    goal(screen)
    side_conversation(screen)
    queue(place, program, screen)
    rewind(screen)
    pin(place, screen)


def commands(screen):
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


def goal(screen):
    """A goal starts turns by itself, until it is paused."""
    screen.say("/goal write a poem")
    screen.wait("Pursuing goal")
    screen.say("/goal pause")
    screen.wait("Goal paused")
    screen.say("/goal clear")
    screen.wait("Goal cleared")
    screen.settle()


def side_conversation(screen):
    """An ephemeral fork with a note to the model, beside the thread."""
    screen.say("/side what is this about")
    screen.wait("Side from main thread")
    screen.wait("You said: what is this about")
    screen.settle()
    screen.keys("C-c")
    screen.gone("Side from main thread")
    screen.settle()


def queue(place, program, screen):
    """Another process adds to the queue of the thread that the interface shows."""
    name = ["--thread", place.thread_name(), "--message", "from the queue"]
    place.run([program, "queue", *name, "--remote", place.proxies[-1].address],
              CODEX_HOME=str(place.root / "tui-home"))
    screen.wait("You said: from the queue")
    screen.settle()


def rewind(screen):
    """Goes back to before the last prompt, which is then there to be edited."""
    screen.say("take this back")
    screen.wait("You said: take this back")
    screen.settle()
    screen.keys("Escape")
    screen.settle()
    screen.keys("Escape")
    screen.wait("rewind")
    screen.keys("Enter")
    screen.wait("Conversation reverted to this point")
    screen.settle()
    screen.keys("C-u")
    screen.settle()


def pin(place, screen):
    """Pins the thread in the list of all threads."""
    screen.keys("Left")
    screen.wait("Agent command center")
    screen.settle()
    screen.keys("p")
    until("the thread to be pinned", lambda: PINNED in place.thread_records())
    screen.keys("Escape")
    screen.gone("Agent command center")
    screen.settle()
