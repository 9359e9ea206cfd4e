"""A whole session of the codex terminal interface in remote mode: the same story for every version of it."""
import shutil

from harness import expect
from install import npm
from screen import Screen

ANSWER = "One two three four five, said the scripted model."


def install(cache, version):
    return npm(cache, f"codex-{version}", f"@openai/codex@{version}") / "node_modules" / ".bin" / "codex"


def check(place, program, more=lambda screen: None, recalled=(ANSWER, "The greeting is mended.")):
    """`more` is what only some versions have; it happens before the turn that is interrupted. `recalled` is to be seen when
    the session is resumed: a screen holds the end of it."""
    address = place.serve()
    # The interface has settings of its own, and asks to sign in unless its provider needs no account.
    home = place.root / "tui-home"
    home.mkdir()
    shutil.copy(place.home / "config.toml", home)
    with open(home / "config.toml", "r+") as file:
        settings = file.read()
        file.seek(0)
        file.write("check_for_update_on_startup = false\n" + settings)
    environment = place.environment(CODEX_HOME=str(home), TERM="xterm-256color")
    first_session(place, lambda *words: Screen("one", [program, *words], place.work, environment), address, more)
    resumed_session(lambda *words: Screen("two", [program, *words], place.work, environment), address, recalled)


def first_session(place, start, address, more):
    with start("--remote", address) as screen:
        screen.wait("mock-model")
        screen.wait("›")

        screen.say("stream please")
        screen.wait(ANSWER)

        screen.say("touch outside")
        screen.wait("Would you like to run the following command?")
        screen.wait("May I leave a stamp outside?")
        expect(not (place.root / "stamp.txt").exists(), "the command ran before it was allowed")
        screen.keys("y")
        screen.wait("The command said: stamped")
        expect((place.root / "stamp.txt").read_text() == "stamped\n", "the allowed command did not do its work")
        expect("background terminal running" not in screen.text(), "a command that ended counts as running")

        screen.say("patch the greeting")
        screen.wait("The greeting is mended.")
        screen.wait("greeting.txt (+1 -1)")
        expect(place.greeting() == "Hello, world!\n", "the patch was not applied")

        more(screen)

        screen.say("wait for it")
        screen.wait("I start to wait.")
        screen.keys("Escape")
        screen.wait("interrupted")

        screen.say("/quit")
        screen.wait("PROGRAM-ENDED")


def resumed_session(start, address, recalled):
    with start("resume", "--last", "--remote", address) as screen:
        for text in recalled:
            screen.wait(text)
        screen.say("are you still there")
        screen.wait("You said: are you still there")
        screen.say("/quit")
        screen.wait("PROGRAM-ENDED")
