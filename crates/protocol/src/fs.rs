//! Access to the server's file system: `fs/*`. The methods are for the client, not for the agent, so the sandbox does not
//! apply. Paths are absolute, contents are base64.

use crate::{AbsolutePathBuf, wire};

/// Reads a file.
#[wire]
pub struct FsReadFileParams {
    pub path: AbsolutePathBuf,
}

/// The content of a file.
#[wire]
pub struct FsReadFileResponse {
    pub data_base64: String,
}

/// Writes a file, which is created if it does not exist. Its directory must exist.
#[wire]
pub struct FsWriteFileParams {
    pub path: AbsolutePathBuf,
    pub data_base64: String,
}

/// An empty response.
#[wire]
#[derive(Default)]
pub struct FsWriteFileResponse {}

/// Creates a directory.
#[wire(sparse)]
pub struct FsCreateDirectoryParams {
    pub path: AbsolutePathBuf,
    /// Creates missing parent directories and accepts an existing directory. Defaults to true.
    pub recursive: Option<bool>,
}

/// An empty response.
#[wire]
#[derive(Default)]
pub struct FsCreateDirectoryResponse {}

/// Returns the metadata of a path.
#[wire]
pub struct FsGetMetadataParams {
    pub path: AbsolutePathBuf,
}

/// The metadata of a path. Symbolic links are followed. Both flags are false for sockets, pipes and devices.
#[wire]
pub struct FsGetMetadataResponse {
    pub is_directory: bool,
    pub is_file: bool,
    /// Whether the path itself is a symbolic link.
    #[since("0.166", required)]
    pub is_symlink: bool,
    /// Unix milliseconds; 0 if not known.
    pub created_at_ms: i64,
    /// Unix milliseconds; 0 if not known.
    pub modified_at_ms: i64,
}

/// Lists a directory.
#[wire]
pub struct FsReadDirectoryParams {
    pub path: AbsolutePathBuf,
}

/// The direct children of a directory, in no particular order.
#[wire]
pub struct FsReadDirectoryResponse {
    pub entries: Vec<FsReadDirectoryEntry>,
}

/// Removes a file or directory.
#[wire(sparse)]
pub struct FsRemoveParams {
    pub path: AbsolutePathBuf,
    /// Removes the content of a directory too. Defaults to true; otherwise a directory must be empty.
    pub recursive: Option<bool>,
    /// Succeeds if the path does not exist. Defaults to true.
    pub force: Option<bool>,
}

/// The path no longer exists.
#[wire]
#[derive(Default)]
pub struct FsRemoveResponse {}

/// Copies a file or directory. An existing destination file is overwritten; missing parent directories are not created.
#[wire(sparse)]
pub struct FsCopyParams {
    pub source_path: AbsolutePathBuf,
    pub destination_path: AbsolutePathBuf,
    /// Required for copying a directory. Symbolic links are copied as links; sockets, pipes and devices are skipped.
    pub recursive: Option<bool>,
}

/// An empty response.
#[wire]
#[derive(Default)]
pub struct FsCopyResponse {}

/// Starts watching a file or directory, which need not exist yet.
#[wire(sparse)]
pub struct FsWatchParams {
    pub path: AbsolutePathBuf,
    /// The client's id of the watch, which no other watch of the connection has. Absent: the server chooses one.
    #[since("0.166", required)]
    pub watch_id: Option<String>,
}

/// The new watch of this connection.
#[wire]
pub struct FsWatchResponse {
    /// The id of the watch in `fs/changed` and `fs/unwatch`.
    #[until("0.118")]
    pub watch_id: String,
    /// The canonical form of the watched path.
    pub path: AbsolutePathBuf,
}

/// Stops a watch. An unknown id is not an error.
#[wire]
pub struct FsUnwatchParams {
    pub watch_id: String,
}

/// The watch sends no further `fs/changed`.
#[wire]
#[derive(Default)]
pub struct FsUnwatchResponse {}

/// An entry of a directory. Both flags are false for a broken link.
#[wire]
pub struct FsReadDirectoryEntry {
    /// The name without the directory.
    pub file_name: String,
    pub is_directory: bool,
    pub is_file: bool,
}

/// A watched path changed.
#[wire]
pub struct FsChangedNotification {
    pub watch_id: String,
    /// The changed paths; for a watched directory, its changed children.
    pub changed_paths: Vec<AbsolutePathBuf>,
}
