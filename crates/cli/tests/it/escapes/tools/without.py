"""Runs a program that lacks a part of the kernel, as do its children: `without.py namespaces|landlock PROGRAM…`.

Without namespaces, as where an administrator forbids them, a system call filter answers `unshare`, `setns` and a
`clone` that asks for namespaces with "Operation not permitted", and `clone3`, whose flags a filter cannot see, with
"Function not implemented". Without Landlock, as on an older kernel, `landlock_create_ruleset` does not exist.
"""
import ctypes
import errno
import os
import struct
import sys

LOAD, JUMP_EQUAL, JUMP_SET, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, ERROR = 0x7FFF0000, 0x00050000
NAMESPACES = 0x7E020080  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWTIME
CLONE, UNSHARE, SETNS = (56, 272, 308) if os.uname().machine == "x86_64" else (220, 97, 268)
CLONE3, CREATE_RULESET = 435, 444

without_landlock = [
    (LOAD, 0, 0, 0),
    (JUMP_EQUAL, 0, 1, CREATE_RULESET), (RETURN, 0, 0, ERROR | errno.ENOSYS),
    (RETURN, 0, 0, ALLOW),
]
without_namespaces = [
    (LOAD, 0, 0, 0),  # the number of the system call
    (JUMP_EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, ERROR | errno.ENOSYS),
    (JUMP_EQUAL, 0, 1, SETNS), (RETURN, 0, 0, ERROR | errno.EPERM),
    (JUMP_EQUAL, 2, 0, UNSHARE),
    (JUMP_EQUAL, 1, 0, CLONE), (RETURN, 0, 0, ALLOW),
    (LOAD, 0, 0, 16),  # its first argument
    (JUMP_SET, 0, 1, NAMESPACES), (RETURN, 0, 0, ERROR | errno.EPERM),
    (RETURN, 0, 0, ALLOW),
]
program = {"namespaces": without_namespaces, "landlock": without_landlock}[sys.argv[1]]
code = b"".join(struct.pack("HBBI", *line) for line in program)
buffer = ctypes.create_string_buffer(code, len(code))
described = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer)))
libc = ctypes.CDLL(None, use_errno=True)
for arguments in [(38, 1, 0, 0, 0), (22, 2, ctypes.addressof(described), 0, 0)]:  # no_new_privs, seccomp
    if libc.prctl(arguments[0], *[ctypes.c_ulong(word) for word in arguments[1:]]):
        raise OSError(ctypes.get_errno(), "prctl")
os.execv(sys.argv[2], sys.argv[2:])
