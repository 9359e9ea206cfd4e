//! Resolves symbolic links and records where they are.
//!
//! A writable root may lie inside another one. Then a command can replace it by a symbolic link, whose target must not
//! become writable for the next command. So roots are resolved by hand: `canonicalize` does not return which links it
//! followed.

use std::{
    ffi::OsString,
    fs, io,
    path::{Component, Path, PathBuf},
};

/// How many links are followed, as in the kernel.
const MAX_LINKS: usize = 40;

/// A path without links, and the directories that contain the links followed to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedPath {
    pub path: PathBuf,
    pub link_directories: Vec<PathBuf>,
}

/// Follows every link of a path. Returns an error if the path does not exist.
pub(crate) fn resolve(path: &Path) -> io::Result<ResolvedPath> {
    let mut real = PathBuf::from("/");
    let mut link_directories = Vec::new();
    let mut remaining: Vec<OsString> = names_reversed(path);
    while let Some(name) = remaining.pop() {
        if name == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&name);
        if !fs::symlink_metadata(&next)?.is_symlink() {
            real = next;
            continue;
        }
        if link_directories.len() == MAX_LINKS {
            return Err(io::Error::other("too many links"));
        }
        link_directories.push(real.clone());
        let target = fs::read_link(&next)?;
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        remaining.extend(names_reversed(&target));
    }
    Ok(ResolvedPath { path: real, link_directories })
}

/// Returns the names of a path, last one first, so that the next one can be popped.
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
    fn links_are_followed_and_their_directories_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("a/b")).unwrap();
        fs::create_dir(base.join("far")).unwrap();
        symlink("../far", base.join("a/link")).unwrap();
        symlink(base.join("a/link"), base.join("outer")).unwrap();

        let plain = resolve(&base.join("a/./b/../b")).unwrap();
        assert_eq!(plain, ResolvedPath { path: base.join("a/b"), link_directories: vec![] });

        let linked = resolve(&base.join("outer")).unwrap();
        assert_eq!(
            linked,
            ResolvedPath { path: base.join("far"), link_directories: vec![base.clone(), base.join("a")] }
        );
        assert!(resolve(&base.join("missing")).is_err());
    }

    #[test]
    fn a_cycle_of_links_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        symlink("loop", dir.path().join("loop")).unwrap();
        assert!(resolve(&dir.path().join("loop")).is_err());
    }
}
