//! Attempts to reach other programs through a socket.

use std::{
    io::{self, Read},
    net::{TcpListener, TcpStream, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram, UnixStream},
    },
};

use crate::{
    context::{Outcome, check, number, path},
    table::{Attempt, Class::*},
};

pub const ATTEMPTS: &[Attempt] = &[
    ("tcp-connect", Denied, |_| {
        TcpStream::connect(("127.0.0.1", number("ATTEMPT_TCP_PORT") as u16)).map(drop)
    }),
    ("loopback-of-its-own", Forbidden, |_| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        TcpStream::connect(listener.local_addr()?).map(drop)
    }),
    ("proxy", Forbidden, |_| {
        let mut greeting = String::new();
        TcpStream::connect(codicil_sandbox::ProxyPorts::DEFAULT.http_address())?
            .take(5)
            .read_to_string(&mut greeting)?;
        if greeting == "proxy" { Ok(()) } else { Err(io::Error::other(greeting)) }
    }),
    // Sending may succeed although the packet is dropped later, so the test asks the receiver whether it has arrived.
    ("udp-to-another", Forbidden, |_| {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.send_to(b"x", ("127.0.0.1", number("ATTEMPT_UDP_PORT") as u16)).map(drop)
    }),
    ("tcp-without-connect", Forbidden, |_| fast_open(number("ATTEMPT_TCP_PORT") as u16)),
    ("tcp-listen", Denied, |_| TcpListener::bind("127.0.0.1:0").map(drop)),
    ("tcp6-listen", Forbidden, |_| TcpListener::bind("[::1]:0").map(drop)),
    ("udp-send", Denied, |_| {
        UdpSocket::bind("127.0.0.1:0")?
            .send_to(b"x", ("127.0.0.1", number("ATTEMPT_UDP_PORT") as u16))
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
    // Other protocols of the same network, which rules for TCP do not cover.
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
    ("socket-of-another", Denied, |_| UnixStream::connect(path("ATTEMPT_SOCKET")).map(drop)),
    ("socket-of-another-in-tmp", Denied, |_| UnixStream::connect(path("ATTEMPT_TMP_SOCKET")).map(drop)),
    ("datagram-to-another", Denied, |_| {
        UnixDatagram::unbound()?.send_to(b"x", path("ATTEMPT_DATAGRAM")).map(drop)
    }),
    ("datagram-to-another-from-a-pair", Denied, |_| {
        UnixDatagram::pair()?.0.send_to(b"x", path("ATTEMPT_DATAGRAM")).map(drop)
    }),
    ("abstract-socket-of-another", Denied, |_| {
        let name = path("ATTEMPT_ABSTRACT").into_os_string().into_encoded_bytes();
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?).map(drop)
    }),
];

/// Sends data with the first packet of a connection, which some rules for connections do not cover.
fn fast_open(port: u16) -> Outcome {
    // SAFETY: plain numbers, and an address and a buffer that outlive the calls.
    unsafe {
        let socket = check(libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0))? as i32;
        let mut address: libc::sockaddr_in = std::mem::zeroed();
        address.sin_family = libc::AF_INET as libc::sa_family_t;
        address.sin_port = port.to_be();
        address.sin_addr.s_addr = u32::from(std::net::Ipv4Addr::LOCALHOST).to_be();
        let size = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        let flags = libc::MSG_FASTOPEN;
        check(libc::sendto(socket, b"x".as_ptr().cast(), 1, flags, (&raw const address).cast(), size) as i64)
            .map(drop)
    }
}

fn socket(family: i32, kind: i32, protocol: i32) -> Outcome {
    // SAFETY: plain numbers.
    check(unsafe { libc::socket(family, kind, protocol) }).map(drop)
}
