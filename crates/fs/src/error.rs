//! Why an operation on files failed, in the words that clients know.

use std::io;

/// A failed file operation. The sentences about parameters are the reference server's; clients match on
/// them. Errors of the system say what happened and not where: the client knows the path.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("file is too large to read: limit is {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("directory is too large to list: limit is {limit} bytes")]
    TooManyEntries { limit: usize },
    /// A pipe, a socket or a device: reading or writing it may wait for ever, or do something else.
    #[error("only regular files can be read and written")]
    NotRegular,
    #[error("fs/writeFile requires valid base64 dataBase64: {0}")]
    Base64(#[from] base64::DecodeError),
    #[error("fs/copy requires recursive: true when sourcePath is a directory")]
    NotRecursive,
    #[error("fs/copy cannot copy a directory to itself or one of its descendants")]
    IntoItself,
    #[error("fs/copy only supports regular files, directories, and symlinks")]
    NothingToCopy,
    #[error("fs/remove cannot remove the root directory")]
    Root,
}
