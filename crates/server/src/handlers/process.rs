//! `process/*`: processes of the client, outside the sandbox. They share everything with `command/exec` but the sandbox,
//! and that their end is a notification.

use codicil_protocol::{
    ProcessExited, ProcessKillParams, ProcessKillResponse, ProcessResizePtyParams, ProcessResizePtyResponse,
    ProcessSpawnParams, ProcessSpawnResponse, ProcessWriteStdinParams, ProcessWriteStdinResponse,
};
use tokio::sync::oneshot;

use super::command::input;
use crate::{
    background::blocking,
    commands::{self, ExecRequest, OutputSink, ProcessError},
    cx::Cx,
    error::RpcError,
};

/// Starts a process and responds when it runs. Its handle is registered before the first `.await`, so that a write or kill
/// request sent right behind this one finds it.
pub async fn spawn(cx: Cx, params: ProcessSpawnParams) -> Result<ProcessSpawnResponse, RpcError> {
    let handle = params.process_handle.clone();
    let request = ExecRequest::try_from(params)?;
    let slot = cx.client.processes.register(&request).map_err(ProcessError::from)?;
    let sink = OutputSink::new(&request, &cx.client);
    let engine = cx.threads().engine().clone();
    let prepare = move || {
        let ready = commands::prepare(request, &engine.config, &engine.server_places, &engine.cwd);
        ready.map_err(ProcessError::from)
    };
    let ready = blocking(prepare).await?;
    let started = slot.start(ready).await.map_err(ProcessError::from)?;
    // Neither output nor the end overtakes the response. Without a response there is no client, and the process is
    // killed.
    let (responded, response) = oneshot::channel();
    cx.after_response(move || _ = responded.send(()));
    let client = cx.client.clone();
    cx.background().spawn(async move {
        if response.await.is_ok() {
            let exited = started.finish(sink).await.into_exited(handle);
            client.notify(&codicil_protocol::Frame::notification::<ProcessExited>(&exited));
        }
    });
    Ok(ProcessSpawnResponse {})
}

pub async fn write_stdin(
    cx: Cx,
    params: ProcessWriteStdinParams,
) -> Result<ProcessWriteStdinResponse, RpcError> {
    let (bytes, end) =
        input(params.delta_base64.as_deref(), params.close_stdin).map_err(ProcessError::from)?;
    let control = cx.client.processes.get(&params.process_handle).map_err(ProcessError::from)?;
    control.write(bytes, end).await.map_err(ProcessError::from)?;
    Ok(ProcessWriteStdinResponse {})
}

pub async fn resize_pty(
    cx: Cx,
    params: ProcessResizePtyParams,
) -> Result<ProcessResizePtyResponse, RpcError> {
    let size = commands::terminal_size(params.size.rows, params.size.cols).map_err(ProcessError::from)?;
    let control = cx.client.processes.get(&params.process_handle).map_err(ProcessError::from)?;
    control.resize(size).await.map_err(ProcessError::from)?;
    Ok(ProcessResizePtyResponse {})
}

/// Kills a process. It has ended when `process/exited` is sent.
pub async fn kill(cx: Cx, params: ProcessKillParams) -> Result<ProcessKillResponse, RpcError> {
    cx.client.processes.get(&params.process_handle).map_err(ProcessError::from)?.terminate();
    Ok(ProcessKillResponse {})
}
