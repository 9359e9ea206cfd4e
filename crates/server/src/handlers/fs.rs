//! `fs/*`.

use std::{io, path::PathBuf, sync::Arc};

use codicil_fs::{CopyDepth, FileError, ParentDirectories, RemoveOptions};
use codicil_protocol::{
    AbsolutePathBuf, Frame, FsChanged, FsChangedNotification, FsCopyParams, FsCopyResponse,
    FsCreateDirectoryParams, FsCreateDirectoryResponse, FsGetMetadataParams, FsGetMetadataResponse,
    FsReadDirectoryParams, FsReadDirectoryResponse, FsReadFileParams, FsRemoveParams, FsRemoveResponse,
    FsUnwatchParams, FsUnwatchResponse, FsWatchParams, FsWatchResponse, FsWriteFileParams,
    FsWriteFileResponse, ProtocolGeneration, normal_path,
};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::{
    background::blocking,
    cx::Cx,
    error::RpcError,
    limits::{LARGE_RESPONSE_BYTES, MAX_LISTING_BYTES, MAX_READ_FILE_BYTES},
};

/// Reads a file. A large file is read only when the outbox has room for it: a client that reads slowly must not be
/// disconnected like one that has stopped reading.
pub async fn read_file(cx: Cx, params: FsReadFileParams) -> Result<Box<RawValue>, RpcError> {
    let path = normal_path(&params.path);
    let _permit = cx.client.files.read_permit().await;
    match encode_file(path.clone(), LARGE_RESPONSE_BYTES).await {
        Err(FileError::TooLarge { .. }) => {}
        small => return Ok(small?),
    }
    wait_for_room(&cx).await;
    Ok(encode_file(path, MAX_READ_FILE_BYTES).await?)
}

/// Returns the response of `fs/readFile` as JSON. Encoding megabytes of base64 would block the connection's task.
async fn encode_file(path: PathBuf, limit: u64) -> Result<Box<RawValue>, FileError> {
    let work = tokio::task::spawn_blocking(move || {
        let mut json = String::from(r#"{"dataBase64":""#);
        codicil_fs::read_base64(&path, limit, &mut json)?;
        json.push_str(r#""}"#);
        RawValue::from_string(json).map_err(|error| FileError::Io(error.into()))
    });
    work.await.unwrap_or_else(|_panic| Err(FileError::Io(io::Error::other("internal error"))))
}

/// Waits until most of the outbox has been read. A client gets its large responses one at a time.
async fn wait_for_room(cx: &Cx) {
    let permit = cx.client.files.large_response_permit().await;
    cx.client.outbox.wait_for_room().await;
    cx.after_response(move || drop(permit));
}

pub async fn write_file(cx: Cx, params: FsWriteFileParams) -> Result<FsWriteFileResponse, RpcError> {
    let permit = cx.client.files.write_permit().await;
    blocking(move || {
        let _permit = permit;
        let FsWriteFileParams { path, data_base64 } = params;
        let data = codicil_fs::decode_contents(&data_base64)?;
        drop(data_base64);
        codicil_fs::write(&normal_path(&path), &data)
    })
    .await?;
    Ok(FsWriteFileResponse {})
}

pub async fn create_directory(
    cx: Cx,
    params: FsCreateDirectoryParams,
) -> Result<FsCreateDirectoryResponse, RpcError> {
    let is_recursive = params.recursive.unwrap_or(true);
    let parents = if is_recursive { ParentDirectories::Made } else { ParentDirectories::Required };
    let permit = cx.client.files.write_permit().await;
    blocking(move || {
        let _permit = permit;
        codicil_fs::create_directory(&normal_path(&params.path), parents)
    })
    .await?;
    Ok(FsCreateDirectoryResponse {})
}

pub async fn get_metadata(cx: Cx, params: FsGetMetadataParams) -> Result<FsGetMetadataResponse, RpcError> {
    let permit = cx.client.files.read_permit().await;
    blocking(move || {
        let _permit = permit;
        codicil_fs::metadata(&normal_path(&params.path))
    })
    .await
}

pub async fn read_directory(
    cx: Cx,
    params: FsReadDirectoryParams,
) -> Result<FsReadDirectoryResponse, RpcError> {
    let _permit = cx.client.files.read_permit().await;
    let entries =
        blocking(move || codicil_fs::read_directory(&normal_path(&params.path), MAX_LISTING_BYTES)).await?;
    if entries.iter().map(|entry| entry.file_name.len()).sum::<usize>() as u64 > LARGE_RESPONSE_BYTES {
        wait_for_room(&cx).await;
    }
    Ok(FsReadDirectoryResponse { entries })
}

pub async fn remove(cx: Cx, params: FsRemoveParams) -> Result<FsRemoveResponse, RpcError> {
    let options =
        RemoveOptions { recursive: params.recursive.unwrap_or(true), force: params.force.unwrap_or(true) };
    let permit = cx.client.files.write_permit().await;
    blocking(move || {
        let _permit = permit;
        codicil_fs::remove(&normal_path(&params.path), options)
    })
    .await?;
    Ok(FsRemoveResponse {})
}

pub async fn copy(cx: Cx, params: FsCopyParams) -> Result<FsCopyResponse, RpcError> {
    let depth = if params.recursive.unwrap_or(false) { CopyDepth::Tree } else { CopyDepth::Single };
    let permit = cx.client.files.write_permit().await;
    blocking(move || {
        let _permit = permit;
        codicil_fs::copy(&normal_path(&params.source_path), &normal_path(&params.destination_path), depth)
    })
    .await?;
    Ok(FsCopyResponse {})
}

/// Watches a path until `fs/unwatch` or the end of the connection. Changes are reported after the response.
pub async fn watch(cx: Cx, params: FsWatchParams) -> Result<FsWatchResponse, RpcError> {
    let path = AbsolutePathBuf::new(normal_path(&params.path)).expect("normalizing keeps a path absolute");
    let watch_id = match (params.watch_id, cx.generation()) {
        (Some(watch_id), _) => watch_id,
        (None, ProtocolGeneration::V118) => Uuid::now_v7().to_string(),
        (None, ProtocolGeneration::V166) => return Err(RpcError::malformed("missing field `watchId`")),
    };
    cx.client.files.check_watch_id(&watch_id)?;
    let notify = {
        // The client owns the watch, so the watch must not own the client.
        let client = Arc::downgrade(&cx.client);
        let watch_id = watch_id.clone();
        move |changed| {
            if let Some(client) = client.upgrade() {
                client.notify(&Frame::notification::<FsChanged>(&changes(watch_id.clone(), changed)));
            }
        }
    };
    let watch = cx.files().watcher.watch(&path, notify).await?;
    cx.client.files.add_watch(watch_id.clone(), watch)?;
    let client = cx.client.clone();
    let started_id = watch_id.clone();
    cx.after_response(move || client.files.start_watch(&started_id));
    Ok(FsWatchResponse { watch_id, path })
}

/// Makes the notification of changed paths. Bytes that are not UTF-8 are replaced: JSON cannot hold them.
fn changes(watch_id: String, changed: Vec<PathBuf>) -> FsChangedNotification {
    let to_text = |path: PathBuf| AbsolutePathBuf::new(path.to_string_lossy().into_owned());
    FsChangedNotification { watch_id, changed_paths: changed.into_iter().filter_map(to_text).collect() }
}

pub async fn unwatch(cx: Cx, params: FsUnwatchParams) -> Result<FsUnwatchResponse, RpcError> {
    cx.client.files.remove_watch(&params.watch_id);
    Ok(FsUnwatchResponse {})
}
