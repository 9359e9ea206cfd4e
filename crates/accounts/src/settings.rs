//! The account settings from the configuration and the environment.

use codicil_config::{ConfigError, ConfigQuery, ConfigStore, CredentialsStore, EffectiveConfig};
use codicil_model::{EnvironmentSource, ProviderConfig};
use codicil_protocol::{ForcedChatgptWorkspaceIds, ForcedLoginMethod};

use crate::issuer::OauthIssuer;

const ISSUER: &str = "https://auth.openai.com";
/// Public client id of this family of programs at that issuer.
const CLIENT_ID: &str = "app_EMoamEEZ73f0CkXaXp7hrann";
const BACKEND: &str = "https://chatgpt.com/backend-api";
/// The only port to which the issuer redirects browsers.
const CALLBACK_PORT: u16 = 1455;

/// The current settings. Project configurations do not apply, so they are read without a directory.
#[derive(Clone, Debug)]
pub(crate) struct AccountSettings {
    pub store: CredentialsStore,
    pub forced_method: Option<ForcedLoginMethod>,
    /// The only workspaces that the user may sign in to. Empty: any.
    pub forced_workspaces: Vec<String>,
    /// Without a trailing slash.
    pub backend: String,
    pub issuer: OauthIssuer,
    pub callback_port: u16,
    /// Whether the selected model provider uses the account.
    pub requires_openai_auth: bool,
}

impl AccountSettings {
    /// Loads the settings. Reads files and therefore blocks.
    pub fn load(config: &ConfigStore, environment: &EnvironmentSource) -> Result<Self, ConfigError> {
        Ok(Self::of(Some(&config.load(&ConfigQuery::default())?), environment))
    }

    /// Loads the settings, or the defaults if the configuration is invalid, which is reported elsewhere.
    pub fn load_or_default(config: &ConfigStore, environment: &EnvironmentSource) -> Self {
        Self::load(config, environment).unwrap_or_else(|_| Self::of(None, environment))
    }

    fn of(config: Option<&EffectiveConfig>, environment: &EnvironmentSource) -> Self {
        let settings = config.map(|config| &config.settings);
        let login = settings.map(|settings| settings.codicil.login.clone()).unwrap_or_default();
        let variable = |names: &[&str]| names.iter().find_map(|name| environment.get(name));
        let issuer = variable(&["CODICIL_LOGIN_ISSUER", "CODEX_APP_SERVER_LOGIN_ISSUER"]).or(login.issuer);
        let client_id = variable(&["CODICIL_LOGIN_CLIENT_ID"]).or(login.client_id);
        let backend = settings.and_then(|settings| settings.chatgpt_base_url.clone());
        Self {
            store: settings.and_then(|it| it.cli_auth_credentials_store).unwrap_or(CredentialsStore::File),
            forced_method: settings.and_then(|settings| settings.forced_login_method.clone()),
            forced_workspaces: match settings
                .and_then(|settings| settings.forced_chatgpt_workspace_id.clone())
            {
                None => Vec::new(),
                Some(ForcedChatgptWorkspaceIds::One(id)) => vec![id],
                Some(ForcedChatgptWorkspaceIds::Any(ids)) => ids,
            },
            backend: backend_url(backend.as_deref().unwrap_or(BACKEND)),
            issuer: OauthIssuer::new(
                issuer.as_deref().unwrap_or(ISSUER),
                client_id.as_deref().unwrap_or(CLIENT_ID),
                variable(&["CODEX_REFRESH_TOKEN_URL_OVERRIDE"]),
            ),
            callback_port: login.callback_port.unwrap_or(CALLBACK_PORT),
            requires_openai_auth: config.is_none_or(requires_openai_auth),
        }
    }
}

/// Adds the path of the backend on the vendor's own hosts, which users often omit.
fn backend_url(url: &str) -> String {
    let url = url.trim_end_matches('/');
    let is_vendors = ["https://chatgpt.com", "https://chat.openai.com"].contains(&url);
    if is_vendors { format!("{url}/backend-api") } else { url.to_owned() }
}

fn requires_openai_auth(config: &EffectiveConfig) -> bool {
    let id = config.settings.model_provider.as_deref().unwrap_or("openai");
    let configured = config.model_providers().find(|(name, _)| *name == id);
    let configured = configured.and_then(|(_, table)| table.clone().try_into::<ProviderConfig>().ok());
    configured.or_else(|| ProviderConfig::builtin(id)).is_none_or(|provider| provider.requires_openai_auth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backend_url_is_normalised() {
        let check = |url: &str, expected: &str| assert_eq!(backend_url(url), expected);
        check("https://chatgpt.com/", "https://chatgpt.com/backend-api");
        check("https://chat.openai.com", "https://chat.openai.com/backend-api");
        check("https://chatgpt.com/backend-api/", "https://chatgpt.com/backend-api");
        check("http://127.0.0.1:9/backend-api", "http://127.0.0.1:9/backend-api");
        check("http://127.0.0.1:9", "http://127.0.0.1:9");
    }
}
