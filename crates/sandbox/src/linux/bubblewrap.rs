//! The plan as a command line for `bwrap`.
//!
//! `bwrap` creates missing mount points. So every path is mounted on itself, and with options that skip missing paths.
//! Sockets appear and disappear, so they are covered before `bwrap` starts (`child.rs`).

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
};

use super::{
    mount_view::NamespacePrivilege,
    plan::{EnforcementPlan, PLATFORM, PlannedMount},
};
use crate::{
    access::ReadAccess,
    server_places::{EntryKind, ReadableEntry},
};

/// A `bwrap` that was tried and works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bubblewrap {
    pub path: PathBuf,
    /// Whether it creates a user namespace. As root it does so only with an option.
    pub user_namespace: bool,
    /// The privilege by which sockets are covered before it starts. Without one, commands can connect to no socket.
    pub covers: Option<NamespacePrivilege>,
}

/// The options of `bwrap` besides mounts.
pub(crate) struct BubblewrapOptions {
    /// Whether the command stays in the network namespace that `bwrap` is started in.
    pub network: bool,
    /// The descriptor of the file that contains the seccomp filter.
    pub filter: i32,
}

impl Bubblewrap {
    /// Returns the arguments before the command.
    pub(crate) fn arguments(&self, plan: &EnforcementPlan, options: &BubblewrapOptions) -> Vec<OsString> {
        let mut line = BubblewrapLine::default();
        line.words(&["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]);
        line.words(&["--cap-drop", "ALL"]);
        line.word_if(self.user_namespace, "--unshare-user");
        line.word_if(!options.network, "--unshare-net");
        line.words(&["--die-with-parent"]);
        line.words(&["--add-seccomp-fd", &options.filter.to_string()]);
        line.readable(&plan.access.reads);
        // Root may write the kernel's settings even without capabilities, so `/proc` is read-only.
        line.words(&["--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc"]);
        let mounts = plan.mounts();
        for (path, mount) in &mounts {
            match mount {
                PlannedMount::Writable => line.bind("--bind-try", path, path),
                PlannedMount::ReadOnly | PlannedMount::Readable => line.bind("--ro-bind-try", path, path),
                PlannedMount::Covered => {}
                PlannedMount::Hidden => line.hide(path, &plan.access.hidden.readable),
            }
        }
        for (path, _) in mounts.iter().filter(|(_, mount)| **mount == PlannedMount::Hidden) {
            line.0.extend([OsStr::new("--remount-ro"), path.as_os_str()].map(OsStr::to_owned));
        }
        // With restricted reading, the root is an empty file system in memory.
        if plan.access.reads != ReadAccess::Everywhere {
            line.words(&["--remount-ro", "/"]);
        }
        line.words(&["--"]);
        line.0
    }
}

#[derive(Default)]
struct BubblewrapLine(Vec<OsString>);

impl BubblewrapLine {
    fn words(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    fn word_if(&mut self, condition: bool, word: &str) {
        if condition {
            self.words(&[word]);
        }
    }

    fn bind(&mut self, option: &str, from: &Path, to: &Path) {
        self.0.extend([OsStr::new(option), from.as_os_str(), to.as_os_str()].map(OsStr::to_owned));
    }

    /// Replaces a folder by an empty one with the readable links. Mounts inside it follow later.
    fn hide(&mut self, path: &Path, readable: &[ReadableEntry]) {
        self.0.extend([OsStr::new("--tmpfs"), path.as_os_str()].map(OsStr::to_owned));
        for entry in readable {
            if let EntryKind::Link(target) = &entry.kind {
                self.bind("--symlink", target, &entry.path);
            }
        }
    }

    fn readable(&mut self, reads: &ReadAccess) {
        let ReadAccess::Only { platform, roots } = reads else {
            return self.bind("--ro-bind", Path::new("/"), Path::new("/"));
        };
        for path in platform.then_some(PLATFORM).into_iter().flatten().map(Path::new) {
            // `/bin` is a symbolic link on most systems, and must be one inside as well.
            match fs::read_link(path) {
                Ok(target) => self.bind("--symlink", &target, path),
                Err(_) => self.bind("--ro-bind-try", path, path),
            }
        }
        for root in roots {
            self.bind("--ro-bind-try", root, root);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        access::{CommandAccess, RootRole, WritableRoot},
        metadata::ProjectMetadata,
        server_places::HiddenPlaces,
    };

    fn line(reads: ReadAccess, network: bool) -> String {
        let root = WritableRoot { path: "/w".into(), role: RootRole::Workspace };
        let plan = EnforcementPlan {
            access: CommandAccess { reads, roots: vec![root], network, hidden: HiddenPlaces::default() },
            metadata: ProjectMetadata { paths: vec!["/w/.git".into()], ..ProjectMetadata::default() },
            sockets: vec!["/usr".into()],
            proxy: None,
            gaps: vec![],
        };
        let options = BubblewrapOptions { network, filter: 9 };
        let program = Bubblewrap { path: "/usr/bin/bwrap".into(), user_namespace: false, covers: None };
        let words = program.arguments(&plan, &options);
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_command_line_follows_the_plan() {
        assert_eq!(
            line(ReadAccess::Everywhere, false),
            "--unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --cap-drop ALL --unshare-net \
             --die-with-parent --add-seccomp-fd 9 --ro-bind / / --dev /dev --proc /proc --remount-ro /proc \
             --bind-try /w /w --ro-bind-try /w/.git /w/.git --"
        );
        assert!(!line(ReadAccess::Everywhere, true).contains("--unshare-net"));
    }

    #[test]
    fn restricted_reading_starts_from_an_empty_root() {
        let line = line(ReadAccess::Only { platform: true, roots: vec!["/srv".into()] }, false);
        assert!(!line.contains("--ro-bind / /"), "{line}");
        assert!(
            line.contains("--ro-bind-try /usr /usr") && line.contains("--ro-bind-try /srv /srv"),
            "{line}"
        );
        assert!(line.ends_with("--remount-ro / --"), "{line}");
    }
}
