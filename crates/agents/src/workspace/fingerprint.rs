//! The fingerprint of a workspace.

use std::{fmt, os::unix::ffi::OsStrExt, path::Path};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{
    copy::{FileDigest, MountedFile},
    mount::HostMount,
};

/// A hash of a workspace's mounts, budgets and files. Equal workspaces have equal fingerprints, wherever and whenever
/// they were created. Later changes by an agent do not affect it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Part of every hash, so that a different scheme yields different fingerprints.
const VERSION: &[u8] = b"codicil-workspace-1";

pub(super) fn fingerprint<'f>(
    mounts: &[HostMount],
    budgets: [u64; 2],
    files: impl IntoIterator<Item = (&'f MountedFile, &'f FileDigest)>,
) -> Fingerprint {
    let mut parts = FingerprintHasher(Sha256::new());
    parts.bytes(VERSION);
    let mut mounts: Vec<_> = mounts.iter().collect();
    mounts.sort_by(|a, b| (&a.mount_path, &a.host_path).cmp(&(&b.mount_path, &b.host_path)));
    parts.number(mounts.len() as u64);
    mounts.into_iter().for_each(|mount| parts.mount(mount));
    budgets.into_iter().for_each(|budget| parts.number(budget));
    let mut files: Vec<_> = files.into_iter().collect();
    files.sort_by(|(a, _), (b, _)| a.path.cmp(&b.path));
    for (file, digest) in files {
        parts.path(&file.path);
        parts.number(digest.is_executable.into());
        parts.bytes(&digest.content);
    }
    Fingerprint(hex(&parts.0.finalize()))
}

/// Hashes each part with its length, so that different sequences cannot collide.
struct FingerprintHasher(Sha256);

impl FingerprintHasher {
    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
    }

    fn number(&mut self, number: u64) {
        self.0.update(number.to_be_bytes());
    }

    fn path(&mut self, path: &Path) {
        self.bytes(path.as_os_str().as_bytes());
    }

    fn globs(&mut self, globs: &[String]) {
        let mut globs: Vec<_> = globs.iter().collect();
        globs.sort();
        self.number(globs.len() as u64);
        globs.into_iter().for_each(|glob| self.bytes(glob.as_bytes()));
    }

    fn mount(&mut self, mount: &HostMount) {
        self.path(&mount.host_path);
        self.path(mount.mount_path.as_deref().unwrap_or(Path::new("")));
        self.number(mount.mount_path.is_some().into());
        self.globs(&mount.include);
        self.globs(&mount.exclude);
        self.number(mount.max_bytes.is_some().into());
        self.number(mount.max_bytes.unwrap_or_default());
        self.bytes(format!("{:?}", mount.symlinks).as_bytes());
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_the_order_changes_the_fingerprint() {
        let mount = |path: &str| HostMount::new(path).include("a").include("b");
        let file = |path: &str, content: u8| {
            let file = MountedFile { path: path.into(), bytes: 1 };
            (file, FileDigest { is_executable: false, content: [content; 32] })
        };
        let of = |mounts: &[HostMount], budgets, files: &[(MountedFile, FileDigest)]| {
            fingerprint(mounts, budgets, files.iter().map(|(file, digest)| (file, digest)))
        };
        let one = mount("/x");
        let two = mount("/y");
        let a = file("a", 1);
        let b = file("b", 2);
        let first = of(&[one.clone(), two.clone()], [1, 2], &[a.clone(), b.clone()]);
        let again = HostMount::new("/x").include("b").include("a");
        assert_eq!(first, of(&[two.clone(), again], [1, 2], &[b.clone(), a.clone()]));
        let others = [
            of(std::slice::from_ref(&one), [1, 2], &[a.clone(), b.clone()]),
            of(&[one.clone(), two.clone().exclude("c")], [1, 2], &[a.clone(), b.clone()]),
            of(&[one.clone(), two.clone().max_bytes(9)], [1, 2], &[a.clone(), b.clone()]),
            of(&[one.clone(), two.clone()], [1, 3], &[a.clone(), b.clone()]),
            of(&[one.clone(), two.clone()], [1, 2], &[a.clone(), file("b", 3)]),
            of(&[one, two], [1, 2], &[a, file("c", 2)]),
        ];
        for other in others {
            assert_ne!(first, other);
        }
        assert_eq!(first.to_string().len(), 64);
    }
}
