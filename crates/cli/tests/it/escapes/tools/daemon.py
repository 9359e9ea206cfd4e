"""Leaves a daemon behind: `daemon.py FILE SECONDS`.

The daemon leaves its session twice, ignores the signals that usually end a program, closes what it inherited, makes
the file and sleeps for so many seconds.
"""
import os
import signal
import sys

file, seconds = sys.argv[1:3]
for _ in range(2):
    if os.fork():
        os._exit(0)
    os.setsid()
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
for descriptor in range(3):
    os.close(descriptor)
os.open("/dev/null", os.O_RDWR)
os.dup(0)
os.dup(0)
with open(file, "w"):
    pass
os.execvp("sleep", ["sleep", seconds])
