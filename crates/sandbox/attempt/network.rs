//! Attempts to reach somebody through a socket.

use std::{
    net::{TcpListener, TcpStream, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram, UnixStream},
    },
};

use crate::{
    scene::{Outcome, check, number, path},
    table::{Attempt, Class::*},
};

pub const ATTEMPTS: &[Attempt] = &[
    ("tcp-connect", Denied, |_| TcpStream::connect(("127.0.0.1", number("SCENE_TCP_PORT") as u16)).map(drop)),
    ("tcp-listen", Denied, |_| TcpListener::bind("127.0.0.1:0").map(drop)),
    ("tcp6-listen", Forbidden, |_| TcpListener::bind("[::1]:0").map(drop)),
    ("udp-send", Denied, |_| {
        UdpSocket::bind("127.0.0.1:0")?
            .send_to(b"x", ("127.0.0.1", number("SCENE_UDP_PORT") as u16))
            .map(drop)
    }),
    ("raw", Filtered, |_| socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)),
    ("ping", Filtered, |_| socket(libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP)),
    ("packet", Filtered, |_| socket(libc::AF_PACKET, libc::SOCK_RAW, 0)),
    ("netlink", Filtered, |_| socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)),
    ("netlink-events", Filtered, |_| {
        socket(libc::AF_NETLINK, libc::SOCK_DGRAM, libc::NETLINK_KOBJECT_UEVENT)
    }),
    ("udp-listen", Denied, |_| UdpSocket::bind("127.0.0.1:0").map(drop)),
    // Other ways to the same network, which rules about TCP would not see.
    ("multipath-tcp", Filtered, |_| socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP)),
    ("sctp", Filtered, |_| socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP)),
    ("express-data-path", Filtered, |_| socket(libc::AF_XDP, libc::SOCK_RAW, 0)),
    ("network-keys", Filtered, |_| socket(libc::AF_KEY, libc::SOCK_RAW, 2)),
    ("tipc", Filtered, |_| socket(libc::AF_TIPC, libc::SOCK_SEQPACKET, 0)),
    ("vsock", Filtered, |_| socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0)),
    ("kernel-crypto", Filtered, |_| socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0)),
    ("bluetooth", Filtered, |_| socket(libc::AF_BLUETOOTH, libc::SOCK_RAW, 1)),
    ("inet-pair", Filtered, |_| {
        let mut pair = [0; 2];
        // SAFETY: room for two descriptors.
        check(unsafe { libc::socketpair(libc::AF_INET, libc::SOCK_STREAM, 0, pair.as_mut_ptr()) }).map(drop)
    }),
    ("socket-of-another", Denied, |_| UnixStream::connect(path("SCENE_SOCKET")).map(drop)),
    ("socket-of-another-in-tmp", Denied, |_| UnixStream::connect(path("SCENE_TMP_SOCKET")).map(drop)),
    ("datagram-to-another", Denied, |_| {
        UnixDatagram::unbound()?.send_to(b"x", path("SCENE_DATAGRAM")).map(drop)
    }),
    ("datagram-to-another-from-a-pair", Denied, |_| {
        UnixDatagram::pair()?.0.send_to(b"x", path("SCENE_DATAGRAM")).map(drop)
    }),
    ("abstract-socket-of-another", Denied, |_| {
        let name = path("SCENE_ABSTRACT").into_os_string().into_encoded_bytes();
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?).map(drop)
    }),
];

fn socket(family: i32, kind: i32, protocol: i32) -> Outcome {
    // SAFETY: plain numbers.
    check(unsafe { libc::socket(family, kind, protocol) }).map(drop)
}
