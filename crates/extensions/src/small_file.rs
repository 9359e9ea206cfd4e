//! Reads the small files that describe skills and plugins.
//!
//! The files are untrusted: a pipe must not block the server, and a huge file must not fill its memory.

use std::{
    io::{self, Read},
    path::Path,
};

use codicil_config::open_regular;
use serde::de::DeserializeOwned;

/// Reads the beginning of a regular file. Symbolic links are followed.
pub(crate) fn read_head(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a whole text file of at most `max` bytes.
pub(crate) fn read_text(path: &Path, max: u64) -> io::Result<String> {
    let bytes = read_head(path, max.saturating_add(1))?;
    if bytes.len() as u64 > max {
        let reason = format!("larger than {max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))
}

/// Parses a JSON file. Returns `None` if it is missing; an invalid one is also logged.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path, max: u64) -> Option<T> {
    if !path.is_file() {
        return None;
    }
    let text = read_text(path, max).map_err(|error| error.to_string());
    let value = text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
    value.inspect_err(|error| tracing::warn!("ignoring {}: {error}", path.display())).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_small_regular_texts_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read_text(&path, 5).unwrap(), "12345");
        assert_eq!(read_text(&path, 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read_head(&path, 2).unwrap(), b"12");
        assert_eq!(read_text(folder.path(), 5).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        fs::write(&path, b"\xff").unwrap();
        assert_eq!(read_text(&path, 5).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_does_not_block_the_reader() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert!(read_text(&pipe, 10).is_err());
    }
}
