//! `plugin/*`.
//!
//! The server keeps no remote catalogue: `forceRemoteSync` is answered with what stands in its way.

use codicil_extensions::{Extensions, PluginError, PluginId, RemoteError};
use codicil_protocol::{
    PluginInstallParams, PluginInstallResponse, PluginListParams, PluginListResponse, PluginReadParams,
    PluginReadResponse, PluginUninstallParams, PluginUninstallResponse,
};

use super::config::blocking;
use crate::{cx::Cx, error::RpcError};

pub async fn list(cx: Cx, params: PluginListParams) -> Result<PluginListResponse, RpcError> {
    let extensions = extensions(&cx);
    let plugins = extensions.plugins.clone();
    let is_remote = params.force_remote_sync == Some(true);
    let mut listed = blocking(move || Ok(plugins.list(&params))).await?;
    if is_remote {
        listed.remote_sync_error = Some(match extensions.apps.has_account().await {
            true => RemoteError::NotSupported.to_string(),
            false => "chatgpt authentication required to sync remote plugins".to_owned(),
        });
    }
    Ok(listed)
}

pub async fn read(cx: Cx, params: PluginReadParams) -> Result<PluginReadResponse, RpcError> {
    let extensions = extensions(&cx);
    let plugins = extensions.plugins.clone();
    let read = blocking(move || plugins.read(&params).map_err(RpcError::from)).await?;
    let mut plugin = read.detail;
    plugin.apps = extensions.apps.summaries(&read.app_ids).await;
    Ok(PluginReadResponse { plugin })
}

pub async fn install(cx: Cx, params: PluginInstallParams) -> Result<PluginInstallResponse, RpcError> {
    let extensions = extensions(&cx);
    if params.force_remote_sync == Some(true) {
        return Err(no_remote(&extensions, RemoteError::Install).await);
    }
    let Extensions { plugins, skills, .. } = extensions.clone();
    let installation = blocking(move || {
        let installation = plugins.install(&params)?;
        skills.forget();
        Ok(installation)
    })
    .await?;
    let mut apps_needing_auth = extensions.apps.summaries(&installation.app_ids).await;
    apps_needing_auth.retain(|app| app.needs_auth);
    Ok(PluginInstallResponse { auth_policy: installation.auth_policy, apps_needing_auth })
}

pub async fn uninstall(cx: Cx, params: PluginUninstallParams) -> Result<PluginUninstallResponse, RpcError> {
    let extensions = extensions(&cx);
    let id: PluginId = params.plugin_id.parse()?;
    if params.force_remote_sync == Some(true) {
        return Err(no_remote(&extensions, RemoteError::Uninstall).await);
    }
    let Extensions { plugins, skills, .. } = extensions;
    blocking(move || {
        plugins.uninstall(&id)?;
        skills.forget();
        Ok(PluginUninstallResponse {})
    })
    .await
}

/// Nothing is done when the remote catalogue was to be told and cannot be.
async fn no_remote(extensions: &Extensions, signed_out: RemoteError) -> RpcError {
    let reason = if extensions.apps.has_account().await { RemoteError::NotSupported } else { signed_out };
    PluginError::Remote(reason).into()
}

fn extensions(cx: &Cx) -> Extensions {
    cx.threads().engine().extensions.clone()
}

impl From<PluginError> for RpcError {
    fn from(error: PluginError) -> Self {
        match error {
            PluginError::Disabled
            | PluginError::BadId(_)
            | PluginError::BadName { .. }
            | PluginError::NoMarketplace(_)
            | PluginError::BadMarketplace { .. }
            | PluginError::NotFound { .. }
            | PluginError::NotAvailable { .. }
            | PluginError::NoSource(_)
            | PluginError::NoManifest
            | PluginError::OtherName { .. }
            | PluginError::NotCopied(_) => Self::invalid_request(error),
            PluginError::Install(_)
            | PluginError::Uninstall(_)
            | PluginError::Persist(_)
            | PluginError::Clear(_)
            | PluginError::Remote(_) => Self::internal(error),
        }
    }
}
