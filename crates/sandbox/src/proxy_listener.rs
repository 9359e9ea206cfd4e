//! The server's end of the only connection between a command's own network namespace and the outside.
//!
//! A command behind a proxy gets a network namespace with nothing but a loopback interface. Before it becomes the
//! command, its process opens a listener there and sends it to the server (`linux/listener_sender.rs`). A socket belongs
//! to the namespace it was created in, so the server, outside, accepts what the command connects to. There is no helper
//! process inside that the command could kill or attack, and no port of the machine that other programs could use.

use std::{
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener},
    os::fd::OwnedFd,
};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// The ports of the proxy for a command, on the command's own loopback interface, where every port is free. Both lead to the
/// same proxy; equal ports are one listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyPorts {
    pub http: u16,
    pub socks: u16,
}

impl ProxyPorts {
    /// The ports unless the configuration names others.
    pub const DEFAULT: Self = Self { http: 3128, socks: 3128 };

    pub const fn http_address(self) -> SocketAddr {
        loopback(self.http)
    }

    pub const fn socks_address(self) -> SocketAddr {
        loopback(self.socks)
    }
}

const fn loopback(port: u16) -> SocketAddr {
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
}

/// Commands that are started at the same time must not inherit the received listener.
#[cfg(target_os = "linux")]
const FLAGS: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const FLAGS: RecvFlags = RecvFlags::empty();

/// The socket from which the server receives the listeners. Spawn the command first: its process sends the listeners before
/// it becomes the command.
#[derive(Debug)]
pub struct ProxyListener(pub(crate) OwnedFd);

impl ProxyListener {
    /// Receives the listeners of the command's ports. Does not block once the command has been spawned.
    pub fn open(self) -> io::Result<Vec<TcpListener>> {
        let mut byte = [0; 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        recvmsg(&self.0, &mut [IoSliceMut::new(&mut byte)], &mut control, FLAGS)?;
        let received = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        });
        let listeners: Vec<_> = received.flatten().map(TcpListener::from).collect();
        if listeners.is_empty() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the command has opened no listener"));
        }
        Ok(listeners)
    }
}
