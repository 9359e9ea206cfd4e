"""Stands for `codicil`: runs it, and writes down each message that passes between a client and its `app-server`.

Called as `record_frames.py BINARY DIRECTORY ARGUMENTS...`. Everything but an app-server on standard input and output runs
as it is.
"""
import os
import pathlib
import signal
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from frames import FrameLog  # noqa: E402


def main():
    binary, directory, *arguments = sys.argv[1:]
    if not speaks_here(arguments):
        os.execv(binary, [binary, *arguments])
    log = FrameLog(pathlib.Path(directory))
    server = subprocess.Popen([binary, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: server.send_signal(number))
    threading.Thread(target=pass_on, args=(sys.stdin.buffer, server.stdin, "client", log), daemon=True).start()
    pass_on(server.stdout, sys.stdout.buffer, "server", log)
    code = server.wait()
    os._exit(code if code >= 0 else 128 - code)


def speaks_here(arguments):
    """Whether this is an app-server that speaks through its standard input and output."""
    if "app-server" not in arguments:
        return False
    rest = arguments[arguments.index("app-server") + 1:]
    others = ("generate-ts", "generate-json-schema", "proxy", "daemon", "--help")
    return not any(word in others or word.startswith(("ws://", "unix://")) for word in rest)


def pass_on(source, target, sender, log):
    try:
        for line in source:
            log.write(sender, line)
            target.write(line)
            target.flush()
    except (BrokenPipeError, ValueError):
        pass
    if sender == "client":
        target.close()


if __name__ == "__main__":
    main()
