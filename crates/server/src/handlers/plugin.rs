//! `plugin/*`.
//!
//! There is no remote catalogue: a request with `forceRemoteSync` gets the reason why nothing can be synchronized, and shares
//! are refused.

use codicil_extensions::{Extensions, PluginError, PluginId, RemoteError};
use codicil_protocol::{
    PluginInstallParams, PluginInstallResponse, PluginInstalledParams, PluginInstalledResponse,
    PluginListMarketplaceKind, PluginListParams, PluginListResponse, PluginReadParams, PluginReadResponse,
    PluginReconcileParams, PluginReconcileResponse, PluginSearchParams, PluginSearchResponse,
    PluginShareCheckoutParams, PluginShareCheckoutResponse, PluginShareDeleteParams,
    PluginShareDeleteResponse, PluginShareListParams, PluginShareListResponse, PluginShareSaveParams,
    PluginShareSaveResponse, PluginShareUpdateTargetsParams, PluginShareUpdateTargetsResponse,
    PluginSkillReadParams, PluginSkillReadResponse, PluginUninstallParams, PluginUninstallResponse,
    ProtocolGeneration,
};

use crate::{background::blocking, cx::Cx, error::RpcError, paging::ListPage, refusals::ServiceRefusal};

pub async fn list(cx: Cx, params: PluginListParams) -> Result<PluginListResponse, RpcError> {
    let Extensions { plugins, featured, apps, .. } = extensions(&cx);
    let must_sync = params.force_remote_sync == Some(true);
    let kinds = params.marketplace_kinds.clone();
    let mut listed = blocking(move || Ok::<_, RpcError>(plugins.list(&params))).await?;
    if kinds.is_some_and(|kinds| !kinds.contains(&PluginListMarketplaceKind::Local)) {
        listed.marketplaces.clear();
        listed.marketplace_load_errors.clear();
    }
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

pub async fn installed(cx: Cx, params: PluginInstalledParams) -> Result<PluginInstalledResponse, RpcError> {
    let Extensions { plugins, .. } = extensions(&cx);
    blocking(move || Ok::<_, RpcError>(plugins.list_installed(&params))).await
}

pub async fn search(cx: Cx, params: PluginSearchParams) -> Result<PluginSearchResponse, RpcError> {
    let Extensions { plugins, .. } = extensions(&cx);
    let PluginSearchParams { cursor, limit, .. } = params.clone();
    let found = blocking(move || Ok::<_, RpcError>(plugins.search(&params))).await?;
    let page = ListPage::new(found, cursor.as_deref(), limit, "plugins")?;
    Ok(PluginSearchResponse { data: page.data, next_cursor: page.next_cursor })
}

pub async fn read(cx: Cx, params: PluginReadParams) -> Result<PluginReadResponse, RpcError> {
    let Some(marketplace) = params.marketplace_path else {
        let action = "read remote plugin details";
        return Err(no_local_marketplace(&cx, params.remote_marketplace_name, action, "plugin/read").await);
    };
    let Extensions { plugins, apps, .. } = extensions(&cx);
    let read = blocking(move || plugins.read(&marketplace, &params.plugin_name)).await?;
    let mut plugin = read.detail;
    plugin.apps = apps.summaries(&read.app_ids).await;
    Ok(PluginReadResponse { plugin })
}

pub async fn install(cx: Cx, params: PluginInstallParams) -> Result<PluginInstallResponse, RpcError> {
    let extensions = extensions(&cx);
    if params.force_remote_sync == Some(true) {
        return Err(sync_error(&extensions, RemoteError::Install).await.into());
    }
    if params.marketplace_path.is_some() && params.remote_marketplace_name.is_some() {
        return Err(ServiceRefusal::OneMarketplace("plugin/install").into());
    }
    let Some(marketplace) = params.marketplace_path else {
        let action = "install remote plugin";
        return Err(no_local_marketplace(&cx, params.remote_marketplace_name, action, "plugin/install").await);
    };
    let Extensions { plugins, skills, apps, .. } = extensions;
    let installation = blocking(move || {
        let installation = plugins.install(&marketplace, &params.plugin_name)?;
        skills.forget();
        Ok::<_, PluginError>(installation)
    })
    .await?;
    let mut apps_needing_auth = apps.summaries(&installation.app_ids).await;
    apps_needing_auth.retain(|app| app.needs_auth);
    Ok(PluginInstallResponse { auth_policy: installation.auth_policy, apps_needing_auth })
}

/// Refuses a request without the file of a marketplace: there is no remote catalogue.
async fn no_local_marketplace(
    cx: &Cx,
    remote: Option<String>,
    action: &'static str,
    method: &'static str,
) -> RpcError {
    match remote {
        Some(_) => ServiceRefusal::catalogue(cx, action, method).await.into(),
        None if cx.generation() == ProtocolGeneration::V166 => ServiceRefusal::OneMarketplace(method).into(),
        None => RpcError::malformed("missing field `marketplacePath`"),
    }
}

pub async fn uninstall(cx: Cx, params: PluginUninstallParams) -> Result<PluginUninstallResponse, RpcError> {
    let extensions = extensions(&cx);
    if cx.generation() == ProtocolGeneration::V166 && !params.plugin_id.contains('@') {
        // The id of a plugin of the remote catalogue.
        let action = "resolve remote plugin before uninstall";
        return Err(ServiceRefusal::catalogue(&cx, action, "plugin/uninstall").await.into());
    }
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

/// Compares the installed plugins with the remote catalogue. There is none, so nothing changes.
pub async fn reconcile(_cx: Cx, _params: PluginReconcileParams) -> Result<PluginReconcileResponse, RpcError> {
    Ok(PluginReconcileResponse {
        changed_plugins: Vec::new(),
        failed_remote_plugin_ids: Vec::new(),
        failed_materialization_remote_plugin_ids: Vec::new(),
    })
}

pub async fn skill_read(cx: Cx, _params: PluginSkillReadParams) -> Result<PluginSkillReadResponse, RpcError> {
    Err(ServiceRefusal::catalogue(&cx, "read remote plugin skill details", "plugin/skill/read").await.into())
}

pub async fn share_save(cx: Cx, _params: PluginShareSaveParams) -> Result<PluginShareSaveResponse, RpcError> {
    Err(ServiceRefusal::catalogue(&cx, "save remote plugin share", "plugin/share/save").await.into())
}

pub async fn share_update_targets(
    cx: Cx,
    _params: PluginShareUpdateTargetsParams,
) -> Result<PluginShareUpdateTargetsResponse, RpcError> {
    let method = "plugin/share/updateTargets";
    Err(ServiceRefusal::catalogue(&cx, "update remote plugin share targets", method).await.into())
}

pub async fn share_list(cx: Cx, _params: PluginShareListParams) -> Result<PluginShareListResponse, RpcError> {
    Err(ServiceRefusal::catalogue(&cx, "list remote plugin shares", "plugin/share/list").await.into())
}

pub async fn share_checkout(
    cx: Cx,
    _params: PluginShareCheckoutParams,
) -> Result<PluginShareCheckoutResponse, RpcError> {
    Err(ServiceRefusal::catalogue(&cx, "checkout plugin share", "plugin/share/checkout").await.into())
}

pub async fn share_delete(
    cx: Cx,
    _params: PluginShareDeleteParams,
) -> Result<PluginShareDeleteResponse, RpcError> {
    Err(ServiceRefusal::catalogue(&cx, "delete remote plugin share", "plugin/share/delete").await.into())
}

/// Returns the reason why a plugin cannot be synchronized: no account, or no remote catalogue.
async fn sync_error(extensions: &Extensions, signed_out: RemoteError) -> PluginError {
    let reason = if extensions.apps.has_account().await { RemoteError::NotSupported } else { signed_out };
    PluginError::Remote(reason)
}

fn extensions(cx: &Cx) -> Extensions {
    cx.threads().engine().extensions.clone()
}
