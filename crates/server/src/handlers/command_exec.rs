//! `command/exec` and what is said to a command while it runs.

use base64::{Engine, engine::general_purpose::STANDARD};
use codicil_protocol::{
    CommandExecParams, CommandExecResizeParams, CommandExecResizeResponse, CommandExecResponse,
    CommandExecTerminateParams, CommandExecTerminateResponse, CommandExecWriteParams,
    CommandExecWriteResponse,
};

use super::config::blocking;
use crate::{
    commands::{self, CommandError, ExecRequest, InputEnd, OutputSink},
    cx::Cx,
    error::RpcError,
};

/// Answers when the command has ended. It has its place before the first wait, so that a write or an end that
/// was sent right behind it finds it.
pub async fn exec(cx: Cx, params: CommandExecParams) -> Result<CommandExecResponse, RpcError> {
    let request = ExecRequest::try_from(params)?;
    let place = cx.client.commands.enter(&request)?;
    let sink = OutputSink::new(&request, &cx.client);
    let world = cx.threads().engine().clone();
    let ready =
        blocking(move || Ok(commands::ready(request, &world.config, &world.server_places, &world.cwd)?))
            .await?;
    Ok(place.run(ready, sink).await?)
}

pub async fn write(cx: Cx, params: CommandExecWriteParams) -> Result<CommandExecWriteResponse, RpcError> {
    let end = if params.close_stdin.unwrap_or_default() { InputEnd::Here } else { InputEnd::Later };
    let bytes = match (&params.delta_base64, end) {
        (Some(delta), _) => STANDARD.decode(delta).map_err(CommandError::from)?,
        (None, InputEnd::Here) => Vec::new(),
        (None, InputEnd::Later) => return Err(CommandError::NothingToWrite.into()),
    };
    cx.client.commands.get(&params.process_id)?.write(bytes, end).await?;
    Ok(CommandExecWriteResponse {})
}

pub async fn resize(cx: Cx, params: CommandExecResizeParams) -> Result<CommandExecResizeResponse, RpcError> {
    let size = commands::size(&params.size)?;
    cx.client.commands.get(&params.process_id)?.resize(size).await?;
    Ok(CommandExecResizeResponse {})
}

/// The command is gone when its own request is answered.
pub async fn terminate(
    cx: Cx,
    params: CommandExecTerminateParams,
) -> Result<CommandExecTerminateResponse, RpcError> {
    cx.client.commands.get(&params.process_id)?.terminate();
    Ok(CommandExecTerminateResponse {})
}
