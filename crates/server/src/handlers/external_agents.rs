//! `externalAgentConfig/*`.

use codicil_migrate::external_agents::{ExternalAgents, ImportError};
use codicil_protocol::{
    ExternalAgentConfigDetectParams, ExternalAgentConfigDetectResponse, ExternalAgentConfigImportParams,
    ExternalAgentConfigImportResponse,
};

use super::config::blocking;
use crate::{cx::Cx, error::RpcError};

pub async fn detect(
    cx: Cx,
    params: ExternalAgentConfigDetectParams,
) -> Result<ExternalAgentConfigDetectResponse, RpcError> {
    let agents = external_agents(&cx);
    blocking(move || Ok(ExternalAgentConfigDetectResponse { items: agents.detect(&params)? })).await
}

pub async fn import(
    cx: Cx,
    params: ExternalAgentConfigImportParams,
) -> Result<ExternalAgentConfigImportResponse, RpcError> {
    let agents = external_agents(&cx);
    blocking(move || {
        agents.import(&params.migration_items)?;
        Ok(ExternalAgentConfigImportResponse {})
    })
    .await
}

fn external_agents(cx: &Cx) -> ExternalAgents {
    ExternalAgents::new(cx.config().clone(), std::env::home_dir())
}

impl From<ImportError> for RpcError {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Config(error) => error.into(),
            ImportError::Io { .. } | ImportError::Json(_) | ImportError::NoObject | ImportError::Toml(_) => {
                Self::internal(error)
            }
        }
    }
}
