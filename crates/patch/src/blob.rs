//! Git's ids, modes and rules for the contents of files.

use std::fmt::Write;

use sha1::{Digest, Sha1};

use crate::files::FileMode;

/// The id that git writes for a missing file.
pub(crate) const NO_BLOB: &str = "0000000000000000000000000000000000000000";

/// Returns the id under which git would store the content.
pub(crate) fn blob_id(content: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", content.len()));
    hash.update(content);
    hash.finalize().iter().fold(String::with_capacity(40), |mut id, byte| {
        let _ = write!(id, "{byte:02x}");
        id
    })
}

impl FileMode {
    /// Returns the mode as in git's headers.
    pub(crate) fn git(self) -> &'static str {
        match self {
            Self::Regular => "100644",
            Self::Executable => "100755",
            Self::Link => "120000",
        }
    }
}

/// Returns whether a diff of lines cannot show the content. Git looks for a zero byte near the start. Content that is not
/// UTF-8 is binary here as well, because the diff is a string.
pub(crate) fn is_binary(content: &[u8]) -> bool {
    content.contains(&0) || str::from_utf8(content).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_git() {
        assert_eq!(blob_id(b"bye\n"), "b023018cabc396e7692c70bbf5784a93d3f738ab");
        assert_eq!(blob_id(b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
    }

    #[test]
    fn text_is_utf_8_without_zero_bytes() {
        assert!(!is_binary("ä\n".as_bytes()));
        assert!(is_binary(b"a\0b"));
        assert!(is_binary(b"\xff"));
    }
}
