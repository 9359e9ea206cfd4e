//! Files of the server's machine: `fs/*`. They are for the client itself, not for the agent: no sandbox
//! applies. Paths are absolute, contents are base64.

use crate::{AbsolutePathBuf, wire};

/// Which file to read.
#[wire]
pub struct FsReadFileParams {
    pub path: AbsolutePathBuf,
}

/// All of a file.
#[wire]
pub struct FsReadFileResponse {
    pub data_base64: String,
}

/// The new contents of a file, which may not have existed before. Its directory must.
#[wire]
pub struct FsWriteFileParams {
    pub path: AbsolutePathBuf,
    pub data_base64: String,
}

/// Nothing to tell beyond success.
#[wire]
#[derive(Default)]
pub struct FsWriteFileResponse {}

/// Which directory to make.
#[wire(sparse)]
pub struct FsCreateDirectoryParams {
    pub path: AbsolutePathBuf,
    /// Makes what is missing above it and is content if it exists. On when left out.
    pub recursive: Option<bool>,
}

/// Nothing to tell beyond success.
#[wire]
#[derive(Default)]
pub struct FsCreateDirectoryResponse {}

/// What to look at.
#[wire]
pub struct FsGetMetadataParams {
    pub path: AbsolutePathBuf,
}

/// What a path leads to, symbolic links followed. Both flags are false for sockets and their like.
#[wire]
pub struct FsGetMetadataResponse {
    pub is_directory: bool,
    pub is_file: bool,
    /// Unix milliseconds; 0 where the system does not know.
    pub created_at_ms: i64,
    /// Unix milliseconds; 0 where the system does not know.
    pub modified_at_ms: i64,
}

/// Which directory to list.
#[wire]
pub struct FsReadDirectoryParams {
    pub path: AbsolutePathBuf,
}

/// The direct children of a directory, in no particular order.
#[wire]
pub struct FsReadDirectoryResponse {
    pub entries: Vec<FsReadDirectoryEntry>,
}

/// What to remove.
#[wire(sparse)]
pub struct FsRemoveParams {
    pub path: AbsolutePathBuf,
    /// Takes what is inside a directory too. On when left out; without it a directory must be empty.
    pub recursive: Option<bool>,
    /// Is content if there is nothing. On when left out.
    pub force: Option<bool>,
}

/// Nothing is at the path any more.
#[wire]
#[derive(Default)]
pub struct FsRemoveResponse {}

/// What to copy where. A file at the destination is overwritten; directories above it are not made.
#[wire(sparse)]
pub struct FsCopyParams {
    pub source_path: AbsolutePathBuf,
    pub destination_path: AbsolutePathBuf,
    /// Must be set to copy a directory. Links stay links; sockets and their like are passed over.
    pub recursive: Option<bool>,
}

/// Nothing to tell beyond success.
#[wire]
#[derive(Default)]
pub struct FsCopyResponse {}

/// A file or directory to keep an eye on. It need not exist yet.
#[wire]
pub struct FsWatchParams {
    pub path: AbsolutePathBuf,
}

/// The watch that begins, for this connection.
#[wire]
pub struct FsWatchResponse {
    pub watch_id: String,
    /// The path that is watched: the one asked for, in its canonical form.
    pub path: AbsolutePathBuf,
}

/// Which watch to end; an unknown one is not an error.
#[wire]
pub struct FsUnwatchParams {
    pub watch_id: String,
}

/// No more `fs/changed` will come from the watch.
#[wire]
#[derive(Default)]
pub struct FsUnwatchResponse {}

/// A child of a listed directory. A broken link is neither directory nor file.
#[wire]
pub struct FsReadDirectoryEntry {
    /// The bare name, without the directory.
    pub file_name: String,
    pub is_directory: bool,
    pub is_file: bool,
}

/// Something was written, made, renamed or removed under a watch.
#[wire]
pub struct FsChangedNotification {
    pub watch_id: String,
    /// For a watched directory, the children that changed.
    pub changed_paths: Vec<AbsolutePathBuf>,
}
