//! Attempts that must succeed: what a confined command can still do.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::{
        fd::AsRawFd,
        unix::{
            fs::{OpenOptionsExt, PermissionsExt, symlink},
            net::{UnixDatagram, UnixListener, UnixStream},
        },
    },
    path::Path,
    process::{Command, Stdio},
    thread,
};

use crate::{
    context::{Outcome, check, path},
    files::mknod,
    table::{Attempt, Class::*},
};

pub const ATTEMPTS: &[Attempt] = &[
    ("write-inside", Allowed, |s| fs::write(s.inside().join("new"), "text")),
    ("change-inside", Allowed, |s| fs::write(s.inside().join("mine"), "text")),
    ("change-at-the-top", Allowed, |s| fs::write(s.workspace().join("top"), "text")),
    ("create-at-the-top", Allowed, |s| fs::write(s.workspace().join("new"), "text")),
    ("move-inside", Allowed, |s| {
        fs::create_dir(s.inside().join("folder"))?;
        fs::rename(s.inside().join("mine"), s.inside().join("folder/mine"))?;
        fs::hard_link(s.inside().join("folder/mine"), s.inside().join("hard"))?;
        symlink("hard", s.inside().join("link"))?;
        fs::remove_dir_all(s.inside().join("folder"))
    }),
    ("mode-inside", Allowed, |s| {
        fs::set_permissions(s.inside().join("mine"), fs::Permissions::from_mode(0o755))
    }),
    ("fifo-inside", Allowed, |s| mknod(&s.inside().join("fifo"), libc::S_IFIFO)),
    ("truncate-inside", Allowed, |s| {
        OpenOptions::new().write(true).open(s.inside().join("mine"))?.set_len(1)
    }),
    ("write-tmp", Allowed, |_| create_and_remove(&path("ATTEMPT_TMP"))),
    ("write-tmpdir", Allowed, |_| create_and_remove(&path("TMPDIR"))),
    ("read-outside", Allowed, |s| match fs::read_to_string(s.outside().join("file"))?.as_str() {
        "kept" => fs::read_dir(s.outside()).map(drop),
        other => Err(io::Error::other(other.to_owned())),
    }),
    ("read-metadata", Allowed, |s| fs::read(s.workspace().join(".git/config")).map(drop)),
    ("read-system", Allowed, |_| {
        fs::read("/etc/passwd")?;
        fs::read("/proc/self/maps")?;
        fs::read_to_string("/proc/cpuinfo").map(drop)
    }),
    ("null-device", Allowed, |_| {
        OpenOptions::new().write(true).open("/dev/null")?.write_all(b"x")?;
        File::open("/dev/urandom")?.read_exact(&mut [0; 8])?;
        File::open("/dev/zero")?.read_exact(&mut [0; 8])
    }),
    ("shared-memory", Allowed, |_| {
        fs::write("/dev/shm/attempt", "text")?;
        fs::remove_file("/dev/shm/attempt")
    }),
    ("terminal", Allowed, |_| terminal()),
    ("threads", Allowed, |_| thread::spawn(|| 6).join().map(drop).map_err(|_| io::Error::other("panicked"))),
    ("shell", Allowed, |_| {
        let text = Command::new("sh").args(["-c", "echo a | tr a b; kill -0 $$"]).output()?;
        if text.stdout == b"b\n" && text.status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("{text:?}")))
        }
    }),
    ("signal-own-child", Allowed, |_| {
        let mut child = Command::new("sleep").arg("100").stdin(Stdio::null()).spawn()?;
        child.kill()?;
        child.wait().map(drop)
    }),
    ("socket-pair", Allowed, |_| {
        let (mut writer, mut reader) = UnixStream::pair()?;
        writer.write_all(b"x")?;
        reader.read_exact(&mut [0; 1])
    }),
    ("socket-inside", Allowed, |s| {
        let address = s.inside().join("socket");
        let listener = UnixListener::bind(&address)?;
        let client = thread::spawn(move || UnixStream::connect(address)?.write_all(b"x"));
        let connected = client.join().map_err(|_| io::Error::other("panicked"))?;
        connected?;
        listener.accept()?.0.read_exact(&mut [0; 1])
    }),
    ("datagram-inside", Allowed, |s| {
        let receiver = UnixDatagram::bind(s.inside().join("datagram"))?;
        UnixDatagram::unbound()?.send_to(b"x", s.inside().join("datagram"))?;
        receiver.recv(&mut [0; 1]).map(drop)
    }),
];

fn create_and_remove(directory: &Path) -> Outcome {
    let name = directory.join(format!("codicil-attempt-{}", std::process::id()));
    fs::write(&name, "text")?;
    fs::remove_file(name)
}

/// Opens both ends of a pseudo-terminal.
fn terminal() -> Outcome {
    let options = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).clone();
    let controller = options.open("/dev/ptmx")?;
    let mut number = 0u32;
    let unlocked = 0i32;
    // SAFETY: these two requests read and write one int each.
    unsafe {
        check(libc::ioctl(controller.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlocked))?;
        check(libc::ioctl(controller.as_raw_fd(), libc::TIOCGPTN, &raw mut number))?;
    }
    options.open(format!("/dev/pts/{number}"))?.write_all(b"x")
}
