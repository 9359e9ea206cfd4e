//! `externalAgentConfig/*`.

use codicil_engine::{SettingsError, ThreadError};
use codicil_migrate::external_agents::{ExternalAgents, ImportHistory};
use codicil_protocol::{
    ExternalAgentConfigDetectParams, ExternalAgentConfigDetectResponse,
    ExternalAgentConfigImportHistoriesReadResponse, ExternalAgentConfigImportHistoryRecordParams,
    ExternalAgentConfigImportHistoryRecordResponse, ExternalAgentConfigImportParams,
    ExternalAgentConfigImportResponse, NoParams,
};
use uuid::Uuid;

use crate::{background::blocking, cx::Cx, error::RpcError};

pub async fn detect(
    cx: Cx,
    params: ExternalAgentConfigDetectParams,
) -> Result<ExternalAgentConfigDetectResponse, RpcError> {
    let agents = external_agents(&cx);
    let items = blocking(move || agents.detect(&params)).await?;
    Ok(ExternalAgentConfigDetectResponse { items, connectors: Vec::new() })
}

pub async fn import(
    cx: Cx,
    params: ExternalAgentConfigImportParams,
) -> Result<ExternalAgentConfigImportResponse, RpcError> {
    if !params.migration_items.iter().all(|item| ExternalAgents::can_import(&item.item_type)) {
        return Err(ThreadError::from(SettingsError::Unsupported("migrationItems")).into());
    }
    let agents = external_agents(&cx);
    blocking(move || agents.import(&params.migration_items)).await?;
    Ok(ExternalAgentConfigImportResponse { import_id: Uuid::now_v7().to_string() })
}

/// Stores the result of an import that the client has made itself.
pub async fn import_record_history(
    cx: Cx,
    params: ExternalAgentConfigImportHistoryRecordParams,
) -> Result<ExternalAgentConfigImportHistoryRecordResponse, RpcError> {
    let history = ImportHistory::new(cx.home());
    let import_id = blocking(move || history.record(params)).await?;
    Ok(ExternalAgentConfigImportHistoryRecordResponse { import_id })
}

/// Returns the stored results of imports, the oldest first.
pub async fn import_read_histories(
    cx: Cx,
    _params: NoParams,
) -> Result<ExternalAgentConfigImportHistoriesReadResponse, RpcError> {
    let history = ImportHistory::new(cx.home());
    let data = blocking(move || history.read()).await?;
    Ok(ExternalAgentConfigImportHistoriesReadResponse { data, connectors: Vec::new() })
}

fn external_agents(cx: &Cx) -> ExternalAgents {
    ExternalAgents::new(cx.config().clone(), std::env::home_dir())
}
