//! Where a path leads, and through whose hands.
//!
//! A writable root may lie inside another one, and then a command can put a symbolic link in its place. The
//! next command must not find that link's target writable. So roots are resolved here, by hand, because
//! `canonicalize` does not tell which links it followed.

use std::{
    ffi::OsString,
    fs, io,
    path::{Component, Path, PathBuf},
};

/// As many as the kernel follows.
const MOST_LINKS: usize = 40;

/// A path without links, and the directories in which the links on the way to it lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedPath {
    pub path: PathBuf,
    pub link_homes: Vec<PathBuf>,
}

/// Follows every link. An error if the path does not exist.
pub(crate) fn resolve(path: &Path) -> io::Result<ResolvedPath> {
    let mut real = PathBuf::from("/");
    let mut link_homes = Vec::new();
    let mut ahead: Vec<OsString> = names_reversed(path);
    while let Some(name) = ahead.pop() {
        if name == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&name);
        if !fs::symlink_metadata(&next)?.is_symlink() {
            real = next;
            continue;
        }
        if link_homes.len() == MOST_LINKS {
            return Err(io::Error::other("too many links"));
        }
        link_homes.push(real.clone());
        let target = fs::read_link(&next)?;
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        ahead.extend(names_reversed(&target));
    }
    Ok(ResolvedPath { path: real, link_homes })
}

/// The names of a path, last one first, so that the next one is popped.
fn names_reversed(path: &Path) -> Vec<OsString> {
    let name = |component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    };
    path.components().rev().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_and_their_homes_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("a/b")).unwrap();
        fs::create_dir(base.join("far")).unwrap();
        symlink("../far", base.join("a/link")).unwrap();
        symlink(base.join("a/link"), base.join("outer")).unwrap();

        let plain = resolve(&base.join("a/./b/../b")).unwrap();
        assert_eq!(plain, ResolvedPath { path: base.join("a/b"), link_homes: vec![] });

        let linked = resolve(&base.join("outer")).unwrap();
        assert_eq!(
            linked,
            ResolvedPath { path: base.join("far"), link_homes: vec![base.clone(), base.join("a")] }
        );
        assert!(resolve(&base.join("missing")).is_err());
    }

    #[test]
    fn a_circle_ends() {
        let dir = tempfile::tempdir().unwrap();
        symlink("loop", dir.path().join("loop")).unwrap();
        assert!(resolve(&dir.path().join("loop")).is_err());
    }
}
