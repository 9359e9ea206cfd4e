"""Swaps two entries of a directory as fast as it can until a third one appears: `flip.py ONE OTHER STOP`.

A program that checks a path and then uses it by name sees the one at the check and the other at its use.
"""
import ctypes
import os
import sys

one, other, stop = (os.fsencode(word) for word in sys.argv[1:4])
libc = ctypes.CDLL(None, use_errno=True)
print("flipping", flush=True)
while not os.path.exists(stop):
    for _ in range(200):
        if libc.renameat2(-100, one, -100, other, 2) != 0:
            sys.exit(os.strerror(ctypes.get_errno()))
