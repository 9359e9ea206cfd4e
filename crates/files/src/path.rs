//! Paths as clients write them.

use std::path::{Component, Path, PathBuf};

/// The path without `.`, `..`, doubled and trailing slashes.
///
/// This is done on the text alone, as the reference server does: `a/link/..` is `a`, wherever the link
/// leads, and a trailing slash does not make a link be followed.
pub fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_made_normal_by_its_text() {
        let check = |path: &str, expected: &str| assert_eq!(normal(Path::new(path)), Path::new(expected));
        check("/", "/");
        check("/..", "/");
        check("/a/./b//c/", "/a/b/c");
        check("/a/missing/../b", "/a/b");
        check("/a/../../b", "/b");
    }
}
