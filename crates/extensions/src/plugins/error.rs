//! The errors of plugin requests.

use std::{io, path::PathBuf};

use codicil_config::WriteError;

/// Reasons why a plugin cannot be read, installed or removed. Clients match on most of these texts.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    #[error("plugins feature is disabled")]
    Disabled,
    #[error("invalid plugin key `{0}`; expected <plugin>@<marketplace>")]
    BadId(String),
    #[error("invalid {what}: {reason}{}", within.as_ref().map(|id| format!(" in `{id}`")).unwrap_or_default())]
    BadName { what: &'static str, reason: &'static str, within: Option<String> },
    #[error("marketplace file `{}` does not exist", .0.display())]
    NoMarketplace(PathBuf),
    #[error("invalid marketplace file `{}`: {reason}", path.display())]
    BadMarketplace { path: PathBuf, reason: String },
    #[error("plugin `{plugin}` was not found in marketplace `{marketplace}`")]
    NotFound { plugin: String, marketplace: String },
    #[error("plugin `{plugin}` is not available for install in marketplace `{marketplace}`")]
    NotAvailable { plugin: String, marketplace: String },
    #[error("plugin source path is not a directory: {}", .0.display())]
    NoSource(PathBuf),
    #[error("missing or invalid .codex-plugin/plugin.json")]
    NoManifest,
    #[error("plugin manifest name `{manifest}` does not match marketplace plugin name `{marketplace}`")]
    OtherName { manifest: String, marketplace: String },
    #[error("plugin cannot be copied: {0}")]
    NotCopied(&'static str),
    #[error("failed to install plugin: {0}")]
    Install(#[source] io::Error),
    #[error("failed to uninstall plugin: {0}")]
    Uninstall(#[source] io::Error),
    #[error("failed to persist installed plugin config: {0}")]
    Persist(#[source] WriteError),
    #[error("failed to clear plugin config: {0}")]
    Clear(#[source] WriteError),
    #[error("{0}")]
    Remote(RemoteError),
}

/// Reasons why a change is not made in a remote catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    #[error("failed to enable remote plugin: {REMOTE_AUTH}")]
    Install,
    #[error("failed to uninstall remote plugin: {REMOTE_AUTH}")]
    Uninstall,
    #[error("this server keeps no plugins in a remote catalogue; leave out forceRemoteSync")]
    NotSupported,
}

const REMOTE_AUTH: &str = "chatgpt authentication required for remote plugin mutation";
