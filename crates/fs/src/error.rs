//! Errors of file operations, with the texts that clients know.

use std::io;

/// A failed file operation. The texts about parameters are those of the reference server, which clients match. Errors of
/// the system have no path, because the client knows it.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("file is too large to read: limit is {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("directory is too large to list: limit is {limit} bytes")]
    TooManyEntries { limit: usize },
    /// A pipe, a socket or a device. Reading or writing it may block forever or have side effects.
    #[error("only regular files can be read and written")]
    NotRegular,
    #[error("fs/writeFile requires valid base64 dataBase64: {0}")]
    Base64(#[from] base64::DecodeError),
    #[error("fs/copy requires recursive: true when sourcePath is a directory")]
    NotRecursive,
    #[error("fs/copy cannot copy a directory to itself or one of its descendants")]
    IntoItself,
    #[error("fs/copy only supports regular files, directories, and symlinks")]
    SpecialFile,
    #[error("fs/remove cannot remove the root directory")]
    Root,
}
