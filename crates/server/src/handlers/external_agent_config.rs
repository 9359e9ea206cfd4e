//! `externalAgentConfig/*`.

use codicil_migrate::external_agents::ExternalAgents;
use codicil_protocol::{
    ExternalAgentConfigDetectParams, ExternalAgentConfigDetectResponse, ExternalAgentConfigImportParams,
    ExternalAgentConfigImportResponse,
};
use uuid::Uuid;

use crate::{background::blocking, cx::Cx, error::RpcError};

pub async fn detect(
    cx: Cx,
    params: ExternalAgentConfigDetectParams,
) -> Result<ExternalAgentConfigDetectResponse, RpcError> {
    let agents = external_agents(&cx);
    let items = blocking(move || agents.detect(&params)).await?;
    Ok(ExternalAgentConfigDetectResponse { items })
}

pub async fn import(
    cx: Cx,
    params: ExternalAgentConfigImportParams,
) -> Result<ExternalAgentConfigImportResponse, RpcError> {
    let agents = external_agents(&cx);
    blocking(move || agents.import(&params.migration_items)).await?;
    Ok(ExternalAgentConfigImportResponse { import_id: Uuid::now_v7().to_string() })
}

fn external_agents(cx: &Cx) -> ExternalAgents {
    ExternalAgents::new(cx.config().clone(), std::env::home_dir())
}
