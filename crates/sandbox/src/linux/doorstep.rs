//! The command's side of a [`ProxyListener`]: a loopback that works, and a listener on it for the server.

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, bind,
    listen, sendmsg, socket_with, socketpair,
};

use super::{sys, view::at};
use crate::{
    SandboxError, SetupStep,
    door::{PROXY, ProxyListener},
};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 64;

/// The end that goes with the new process.
pub(crate) struct ListenerSender(OwnedFd);

/// Both ends.
pub(super) fn pair() -> Result<(ProxyListener, ListenerSender), SandboxError> {
    let (server, command) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(|error| SandboxError::prepare("the way to the proxy", error))?;
    Ok((ProxyListener(server), ListenerSender(command)))
}

impl ListenerSender {
    /// Runs in the child, in its own network and while it may still change it: nothing but system calls.
    pub(super) fn open(&self) -> io::Result<()> {
        at(SetupStep::Network, self.hand_over())
    }

    fn hand_over(&self) -> rustix::io::Result<()> {
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
