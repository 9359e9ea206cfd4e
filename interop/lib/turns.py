"""Turns of `codicil app-server`, for peers on the other side of it: what clients saw of each."""
from harness import Failed, PATIENCE, until
from lines import Peer


class Turn:
    """One turn that is over: its messages in order, and what they add up to."""

    def __init__(self, messages):
        self.messages = messages
        self.end = self.of("turn/completed")[-1]["turn"]
        self.error = self.end["error"]
        self.items = [params["item"] for params in self.of("item/completed")]
        self.text = "".join(item["text"] for item in self.items if item["type"] == "agentMessage")
        self.commands = [item for item in self.items if item["type"] == "commandExecution"]
        self.retries = [params["error"] for params in self.of("error") if params["willRetry"]]
        usage = self.of("thread/tokenUsage/updated")
        self.usage = usage[-1]["tokenUsage"]["last"] if usage else None

    def of(self, method):
        return [message["params"] for message in self.messages if message["method"] == method]


class AppServer(Peer):
    """A server that uses the model which the place is configured for. It may run every command."""

    def __init__(self, place, **environment):
        super().__init__(place, [place.codicil, "app-server"], **environment)
        self.place = place
        self.call("initialize", {"clientInfo": {"name": "interop", "title": "interop", "version": "1"}})
        self.notify("initialized", {})

    def thread(self, **params):
        params = {"cwd": str(self.place.work), "approvalPolicy": "never", "sandbox": "danger-full-access", **params}
        return self.call("thread/start", params)["thread"]["id"]

    def turn(self, text, thread=None, patience=PATIENCE):
        """Runs a turn to its end, in a new thread unless one is given."""
        thread = thread or self.thread()
        begin = len(self.seen)
        self.call("turn/start", {"threadId": thread, "input": [{"type": "text", "text": text}]})

        def over():
            if self.process.poll() is not None:
                raise Failed(f"the server ended: {''.join(self.errors[-20:])}")
            messages = self.seen[begin:]
            return messages if any(message["method"] == "turn/completed" for message in messages) else None

        return Turn(until(f"the end of the turn {text!r}", over, patience))
