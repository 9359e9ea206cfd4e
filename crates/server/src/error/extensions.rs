//! Codes of errors about plugins, skills, hooks and MCP servers.

use codicil_engine::ClientCallError;
use codicil_extensions::{MarketplaceError, PluginError, SkillsError};
use codicil_mcp::{CallError, LoginError, StatusPageError};

use crate::{
    error::RpcError,
    handlers::{app::AppsReadError, hooks::TooManyDirectories, mcp_server::ServerTableError},
};

impl From<MarketplaceError> for RpcError {
    fn from(error: MarketplaceError) -> Self {
        match error {
            MarketplaceError::EmptySource
            | MarketplaceError::SourceFormat
            | MarketplaceError::Unresolved(_)
            | MarketplaceError::NotADirectory
            | MarketplaceError::LocalReference
            | MarketplaceError::LocalSparsePaths
            | MarketplaceError::Reference(_)
            | MarketplaceError::OtherSource(_)
            | MarketplaceError::NotConfigured(_)
            | MarketplaceError::NotGit(_) => Self::invalid_request(error),
            MarketplaceError::Manifest(error) => error.into(),
            MarketplaceError::Write(error) => error.into(),
            MarketplaceError::Git { .. }
            | MarketplaceError::TooLarge { .. }
            | MarketplaceError::Install(_)
            | MarketplaceError::Ending => Self::internal(error),
        }
    }
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

impl From<SkillsError> for RpcError {
    fn from(error: SkillsError) -> Self {
        match error {
            SkillsError::RelativeRoot(_) | SkillsError::TooMany => Self::invalid_request(error),
            SkillsError::Selector => Self::invalid_params(error),
            SkillsError::Write(error) => error.into(),
        }
    }
}

impl From<TooManyDirectories> for RpcError {
    fn from(error: TooManyDirectories) -> Self {
        Self::invalid_request(error)
    }
}

impl From<ClientCallError> for RpcError {
    fn from(error: ClientCallError) -> Self {
        match error {
            // The client talks to the server: its errors are passed on as they are.
            ClientCallError::Call(CallError::Server { code, message, data }) => {
                Self::new(code.into(), message).with_data(data)
            }
            ClientCallError::Call(
                CallError::UnknownServer(_)
                | CallError::UnknownTool { .. }
                | CallError::DisabledTool { .. }
                | CallError::Arguments
                | CallError::NotStarted(_)
                | CallError::NotSignedIn
                | CallError::MissingScopes(_)
                | CallError::TimedOut(_)
                | CallError::Cancelled
                | CallError::Closed(_)
                | CallError::Unreadable(_),
            )
            | ClientCallError::Arguments { .. } => Self::internal(error),
        }
    }
}

impl From<ServerTableError> for RpcError {
    fn from(error: ServerTableError) -> Self {
        match error {
            ServerTableError::Config(_) => Self::internal(error),
            ServerTableError::Server(_) => Self::invalid_request(error),
        }
    }
}

impl From<AppsReadError> for RpcError {
    fn from(error: AppsReadError) -> Self {
        match error {
            AppsReadError::TooMany => Self::invalid_params(error),
        }
    }
}

impl From<StatusPageError> for RpcError {
    fn from(error: StatusPageError) -> Self {
        match error {
            StatusPageError::Cursor(_) | StatusPageError::Beyond { .. } => Self::invalid_request(error),
        }
    }
}

impl From<LoginError> for RpcError {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::UnknownServer(_) | LoginError::NotHttp => Self::invalid_request(error),
            LoginError::Failed { .. } => Self::internal(error),
        }
    }
}
