"""Makes the attempts that the file given as the first argument lists, each in a process of its own.

The file is JSON: `variables` for the environment and `attempts`, pairs of a name and a line for bash; a line that
begins with `py:` is Python and has the names of this module. An attempt has worked if it ends with exit code 0 or
without an exception. For each one a line is printed: RESULT, its name, its exit code and its last words.

System calls that Python has no function for are made with `call`; their numbers are those of the two architectures
that the tests run on.
"""
import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import time

NUMBERS = {  # name: (x86_64, aarch64)
    "add_key": (248, 217), "bpf": (321, 280), "chroot": (161, 51), "fsopen": (430, 430),
    "init_module": (175, 105), "io_uring_setup": (425, 425), "ioprio_get": (252, 31),
    "ioprio_set": (251, 30), "kcmp": (312, 272), "keyctl": (250, 219), "migrate_pages": (256, 238),
    "mount": (165, 40), "move_pages": (279, 239), "name_to_handle_at": (303, 264), "open_tree": (428, 428),
    "open_by_handle_at": (304, 265), "perf_event_open": (298, 241), "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424), "prlimit64": (302, 261),
    "process_madvise": (440, 440), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "ptrace": (101, 117), "renameat2": (316, 276), "setns": (308, 268), "shmat": (30, 196),
    "umount2": (166, 39), "unshare": (272, 97), "userfaultfd": (323, 282), "fanotify_init": (300, 262),
    "sched_setattr": (314, 274), "linkat": (265, 37), "quotactl": (179, 60), "swapon": (167, 224),
    "syslog": (103, 116), "acct": (163, 89), "fchmodat2": (452, 452), "mq_open": (240, 180),
    "mq_timedsend": (242, 182), "setxattrat": (463, 463), "lookup_dcookie": (212, 18),
}
AT_FDCWD, AT_EMPTY_PATH, O_PATH = -100, 0x1000, 0x200000
SECONDS = 20
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long


def call(name, *arguments):
    number = NUMBERS[name][os.uname().machine != "x86_64"]
    given = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    result = LIBC.syscall(ctypes.c_long(number), *given)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def reaches(name, *arguments):
    """Fails if a filter refuses the system call; an error about its arguments comes from the kernel behind it."""
    try:
        call(name, *arguments)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS):
            raise


def link_descriptor(descriptor, name):
    call("linkat", AT_FDCWD, b"/proc/self/fd/%d" % descriptor, AT_FDCWD, name.encode(), 0x400)


def number(variable):
    return int(os.environ[variable])


def path(variable, *rest):
    return os.path.join(os.environ[variable], *rest)


def write(name, text="x"):
    with open(name, "a") as file:
        file.write(text)


def connect(address, kind=socket.SOCK_STREAM, family=socket.AF_UNIX):
    with socket.socket(family, kind) as stream:
        stream.settimeout(5)
        stream.connect(address)


def send(address, kind=socket.SOCK_DGRAM, family=socket.AF_UNIX):
    with socket.socket(family, kind) as sender:
        sender.settimeout(5)
        sender.sendto(b"x", address)


def run(line):
    """In the child: becomes the attempt."""
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    if not line.startswith("py:"):
        os.execvp("bash", ["bash", "-c", line])
    exec(line[3:].strip(), globals())
    sys.stdout.flush()


def attempt(line):
    """Returns the exit code and what was written to standard error. An attempt that hangs is killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.dup2(writer, 2)
        os.close(reader)
        os.close(writer)
        try:
            run(line)
            os._exit(0)
        except BaseException as error:
            os.write(2, ("%s: %s" % (type(error).__name__, error)).encode())
            os._exit(1)
    os.close(writer)
    said, deadline = b"", time.monotonic() + SECONDS
    while select.select([reader], [], [], max(0, deadline - time.monotonic()))[0]:
        part = os.read(reader, 4096)
        if not part:
            break
        said += part
    else:
        os.killpg(child, signal.SIGKILL)
        said = b"did not end"
    os.close(reader)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said.decode(errors="replace")


def main():
    with open(sys.argv[1]) as file:
        wanted = json.load(file)
    os.environ.update(wanted["variables"])
    for name, line in wanted["attempts"]:
        os.environ.update(OUT=path("OUTSIDE", name), SRC=path("WORK", name), REPO=path("WORK", name, "repo"))
        code, said = attempt(line)
        print("RESULT", name, code, said.strip().rpartition("\n")[2], flush=True)
    print("RESULT end 0", flush=True)


if __name__ == "__main__":
    main()
