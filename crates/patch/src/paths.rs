//! Paths as text: from what a patch says to one absolute path, and back to something short to show.

use std::{
    ffi::OsStr,
    path::{Component, Path, PathBuf},
};

use codicil_protocol::normal_path;

/// The absolute path that a patch means, `.` and `..` taken out by their names alone.
pub(crate) fn absolute(cwd: &Path, given: &str) -> PathBuf {
    normal_path(&cwd.join(given))
}

/// The path as seen from `root`, with `..` where it is outside, and with `/` everywhere.
pub(crate) fn relative(root: &Path, path: &Path) -> String {
    let shared = root.components().zip(path.components()).take_while(|(a, b)| a == b).count();
    let up = root.components().skip(shared).map(|_| OsStr::new(".."));
    let down = path.components().skip(shared).map(Component::as_os_str);
    let names: Vec<_> = up.chain(down).map(OsStr::to_string_lossy).collect();
    names.join("/")
}

/// The directory that holds the repository's `.git`, which is a file in work trees and submodules.
pub fn git_root(directory: &Path) -> Option<PathBuf> {
    directory.ancestors().find(|directory| directory.join(".git").exists()).map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_paths_become_absolute() {
        let check = |given, expected| assert_eq!(absolute(Path::new("/w/s"), given), Path::new(expected));
        check("a.txt", "/w/s/a.txt");
        check("./x/../a.txt", "/w/s/a.txt");
        check("../a.txt", "/w/a.txt");
        check("../../../../a.txt", "/a.txt");
        check("/etc/./x", "/etc/x");
    }

    #[test]
    fn shown_paths_are_relative() {
        let check = |path, expected| assert_eq!(relative(Path::new("/w/s"), Path::new(path)), expected);
        check("/w/s/a/b.txt", "a/b.txt");
        check("/w/outside/o.txt", "../outside/o.txt");
        check("/etc/x", "../../etc/x");
        check("/w/sister", "../sister");
    }
}
