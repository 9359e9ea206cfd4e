//! Attempts to reach other programs and the network.

use super::{Class::*, Line};
use codicil_sandbox::ConfinementGap::{AbstractSockets, Sockets};

/// Without a network.
pub const LINES: &[Line] = &[
    ("socket-stream", Denied, "py: connect(path('SOCKETS', 'stream'))"),
    ("socket-packets", Denied, "py: connect(path('SOCKETS', 'packets'), socket.SOCK_SEQPACKET)"),
    ("socket-datagram", Denied, "py: send(path('SOCKETS', 'datagram'))"),
    ("socket-datagram-connected", Denied, "py: connect(path('SOCKETS', 'datagram'), socket.SOCK_DGRAM)"),
    (
        "socket-datagram-message",
        Denied,
        "py: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, path('SOCKETS', 'datagram'))",
    ),
    (
        "socket-datagram-of-pair",
        Denied,
        "py: a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendto(b'x', path('SOCKETS', 'datagram'))",
    ),
    ("socket-relative", Denied, "py: os.chdir(path('SOCKETS')); connect('relative')"),
    ("socket-bound-relatively", Denied, "py: connect(path('SOCKETS', 'relative'))"),
    ("socket-relative-datagram", Denied, "py: os.chdir(path('SOCKETS')); send('relative-datagram')"),
    (
        "socket-through-link",
        Denied,
        "py: os.symlink(path('SOCKETS', 'stream'), path('SRC', 'l')); connect(path('SRC', 'l'))",
    ),
    (
        "socket-through-hard-link",
        Denied,
        "py: os.link(path('SOCKETS', 'stream'), path('SRC', 's')); connect(path('SRC', 's'))",
    ),
    (
        "socket-through-descriptor",
        Denied,
        "py: f = os.open(path('SOCKETS'), O_PATH); connect('/proc/self/fd/%d/stream' % f)",
    ),
    ("socket-through-root", Denied, "py: connect('/proc/self/root' + path('SOCKETS', 'stream'))"),
    ("socket-in-tmp", Denied, "py: connect(os.environ['TMP_SOCKET'])"),
    ("socket-abstract", Denied, "py: connect('\\0' + os.environ['ABSTRACT'])"),
    ("socket-abstract-datagram", Denied, "py: send('\\0' + os.environ['ABSTRACT'] + '-datagram')"),
    ("tcp-connect", Denied, "py: connect(('127.0.0.1', number('TCP')), family=socket.AF_INET)"),
    ("tcp-by-shell", Denied, "exec 9<> /dev/tcp/127.0.0.1/$TCP"),
    ("tcp-any-address", Denied, "py: connect(('0.0.0.0', number('TCP')), family=socket.AF_INET)"),
    (
        "tcp-mapped-address",
        Denied,
        "py: connect(('::ffff:127.0.0.1', number('TCP')), family=socket.AF_INET6)",
    ),
    ("tcp-six", Denied, "py: connect(('::1', number('TCP6')), family=socket.AF_INET6)"),
    (
        "tcp-with-first-data",
        Denied,
        "py: s = socket.socket(); s.sendto(b'x', 0x20000000, ('127.0.0.1', number('TCP')))",
    ),
    (
        "tcp-by-many-paths",
        Denied,
        "py: s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262); s.settimeout(5); s.connect(('127.0.0.1', number('TCP')))",
    ),
    ("tcp-listen", Denied, "py: s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()"),
    ("udp-send", Denied, "py: send(('127.0.0.1', number('UDP')), family=socket.AF_INET)"),
    ("udp-connect", Denied, "py: connect(('127.0.0.1', number('UDP')), socket.SOCK_DGRAM, socket.AF_INET)"),
    ("netlink", Denied, "py: socket.socket(16, socket.SOCK_RAW, 0)"),
    ("netlink-events", Denied, "py: socket.socket(16, socket.SOCK_RAW, 15)"),
    ("raw-socket", Denied, "py: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)"),
    ("ping-socket", Denied, "py: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1)"),
    ("packet-socket", Denied, "py: socket.socket(17, socket.SOCK_RAW, 0)"),
    ("machine-socket", Denied, "py: socket.socket(40, socket.SOCK_STREAM, 0)"),
    ("cipher-socket", Denied, "py: socket.socket(38, socket.SOCK_SEQPACKET, 0)"),
];

/// With a network, which is a network and nothing else.
pub const WITH_NETWORK: &[Line] = &[
    ("network-write-outside", Denied, "echo x > $OUT/file"),
    ("network-git-hook", Denied, "echo x > $REPO/.git/hooks/post-checkout"),
    ("network-credentials", Denied, "grep -q 'escape-secret[-]value' $SERVER_HOME/auth.json"),
    ("network-socket-stream", DeniedUnless(Sockets), "py: connect(path('SOCKETS', 'stream'))"),
    ("network-socket-datagram", DeniedUnless(Sockets), "py: send(path('SOCKETS', 'datagram'))"),
    ("network-socket-relative", DeniedUnless(Sockets), "py: os.chdir(path('SOCKETS')); connect('relative')"),
    ("network-socket-in-tmp", DeniedUnless(Sockets), "py: connect(os.environ['TMP_SOCKET'])"),
    ("network-socket-abstract", DeniedUnless(AbstractSockets), "py: connect('\\0' + os.environ['ABSTRACT'])"),
    (
        "network-socket-abstract-datagram",
        DeniedUnless(AbstractSockets),
        "py: send('\\0' + os.environ['ABSTRACT'] + '-datagram')",
    ),
    ("network-raw-socket", Denied, "py: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)"),
    ("network-packet-socket", Denied, "py: socket.socket(17, socket.SOCK_RAW, 0)"),
    ("network-machine-socket", Denied, "py: socket.socket(40, socket.SOCK_STREAM, 0)"),
    ("network-queue-of-calls", Denied, "py: reaches('io_uring_setup', 0, None)"),
    ("network-tcp-connect", Allowed, "py: connect(('127.0.0.1', number('TCP')), family=socket.AF_INET)"),
    ("network-udp-send", Allowed, "py: send(('127.0.0.1', number('UDP')), family=socket.AF_INET)"),
    (
        "network-tcp-server",
        Allowed,
        "py: s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); connect(s.getsockname(), family=socket.AF_INET); s.accept()",
    ),
    ("network-write-inside", Allowed, "echo x > $SRC/new"),
];
