//! `config/*` and `configRequirements/*`.

use codicil_config::{ConfigError, WriteError};
use codicil_protocol::{
    ConfigBatchWriteParams, ConfigReadParams, ConfigReadResponse, ConfigRequirementsReadResponse,
    ConfigValueWriteParams, ConfigWriteResponse, NoParams,
};

use crate::{cx::Cx, error::RpcError};

pub async fn read(cx: Cx, params: ConfigReadParams) -> Result<ConfigReadResponse, RpcError> {
    let config = cx.config().clone();
    blocking(move || config.read(&params).map_err(RpcError::from)).await
}

pub async fn value_write(cx: Cx, params: ConfigValueWriteParams) -> Result<ConfigWriteResponse, RpcError> {
    let config = cx.config().clone();
    blocking(move || config.write_value(&params).map_err(RpcError::from)).await
}

pub async fn batch_write(cx: Cx, params: ConfigBatchWriteParams) -> Result<ConfigWriteResponse, RpcError> {
    let (config, reloads) = (cx.config().clone(), params.reload_user_config == Some(true));
    let written = blocking(move || config.batch_write(&params).map_err(RpcError::from)).await?;
    if reloads {
        cx.threads().engine().reload_config();
    }
    Ok(written)
}

pub async fn requirements_read(
    cx: Cx,
    _params: NoParams,
) -> Result<ConfigRequirementsReadResponse, RpcError> {
    let config = cx.config().clone();
    blocking(move || config.read_requirements().map_err(RpcError::from)).await
}

/// Configuration lives in files; they are read and written where blocking is allowed.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
) -> Result<T, RpcError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(RpcError::internal("internal error")))
}

impl From<ConfigError> for RpcError {
    fn from(error: ConfigError) -> Self {
        Self::internal(format_args!("failed to read configuration layers: {error}"))
    }
}

impl From<WriteError> for RpcError {
    fn from(error: WriteError) -> Self {
        match (error.data(), error) {
            (Some(data), error) => Self::invalid_request(&error).with_data(data),
            (None, WriteError::Unusable(error)) => {
                Self::internal(format_args!("failed to load configuration: {error}"))
            }
            (None, error) => Self::internal(error),
        }
    }
}
