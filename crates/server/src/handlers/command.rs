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
    Ok(slot.run(ready, sink).await?)
}

pub async fn exec_write(
    cx: Cx,
    params: CommandExecWriteParams,
) -> Result<CommandExecWriteResponse, RpcError> {
    let end = if params.close_stdin.unwrap_or_default() { InputEnd::Here } else { InputEnd::Later };
    let bytes = match (&params.delta_base64, end) {
        (Some(delta), _) => STANDARD.decode(delta).map_err(CommandError::from)?,
        (None, InputEnd::Here) => Vec::new(),
        (None, InputEnd::Later) => return Err(CommandError::NothingToWrite.into()),
    };
    cx.client.commands.get(&params.process_id)?.write(bytes, end).await?;
    Ok(CommandExecWriteResponse {})
}

pub async fn exec_resize(
    cx: Cx,
    params: CommandExecResizeParams,
) -> Result<CommandExecResizeResponse, RpcError> {
    let size = commands::terminal_size(&params.size)?;
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
