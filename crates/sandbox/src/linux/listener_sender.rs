//! The new process's end of a [`ProxyListener`]: enables the loopback interface of its network namespace, opens the
//! listeners on it and sends them to the server.

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, bind,
    listen, sendmsg, socket_with, socketpair,
};

use super::{mount_view::in_step, sys};
use crate::{
    SandboxError, SetupStep,
    proxy_listener::{ProxyListener, ProxyPorts},
};

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 64;

/// The socket over which the new process sends its listeners.
pub(crate) struct ListenerSender {
    socket: OwnedFd,
    ports: ProxyPorts,
}

/// Creates both ends.
pub(super) fn pair(ports: ProxyPorts) -> Result<(ProxyListener, ListenerSender), SandboxError> {
    let (server, command) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(|error| SandboxError::prepare("the connection to the proxy", error))?;
    Ok((ProxyListener(server), ListenerSender { socket: command, ports }))
}

impl ListenerSender {
    /// Opens the listeners and sends them. Called between `fork` and `exec`, in the child's own network namespace and while
    /// it has the privilege to configure it. Makes system calls only.
    pub(super) fn open(&self) -> io::Result<()> {
        in_step(SetupStep::Network, self.send_listeners())
    }

    fn send_listeners(&self) -> rustix::io::Result<()> {
        let control = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        sys::raise_loopback(control.as_raw_fd())?;
        let http = open_listener(self.ports.http_address())?;
        let socks = if self.ports.socks == self.ports.http {
            None
        } else {
            Some(open_listener(self.ports.socks_address())?)
        };
        let one = [http.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let both = socks.as_ref().map(|socks| [http.as_fd(), socks.as_fd()]);
        control.push(SendAncillaryMessage::ScmRights(both.as_ref().map_or(&one[..], |both| &both[..])));
        sendmsg(&self.socket, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL).map(|_| ())
    }
}

fn open_listener(address: SocketAddr) -> rustix::io::Result<OwnedFd> {
    let listener = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&listener, &address)?;
    listen(&listener, BACKLOG)?;
    Ok(listener)
}
