"""Another program of the same user, as confined commands might find beside them.

Makes everything that such a program can have (sockets of all kinds, a terminal, memory, a pipe) in the directory
given as the first argument, prints where it all is as one line of JSON, and goes on until its input ends.
"""
import ctypes
import json
import os
import select
import socket
import sys

place = sys.argv[1]
LIBC = ctypes.CDLL(None, use_errno=True)
sockets = []


def listen(kind, address, family=socket.AF_UNIX):
    made = socket.socket(family, kind)
    made.bind(address)
    if kind != socket.SOCK_DGRAM:
        made.listen(128)
    made.setblocking(False)
    sockets.append(made)
    return made


def path(name):
    return os.path.join(place, name)


os.chdir(place)
listen(socket.SOCK_STREAM, path("stream"))
listen(socket.SOCK_SEQPACKET, path("packets"))
listen(socket.SOCK_DGRAM, path("datagram"))
listen(socket.SOCK_STREAM, "relative")
listen(socket.SOCK_DGRAM, "relative-datagram")
abstract = "codicil-escape-%d" % os.getpid()
listen(socket.SOCK_STREAM, "\0" + abstract)
listen(socket.SOCK_DGRAM, "\0" + abstract + "-datagram")
temporary = "/tmp/codicil-escape-%d.sock" % os.getpid()
listen(socket.SOCK_STREAM, temporary)
tcp = listen(socket.SOCK_STREAM, ("127.0.0.1", 0), socket.AF_INET)
udp = listen(socket.SOCK_DGRAM, ("127.0.0.1", 0), socket.AF_INET)
try:
    tcp6 = listen(socket.SOCK_STREAM, ("::1", 0), socket.AF_INET6).getsockname()[1]
except OSError:
    tcp6 = 0
os.mkfifo("fifo")
fifo = os.open("fifo", os.O_RDWR | os.O_NONBLOCK)
controller, terminal = os.openpty()
os.set_blocking(controller, False)
shared_memory = "/dev/shm/codicil-escape-%d" % os.getpid()
with open(shared_memory, "w") as file:
    file.write("kept")
segment = LIBC.shmget(0, 4096, 0o1600)
queue = "codicil-escape-%d" % os.getpid()
LIBC.mq_open(b"/" + queue.encode(), os.O_CREAT | os.O_RDWR, 0o600, None)
memory_file = os.memfd_create("neighbour")
secret = ctypes.create_string_buffer(b"neighbour-secret")
print(json.dumps({
    "NEIGHBOUR": os.getpid(), "ABSTRACT": abstract, "TMP_SOCKET": temporary, "TCP": tcp.getsockname()[1],
    "UDP": udp.getsockname()[1], "TCP6": tcp6, "TERMINAL": os.ttyname(terminal), "SHM": shared_memory,
    "SEGMENT": segment, "MEMORY_FILE": memory_file, "ADDRESS": ctypes.addressof(secret), "SOCKETS": place,
    "QUEUE": queue,
}), flush=True)

poll = select.poll()
by_number = {made.fileno(): made for made in sockets}
for descriptor in [0, fifo, controller, *by_number]:
    poll.register(descriptor, select.POLLIN)
while True:
    for descriptor, _ in poll.poll():
        made = by_number.get(descriptor)
        if descriptor == 0:
            for name in [temporary, shared_memory]:
                os.unlink(name)
            LIBC.shmctl(segment, 0, None)
            LIBC.mq_unlink(b"/" + queue.encode())
            os._exit(0)
        elif made is None:
            os.read(descriptor, 4096)
        elif made.type == socket.SOCK_DGRAM:
            made.recv(4096)
        else:
            made.accept()[0].close()
