//! The one way out of a network that a command has for itself.
//!
//! Behind a proxy, a command gets a network namespace with nothing but a loopback. Before it starts, its process
//! opens a listener there and hands it to the server. A socket belongs to the namespace that it was made in, so
//! what the command connects to is accepted by the server, outside. There is no helper within that could be
//! killed or talked into anything, and no port of the machine that anybody else could use.

use std::{
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener},
    os::fd::OwnedFd,
};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// Where a command finds its proxy. The loopback is the command's own, so the port is always free.
pub const PROXY: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3128));

/// What is received is not for commands that are started meanwhile.
#[cfg(target_os = "linux")]
const FLAGS: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const FLAGS: RecvFlags = RecvFlags::empty();

/// The server's end. Spawn the command first; its process puts the listener here before it becomes the command.
#[derive(Debug)]
pub struct ProxyListener(pub(crate) OwnedFd);

impl ProxyListener {
    /// The listener at [`PROXY`] inside. Does not wait once the command has been spawned.
    pub fn open(self) -> io::Result<TcpListener> {
        let mut byte = [0; 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        recvmsg(&self.0, &mut [IoSliceMut::new(&mut byte)], &mut control, FLAGS)?;
        let received = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        let closed = || io::Error::new(io::ErrorKind::UnexpectedEof, "the command has opened no listener");
        received.map(TcpListener::from).ok_or_else(closed)
    }
}
