//! `fs/*`.

use std::{path::PathBuf, sync::Arc};

use codicil_fs::{CopyDepth, FileError, ParentDirectories, RemoveOptions, WatchError};
use codicil_protocol::{
    AbsolutePathBuf, Frame, FsChanged, FsChangedNotification, FsCopyParams, FsCopyResponse,
    FsCreateDirectoryParams, FsCreateDirectoryResponse, FsGetMetadataParams, FsGetMetadataResponse,
    FsReadDirectoryParams, FsReadDirectoryResponse, FsReadFileParams, FsRemoveParams, FsRemoveResponse,
    FsUnwatchParams, FsUnwatchResponse, FsWatchParams, FsWatchResponse, FsWriteFileParams,
    FsWriteFileResponse, normal_path,
};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::config::blocking;
use crate::{
    cx::Cx,
    error::RpcError,
    files::LimitReached,
    limits::{LARGE_ANSWER_BYTES, MAX_LISTING_BYTES, MAX_READ_FILE_BYTES, MAX_WATCHES},
};

/// A large file waits until there is room for its answer: a client that reads slowly must not be taken for
/// one that has stopped reading.
pub async fn read_file(cx: Cx, params: FsReadFileParams) -> Result<Box<RawValue>, RpcError> {
    let path = normal_path(&params.path);
    let _turn = cx.client.files.looking().await;
    match read(path.clone(), LARGE_ANSWER_BYTES).await {
        Err(FileError::TooLarge { .. }) => {}
        small => return Ok(small?),
    }
    wait_for_room(&cx).await;
    Ok(read(path, MAX_READ_FILE_BYTES).await?)
}

/// The answer as JSON: looking through megabytes of base64 for something to escape is not for the
/// connection's task.
async fn read(path: PathBuf, limit: u64) -> Result<Box<RawValue>, FileError> {
    let work = tokio::task::spawn_blocking(move || {
        let mut json = String::from(r#"{"dataBase64":""#);
        codicil_fs::read_base64(&path, limit, &mut json)?;
        json.push_str(r#""}"#);
        RawValue::from_string(json).map_err(|error| FileError::Io(error.into()))
    });
    work.await.unwrap_or_else(|_panic| Err(FileError::Io(std::io::Error::other("internal error"))))
}

/// Large answers of a client are made one at a time, each when most of what waited has been read.
async fn wait_for_room(cx: &Cx) {
    let turn = cx.client.files.answering_at_length().await;
    cx.client.outbox.wait_for_room().await;
    cx.after_answer(move || drop(turn));
}

pub async fn write_file(cx: Cx, params: FsWriteFileParams) -> Result<FsWriteFileResponse, RpcError> {
    let turn = cx.client.files.changing().await;
    blocking(move || {
        let _turn = turn;
        let FsWriteFileParams { path, data_base64 } = params;
        let data = codicil_fs::decode(&data_base64)?;
        drop(data_base64);
        codicil_fs::write(&normal_path(&path), &data)?;
        Ok(FsWriteFileResponse {})
    })
    .await
}

pub async fn create_directory(
    cx: Cx,
    params: FsCreateDirectoryParams,
) -> Result<FsCreateDirectoryResponse, RpcError> {
    let turn = cx.client.files.changing().await;
    blocking(move || {
        let _turn = turn;
        let parents = if params.recursive.unwrap_or(true) {
            ParentDirectories::Made
        } else {
            ParentDirectories::Required
        };
        codicil_fs::create_directory(&normal_path(&params.path), parents)?;
        Ok(FsCreateDirectoryResponse {})
    })
    .await
}

pub async fn get_metadata(cx: Cx, params: FsGetMetadataParams) -> Result<FsGetMetadataResponse, RpcError> {
    let turn = cx.client.files.looking().await;
    blocking(move || {
        let _turn = turn;
        Ok(codicil_fs::metadata(&normal_path(&params.path))?)
    })
    .await
}

pub async fn read_directory(
    cx: Cx,
    params: FsReadDirectoryParams,
) -> Result<FsReadDirectoryResponse, RpcError> {
    let _turn = cx.client.files.looking().await;
    let entries =
        blocking(move || Ok(codicil_fs::directory(&normal_path(&params.path), MAX_LISTING_BYTES)?)).await?;
    if entries.iter().map(|entry| entry.file_name.len()).sum::<usize>() as u64 > LARGE_ANSWER_BYTES {
        wait_for_room(&cx).await;
    }
    Ok(FsReadDirectoryResponse { entries })
}

pub async fn remove(cx: Cx, params: FsRemoveParams) -> Result<FsRemoveResponse, RpcError> {
    let turn = cx.client.files.changing().await;
    blocking(move || {
        let _turn = turn;
        let how = RemoveOptions {
            recursive: params.recursive.unwrap_or(true),
            force: params.force.unwrap_or(true),
        };
        codicil_fs::remove(&normal_path(&params.path), how)?;
        Ok(FsRemoveResponse {})
    })
    .await
}

pub async fn copy(cx: Cx, params: FsCopyParams) -> Result<FsCopyResponse, RpcError> {
    let turn = cx.client.files.changing().await;
    blocking(move || {
        let _turn = turn;
        let depth = if params.recursive.unwrap_or(false) { CopyDepth::Tree } else { CopyDepth::Single };
        codicil_fs::copy(&normal_path(&params.source_path), &normal_path(&params.destination_path), depth)?;
        Ok(FsCopyResponse {})
    })
    .await
}

/// Changes are told from the answer on, and until `fs/unwatch` or the end of the connection.
pub async fn watch(cx: Cx, params: FsWatchParams) -> Result<FsWatchResponse, RpcError> {
    let path =
        AbsolutePathBuf::new(normal_path(&params.path)).ok_or_else(|| RpcError::internal("no path"))?;
    let watch_id = Uuid::now_v7().to_string();
    // The client owns the watch, so the watch must not own the client.
    let (client, id) = (Arc::downgrade(&cx.client), watch_id.clone());
    let tell = move |changed| {
        if let Some(client) = client.upgrade() {
            client.notify(&Frame::notification::<FsChanged>(&notification(id.clone(), changed)));
        }
    };
    let watch = cx.files().watcher.watch(&path, tell).await?;
    let full =
        |LimitReached| RpcError::invalid_request(format_args!("too many watches: limit is {MAX_WATCHES}"));
    cx.client.files.add_watch(watch_id.clone(), watch).map_err(full)?;
    let (client, id) = (cx.client.clone(), watch_id.clone());
    cx.after_answer(move || client.files.listen(&id));
    Ok(FsWatchResponse { watch_id, path })
}

/// Names that are not text are written as well as can be; they have no other form in JSON.
fn notification(watch_id: String, changed: Vec<PathBuf>) -> FsChangedNotification {
    let text = |path: PathBuf| AbsolutePathBuf::new(path.to_string_lossy().into_owned());
    FsChangedNotification { watch_id, changed_paths: changed.into_iter().filter_map(text).collect() }
}

pub async fn unwatch(cx: Cx, params: FsUnwatchParams) -> Result<FsUnwatchResponse, RpcError> {
    cx.client.files.remove_watch(&params.watch_id);
    Ok(FsUnwatchResponse {})
}

impl From<FileError> for RpcError {
    fn from(error: FileError) -> Self {
        match error {
            // A path that no system call takes is the client's mistake.
            FileError::Io(ref cause) if cause.kind() == std::io::ErrorKind::InvalidInput => {
                Self::invalid_request(error)
            }
            FileError::Io(_) => Self::internal(error),
            FileError::TooLarge { .. }
            | FileError::TooManyEntries { .. }
            | FileError::NotRegular
            | FileError::Base64(_)
            | FileError::NotRecursive
            | FileError::IntoItself
            | FileError::NothingToCopy
            | FileError::Root => Self::invalid_request(error),
        }
    }
}

impl From<WatchError> for RpcError {
    fn from(error: WatchError) -> Self {
        match error {
            WatchError::Busy => Self::overloaded(),
            WatchError::System(_) | WatchError::Closed => Self::internal(error),
        }
    }
}
