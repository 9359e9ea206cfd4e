//! Attempts to change files outside the workspace.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::{
        fd::FromRawFd,
        unix::{
            fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink},
            net::UnixListener,
        },
    },
    path::Path,
    time::SystemTime,
};

use crate::{
    confine::LEFT_OPEN,
    context::{Outcome, c, call, check, path},
    table::{Attempt, Class::*},
};

pub const ATTEMPTS: &[Attempt] = &[
    ("write-outside", Denied, |s| write(&s.outside().join("file"))),
    ("append-outside", Denied, |s| {
        OpenOptions::new().append(true).open(s.outside().join("file"))?.write_all(b"more")
    }),
    ("create-outside", Denied, |s| File::create_new(s.outside().join("new")).map(drop)),
    ("truncate-outside", Denied, |s| {
        // SAFETY: the path is a C string.
        check(unsafe { libc::truncate(c(&s.outside().join("file")).as_ptr(), 0) }).map(drop)
    }),
    ("truncate-by-reading-outside", Denied, |s| {
        let flags = libc::O_TRUNC;
        OpenOptions::new().read(true).custom_flags(flags).open(s.outside().join("file"))?;
        match fs::metadata(s.outside().join("file"))?.len() {
            0 => Ok(()),
            _ => Err(io::Error::from_raw_os_error(libc::EACCES)),
        }
    }),
    ("write-through-symlink", Denied, |s| {
        let link = s.inside().join("link");
        symlink(s.outside().join("file"), &link)?;
        write(&link)
    }),
    ("write-through-directory-symlink", Denied, |s| {
        let link = s.inside().join("link");
        symlink(s.outside(), &link)?;
        write(&link.join("file"))
    }),
    ("write-through-hard-link", Denied, |s| {
        let link = s.inside().join("hard");
        fs::hard_link(s.outside().join("file"), &link)?;
        write(&link)
    }),
    ("hard-link-to-outside", Denied, |s| fs::hard_link(s.inside().join("mine"), s.outside().join("new"))),
    ("rename-from-outside", Denied, |s| fs::rename(s.outside().join("file"), s.inside().join("taken"))),
    ("rename-to-outside", Denied, |s| fs::rename(s.inside().join("mine"), s.outside().join("new"))),
    ("rename-over-outside", Denied, |s| fs::rename(s.inside().join("mine"), s.outside().join("file"))),
    ("rename-outside", Denied, |s| fs::rename(s.outside().join("file"), s.outside().join("new"))),
    ("exchange-with-outside", Denied, |s| {
        let inside = c(&s.inside().join("mine"));
        let outside = c(&s.outside().join("file"));
        let at = libc::AT_FDCWD as usize;
        let flags = libc::RENAME_EXCHANGE as usize;
        call(libc::SYS_renameat2, &[at, inside.as_ptr() as usize, at, outside.as_ptr() as usize, flags])
            .map(drop)
    }),
    ("rename-workspace", Forbidden, |s| fs::rename(s.workspace(), s.workspace().with_file_name("moved"))),
    ("remove-outside", Denied, |s| fs::remove_file(s.outside().join("file"))),
    ("make-directory-outside", Denied, |s| fs::create_dir(s.outside().join("new"))),
    ("remove-directory-outside", Denied, |s| fs::remove_dir(s.outside().join("folder"))),
    ("symlink-outside", Denied, |s| symlink("anything", s.outside().join("new"))),
    ("fifo-outside", Denied, |s| mknod(&s.outside().join("new"), libc::S_IFIFO)),
    ("mknod-file-outside", Denied, |s| mknod(&s.outside().join("new"), libc::S_IFREG)),
    ("socket-outside", Denied, |s| UnixListener::bind(s.outside().join("new")).map(drop)),
    ("unnamed-file-outside", Denied, |s| {
        OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(s.outside()).map(drop)
    }),
    ("pipe-outside", Denied, |_| {
        let options =
            OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path("ATTEMPT_PIPE"));
        options?.write_all(b"x")
    }),
    ("shared-memory-of-another", Denied, |_| write(&path("ATTEMPT_SHARED"))),
    ("write-through-proc-root", Denied, |s| write_below(Path::new("/proc/self/root"), &s.outside())),
    ("write-through-server-root", Denied, |s| {
        write_below(Path::new(&format!("/proc/{}/root", s.server())), &s.outside())
    }),
    ("write-through-server-descriptor", Denied, |s| {
        // Tries every file that the server has open.
        let mut last = io::Error::from_raw_os_error(libc::ENOENT);
        for entry in fs::read_dir(format!("/proc/{}/fd", s.server()))?.flatten() {
            let is_file = fs::metadata(entry.path()).is_ok_and(|found| found.is_file());
            match is_file.then(|| write(&entry.path())) {
                Some(Ok(())) => return Ok(()),
                Some(Err(error)) => last = error,
                None => {}
            }
        }
        Err(last)
    }),
    ("left-open-descriptor", Denied, |_| {
        // SAFETY: if the number is open at all, it was left open for this attempt.
        let mut file = unsafe { File::from_raw_fd(LEFT_OPEN) };
        file.write_all(b"more")
    }),
    ("mode-outside", Denied, |s| {
        fs::set_permissions(s.outside().join("file"), fs::Permissions::from_mode(0o777))
    }),
    ("mode-of-open-file-outside", Denied, |s| {
        File::open(s.outside().join("file"))?.set_permissions(fs::Permissions::from_mode(0o777))
    }),
    ("owner-outside", Denied, |s| {
        let found = fs::metadata(s.outside().join("file"))?;
        std::os::unix::fs::chown(s.outside().join("file"), Some(found.uid()), Some(found.gid()))
    }),
    ("times-outside", Denied, |s| File::open(s.outside().join("file"))?.set_modified(SystemTime::UNIX_EPOCH)),
    ("attribute-outside", Denied, |s| {
        let file = c(&s.outside().join("file"));
        let name = c"user.test";
        // SAFETY: C strings, and a value of the length given.
        check(unsafe { libc::setxattr(file.as_ptr(), name.as_ptr(), b"x".as_ptr().cast(), 1, 0) }).map(drop)
    }),
];

fn write(path: &Path) -> Outcome {
    OpenOptions::new().write(true).open(path)?.write_all(b"changed")
}

fn write_below(root: &Path, path: &Path) -> Outcome {
    write(&root.join(path.strip_prefix("/").unwrap()).join("file"))
}

pub fn mknod(path: &Path, kind: libc::mode_t) -> Outcome {
    // SAFETY: the path is a C string.
    check(unsafe { libc::mknod(c(path).as_ptr(), kind | 0o600, libc::makedev(1, 3)) }).map(drop)
}
