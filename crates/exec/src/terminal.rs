//! Opens pseudo-terminals and sets their size.

use std::{io, os::fd::OwnedFd};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, unlockpt},
    termios::{InputModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize},
};

use crate::spec::TerminalSize;

/// Both ends of a new terminal.
pub(crate) struct TerminalPair {
    /// The server's end.
    pub(crate) controller: OwnedFd,
    /// The program's end. The server must close it once the program has it; otherwise the controller never sees the
    /// end of the output.
    pub(crate) user: OwnedFd,
}

pub(crate) fn open(size: TerminalSize) -> io::Result<TerminalPair> {
    let controller = open_controller()?;
    grantpt(&controller)?;
    unlockpt(&controller)?;
    let user = open_user(&controller)?;
    let mut modes = tcgetattr(&user)?;
    // Without this, erasing a character in line mode erases one byte of it.
    modes.input_modes |= InputModes::IUTF8;
    tcsetattr(&user, OptionalActions::Now, &modes)?;
    resize(&controller, size)?;
    Ok(TerminalPair { controller, user })
}

/// Sets the size of a terminal. The kernel notifies the programs in it with `SIGWINCH`.
pub(crate) fn resize(controller: &OwnedFd, size: TerminalSize) -> io::Result<()> {
    let size = Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(controller, size)?)
}

#[cfg(target_os = "linux")]
const FLAGS: OpenptFlags = OpenptFlags::RDWR.union(OpenptFlags::NOCTTY).union(OpenptFlags::CLOEXEC);

#[cfg(target_os = "linux")]
fn open_controller() -> io::Result<OwnedFd> {
    Ok(openpt(FLAGS)?)
}

/// Opens the program's end through the controller. Its name could mean another terminal if `/dev/pts` is another mount.
#[cfg(target_os = "linux")]
fn open_user(controller: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(rustix::pty::ioctl_tiocgptpeer(controller, FLAGS)?)
}

#[cfg(not(target_os = "linux"))]
fn open_controller() -> io::Result<OwnedFd> {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    rustix::io::fcntl_setfd(&controller, rustix::io::FdFlags::CLOEXEC)?;
    Ok(controller)
}

#[cfg(not(target_os = "linux"))]
fn open_user(controller: &OwnedFd) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};

    let name = rustix::pty::ptsname(controller, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(name, flags, Mode::empty())?)
}
