//! The new process's end of a [`ProxyListener`]: enables the loopback interface of its network namespace, opens a
//! listener on it and sends that to the server.

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, bind,
    listen, sendmsg, socket_with, socketpair,
};

use super::{mount_view::in_step, sys};
use crate::{
    SandboxError, SetupStep,
    proxy_listener::{PROXY, ProxyListener},
};

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 64;

/// The socket over which the new process sends its listener.
pub(crate) struct ListenerSender(OwnedFd);

/// Creates both ends.
pub(super) fn pair() -> Result<(ProxyListener, ListenerSender), SandboxError> {
    let (server, command) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(|error| SandboxError::prepare("the way to the proxy", error))?;
    Ok((ProxyListener(server), ListenerSender(command)))
}

impl ListenerSender {
    /// Opens the listener and sends it. Called between `fork` and `exec`, in the child's own network namespace and while
    /// it has the privilege to configure it. Makes system calls only.
    pub(super) fn open(&self) -> io::Result<()> {
        in_step(SetupStep::Network, self.send_listener())
    }

    fn send_listener(&self) -> rustix::io::Result<()> {
        let control = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        sys::raise_loopback(control.as_raw_fd())?;
        let listener = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        bind(&listener, &PROXY)?;
        listen(&listener, BACKLOG)?;
        let files = [listener.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&files));
        sendmsg(&self.0, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL).map(|_| ())
    }
}
