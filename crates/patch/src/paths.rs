//! Converts the paths of a patch to absolute ones, and absolute ones to short ones for display.

use std::{
    ffi::OsStr,
    path::{Component, Path, PathBuf},
};

use codicil_protocol::normal_path;

/// Returns the absolute path for a path of a patch, with `.` and `..` removed without looking at the disk.
pub(crate) fn absolute(cwd: &Path, given: &str) -> PathBuf {
    normal_path(&cwd.join(given))
}

/// Returns a path relative to `root`, with `..` if it is outside, and with `/` as separator.
pub(crate) fn relative(root: &Path, path: &Path) -> String {
    let shared = root.components().zip(path.components()).take_while(|(a, b)| a == b).count();
    let up = root.components().skip(shared).map(|_| OsStr::new(".."));
    let down = path.components().skip(shared).map(Component::as_os_str);
    let names: Vec<_> = up.chain(down).map(OsStr::to_string_lossy).collect();
    names.join("/")
}

/// Returns the directory that contains the repository's `.git`, which is a file in worktrees and submodules.
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
    fn displayed_paths_are_relative() {
        let check = |path, expected| assert_eq!(relative(Path::new("/w/s"), Path::new(path)), expected);
        check("/w/s/a/b.txt", "a/b.txt");
        check("/w/outside/o.txt", "../outside/o.txt");
        check("/etc/x", "../../etc/x");
        check("/w/sister", "../sister");
    }
}
