//! Attempts to change repository metadata and agent configuration inside the workspace.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::Write,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use crate::{
    context::Outcome,
    table::{Attempt, Class::*},
};

pub const ATTEMPTS: &[Attempt] = &[
    ("git-config", Denied, |s| write(&s.repository().join(".git/config"))),
    ("git-hook", Denied, |s| File::create_new(s.repository().join(".git/hooks/post-checkout")).map(drop)),
    ("git-remove", Denied, |s| fs::remove_file(s.repository().join(".git/config"))),
    ("git-remove-all", Denied, |s| fs::remove_dir_all(s.repository().join(".git"))),
    ("git-replace", Denied, |s| fs::rename(s.inside().join("mine"), s.repository().join(".git/config"))),
    ("git-rename", Denied, |s| fs::rename(s.repository().join(".git"), s.repository().join("moved"))),
    ("git-rename-hooks", Denied, |s| fs::rename(s.repository().join(".git/hooks"), s.inside().join("moved"))),
    ("git-hard-link", Denied, |s| {
        fs::hard_link(s.repository().join(".git/config"), s.inside().join("hard"))?;
        write(&s.inside().join("hard"))
    }),
    ("git-through-symlink", Denied, |s| {
        symlink(s.repository().join(".git"), s.inside().join("link"))?;
        write(&s.inside().join("link/config"))
    }),
    ("git-after-moving-the-repository", Denied, |s| {
        let moved = s.inside().join("moved");
        fs::rename(s.repository(), &moved)?;
        let written = write(&moved.join(".git/config"));
        fs::rename(&moved, s.repository())?;
        written
    }),
    ("git-mode", Denied, |s| {
        fs::set_permissions(s.repository().join(".git/config"), Permissions::from_mode(0o777))
    }),
    ("git-of-the-workspace", Denied, |s| write(&s.workspace().join(".git/config"))),
    ("git-through-working-directory", Denied, |_| write(Path::new("/proc/self/cwd/.git/config"))),
    ("codex-config", Denied, |s| write(&s.repository().join(".codex/config"))),
    ("codex-create", Denied, |s| File::create_new(s.workspace().join(".codex/new")).map(drop)),
    ("codicil-config", Denied, |s| write(&s.repository().join(".codicil/config"))),
    ("agents-config", Denied, |s| write(&s.repository().join(".agents/config"))),
    ("git-file", Denied, |s| write(&s.repository().join("tree/.git"))),
    ("git-file-remove", Denied, |s| fs::remove_file(s.repository().join("tree/.git"))),
    ("git-file-replace", Denied, |s| fs::rename(s.inside().join("mine"), s.repository().join("tree/.git"))),
    ("git-file-target", Denied, |s| write(&s.repository().join("store/config"))),
];

fn write(path: &Path) -> Outcome {
    OpenOptions::new().write(true).open(path)?.write_all(b"changed")
}
