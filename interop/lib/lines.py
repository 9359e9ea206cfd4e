"""JSON-RPC over the standard input and output of a program, one message a line."""
import json
import queue
import subprocess
import threading

from harness import Failed, PATIENCE


class Peer:
    """The other side. `answer` is asked for the result of each request that it makes."""

    def __init__(self, place, command, answer=lambda method, params: None, **environment):
        self.answer, self.seen, self.last = answer, [], 0
        self.process = place.start([str(part) for part in command], cwd=place.work, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=place.environment(**environment))
        self.answers, self.errors = {}, []
        self.news = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True).start()

    def call(self, method, params, patience=PATIENCE, meanwhile=None):
        """Asks and waits for the answer. `meanwhile` sees each notification that comes before it."""
        self.last += 1
        number = self.last
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        while True:
            try:
                message = self.news.get(timeout=patience)
            except queue.Empty:
                raise Failed(f"no answer to {method} in {patience} s; {''.join(self.errors[-20:])}") from None
            if message is None:
                raise Failed(f"it ended before it answered {method}; {''.join(self.errors[-20:])}")
            if message.get("id") == number and "method" not in message:
                if "error" in message:
                    raise Failed(f"{method}: {json.dumps(message['error'])[:2000]}")
                return message["result"]
            if meanwhile:
                meanwhile(message)

    def notify(self, method, params):
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def close(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)

    def _send(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def _read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            if "method" in message and "id" in message:
                result = self.answer(message["method"], message["params"])
                self._send({"jsonrpc": "2.0", "id": message["id"], "result": result})
            elif "method" in message:
                self.seen.append(message)
            self.news.put(message)
        self.news.put(None)
