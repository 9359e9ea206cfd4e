//! `command/exec` and the methods that reach a running command.

use base64::{Engine, engine::general_purpose::STANDARD};
use codicil_protocol::{
    CommandExecParams, CommandExecResizeParams, CommandExecResizeResponse, CommandExecResponse,
    CommandExecTerminateParams, CommandExecTerminateResponse, CommandExecWriteParams,
    CommandExecWriteResponse,
};

use crate::{
    background::blocking,
    commands::{self, CommandError, ExecRequest, InputEnd, OutputSink},
    cx::Cx,
    error::RpcError,
};

/// Runs a command and responds when it has ended. The command is registered before the first `.await`, so that a
/// write or terminate request sent right behind this one finds it.
pub async fn exec(cx: Cx, params: CommandExecParams) -> Result<CommandExecResponse, RpcError> {
    let request = ExecRequest::try_from(params)?;
    let slot = cx.client.commands.register(&request)?;
    let sink = OutputSink::new(&request, &cx.client);
    let engine = cx.threads().engine().clone();
    let ready =
        blocking(move || commands::prepare(request, &engine.config, &engine.server_places, &engine.cwd))
            .await?;
    Ok(slot.run(ready, sink).await?.into_response())
}

pub async fn exec_write(
    cx: Cx,
    params: CommandExecWriteParams,
) -> Result<CommandExecWriteResponse, RpcError> {
    let (bytes, end) = input(params.delta_base64.as_deref(), params.close_stdin.unwrap_or_default())?;
    cx.client.commands.get(&params.process_id)?.write(bytes, end).await?;
    Ok(CommandExecWriteResponse {})
}

/// Decodes what a client writes to a command.
pub fn input(delta_base64: Option<&str>, close_stdin: bool) -> Result<(Vec<u8>, InputEnd), CommandError> {
    let end = if close_stdin { InputEnd::Here } else { InputEnd::Later };
    match (delta_base64, end) {
        (Some(delta), _) => Ok((STANDARD.decode(delta)?, end)),
        (None, InputEnd::Here) => Ok((Vec::new(), end)),
        (None, InputEnd::Later) => Err(CommandError::NothingToWrite),
    }
}

pub async fn exec_resize(
    cx: Cx,
    params: CommandExecResizeParams,
) -> Result<CommandExecResizeResponse, RpcError> {
    let size = commands::terminal_size(params.size.rows, params.size.cols)?;
    cx.client.commands.get(&params.process_id)?.resize(size).await?;
    Ok(CommandExecResizeResponse {})
}

/// Kills a command. It has ended when its own request gets a response.
pub async fn exec_terminate(
    cx: Cx,
    params: CommandExecTerminateParams,
) -> Result<CommandExecTerminateResponse, RpcError> {
    cx.client.commands.get(&params.process_id)?.terminate();
    Ok(CommandExecTerminateResponse {})
}
