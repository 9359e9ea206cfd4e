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

/// The address of the proxy for a command. The loopback interface is the command's own, so the port is always free.
pub const PROXY: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3128));

/// Commands that are started at the same time must not inherit the received listener.
#[cfg(target_os = "linux")]
const FLAGS: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const FLAGS: RecvFlags = RecvFlags::empty();

/// The socket from which the server receives the listener. Spawn the command first: its process sends the listener before
/// it becomes the command.
#[derive(Debug)]
pub struct ProxyListener(pub(crate) OwnedFd);

impl ProxyListener {
    /// Receives the listener at [`PROXY`]. Does not block once the command has been spawned.
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
