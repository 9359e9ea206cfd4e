//! `plugin/*`.
//!
//! There is no remote catalogue: a request with `forceRemoteSync` gets the reason why nothing can be synchronized.

use codicil_extensions::{Extensions, PluginError, PluginId, RemoteError};
use codicil_protocol::{
    PluginInstallParams, PluginInstallResponse, PluginListParams, PluginListResponse, PluginReadParams,
    PluginReadResponse, PluginUninstallParams, PluginUninstallResponse,
};

use crate::{background::blocking, cx::Cx, error::RpcError};

pub async fn list(cx: Cx, params: PluginListParams) -> Result<PluginListResponse, RpcError> {
    let Extensions { plugins, featured, apps, .. } = extensions(&cx);
    let must_sync = params.force_remote_sync == Some(true);
    let mut listed = blocking(move || Ok::<_, RpcError>(plugins.list(&params))).await?;
    if let Some(config) = apps.global_config().await {
        listed.featured_plugin_ids = featured.ids(&listed, &config).await;
    }
    if must_sync {
        listed.remote_sync_error = Some(if apps.has_account().await {
            RemoteError::NotSupported.to_string()
        } else {
            "chatgpt authentication required to sync remote plugins".to_owned()
        });
    }
    Ok(listed)
}

pub async fn read(cx: Cx, params: PluginReadParams) -> Result<PluginReadResponse, RpcError> {
    let Extensions { plugins, apps, .. } = extensions(&cx);
    let read = blocking(move || plugins.read(&params)).await?;
    let mut plugin = read.detail;
    plugin.apps = apps.summaries(&read.app_ids).await;
    Ok(PluginReadResponse { plugin })
}

pub async fn install(cx: Cx, params: PluginInstallParams) -> Result<PluginInstallResponse, RpcError> {
    let extensions = extensions(&cx);
    if params.force_remote_sync == Some(true) {
        return Err(sync_error(&extensions, RemoteError::Install).await.into());
    }
    let Extensions { plugins, skills, apps, .. } = extensions;
    let installation = blocking(move || {
        let installation = plugins.install(&params)?;
        skills.forget();
        Ok::<_, PluginError>(installation)
    })
    .await?;
    let mut apps_needing_auth = apps.summaries(&installation.app_ids).await;
    apps_needing_auth.retain(|app| app.needs_auth);
    Ok(PluginInstallResponse { auth_policy: installation.auth_policy, apps_needing_auth })
}

pub async fn uninstall(cx: Cx, params: PluginUninstallParams) -> Result<PluginUninstallResponse, RpcError> {
    let extensions = extensions(&cx);
    let id: PluginId = params.plugin_id.parse()?;
    if params.force_remote_sync == Some(true) {
        return Err(sync_error(&extensions, RemoteError::Uninstall).await.into());
    }
    let Extensions { plugins, skills, .. } = extensions;
    blocking(move || {
        plugins.uninstall(&id)?;
        skills.forget();
        Ok::<_, PluginError>(PluginUninstallResponse {})
    })
    .await
}

/// Returns the reason why a plugin cannot be synchronized: no account, or no remote catalogue.
async fn sync_error(extensions: &Extensions, signed_out: RemoteError) -> PluginError {
    let reason = if extensions.apps.has_account().await { RemoteError::NotSupported } else { signed_out };
    PluginError::Remote(reason)
}

fn extensions(cx: &Cx) -> Extensions {
    cx.threads().engine().extensions.clone()
}
