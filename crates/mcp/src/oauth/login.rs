//! Signing in, from the address for the browser to the token in the file.

use std::{future::Future, pin::Pin, time::Duration};

use codicil_config::CredentialsStore;
use codicil_protocol::McpServerOauthLoginParams;
use oauth2::{
    AuthUrl, ClientId, CsrfToken, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, Scope, basic::BasicClient,
};
use thiserror::Error;
use tokio::time::timeout;
use url::Url;

use super::{
    callback::{BoundAddress, CallbackParams, CallbackServer},
    credentials::{CredentialsFile, ServerCredentials},
    discovery::{OauthMetadata, discover},
    error::OauthError,
    exchange::{CodeExchange, exchange},
    pages::CallbackPage,
    registration::{OauthClient, register},
};
use crate::config::{HttpConfig, OauthSettings};

/// How long the browser is waited for unless somebody says otherwise.
const PATIENCE: Duration = Duration::from_secs(300);

/// How long it may take to find out how to sign in.
const PREPARATION: Duration = Duration::from_secs(30);

/// What a person wishes for a sign-in.
#[derive(Clone, Debug, Default)]
pub struct LoginOptions {
    /// What to ask for, instead of what is configured or published.
    pub scopes: Option<Vec<String>>,
    /// How long the browser is waited for.
    pub timeout: Option<Duration>,
}

impl From<&McpServerOauthLoginParams> for LoginOptions {
    fn from(params: &McpServerOauthLoginParams) -> Self {
        let seconds = params.timeout_secs.map(|seconds| u64::try_from(seconds).unwrap_or(0).max(1));
        LoginOptions { scopes: params.scopes.clone(), timeout: seconds.map(Duration::from_secs) }
    }
}

/// A sign-in under way.
pub struct OauthLogin {
    /// To be opened in a browser.
    pub authorization_url: String,
    /// Waits for the browser, gets the token and keeps it. Has to be driven; dropping it ends the sign-in.
    pub completion: Pin<Box<dyn Future<Output = Result<(), OauthError>> + Send>>,
}

/// Why there is no sign-in.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LoginError {
    #[error("No MCP server named '{0}' found.")]
    UnknownServer(String),
    #[error("OAuth login is only supported for streamable HTTP servers.")]
    NotHttp,
    #[error("failed to login to MCP server '{server}': {error}")]
    Failed { server: String, error: OauthError },
}

/// Everything about one sign-in that stays the same.
pub(crate) struct SignIn {
    pub(crate) server: String,
    pub(crate) config: HttpConfig,
    /// What the configuration asks for.
    pub(crate) scopes: Option<Vec<String>>,
    pub(crate) settings: OauthSettings,
    pub(crate) file: CredentialsFile,
    pub(crate) client_name: String,
}

/// What is remembered until the browser comes back.
struct PendingLogin {
    server: CallbackServer,
    metadata: OauthMetadata,
    client: OauthClient,
    verifier: PkceCodeVerifier,
    redirect: String,
    resource: String,
    scopes: Vec<String>,
}

impl SignIn {
    /// Finds out how to sign in, and prepares for the browser.
    pub(crate) async fn begin(self, options: LoginOptions) -> Result<OauthLogin, OauthError> {
        self.check_store()?;
        let prepared = timeout(PREPARATION, self.prepare(&options)).await;
        let (authorization_url, waiting) = prepared
            .map_err(|_| OauthError::Network("timed out while finding out how to sign in".to_owned()))??;
        let patience = options.timeout.unwrap_or(PATIENCE);
        Ok(OauthLogin { authorization_url, completion: Box::pin(self.complete(waiting, patience)) })
    }

    /// Somebody who wants a keyring must not get a file instead.
    fn check_store(&self) -> Result<(), OauthError> {
        match self.settings.store {
            Some(store @ (CredentialsStore::Keyring | CredentialsStore::Ephemeral)) => {
                let name = format!("{store:?}").to_lowercase();
                Err(OauthError::Credentials(format!(
                    "mcp_oauth_credentials_store = \"{name}\" is not supported here; use \"file\""
                )))
            }
            None | Some(CredentialsStore::File | CredentialsStore::Auto) => Ok(()),
        }
    }

    async fn prepare(&self, options: &LoginOptions) -> Result<(String, PendingLogin), OauthError> {
        let url = Url::parse(&self.config.url).map_err(|error| OauthError::Unreadable(error.to_string()))?;
        let metadata = discover(&url).await?.ok_or(OauthError::NoMetadata)?;
        let wished = options.scopes.clone().or_else(|| self.scopes.clone());
        let scopes = wished.unwrap_or_else(|| metadata.scopes.clone());
        let bound = BoundAddress::new(self.settings.callback_port.unwrap_or(0)).await;
        let bound = bound
            .map_err(|error| OauthError::Network(format!("no local address for the browser: {error}")))?;
        let (redirect, path) = self.redirect(&bound)?;
        let client = register(&metadata, &self.client_name, &redirect, &scopes).await?;
        let resource = self.resource(&metadata, &url);
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let asked = BasicClient::new(ClientId::new(client.id.clone()))
            .set_auth_uri(AuthUrl::from_url(metadata.authorization_endpoint.clone()))
            .set_redirect_uri(
                RedirectUrl::new(redirect.clone())
                    .map_err(|error| OauthError::Unreadable(error.to_string()))?,
            );
        let (authorization_url, state) = asked
            .authorize_url(CsrfToken::new_random)
            .add_scopes(scopes.iter().cloned().map(Scope::new))
            .set_pkce_challenge(challenge)
            .add_extra_param("resource", resource.clone())
            .url();
        let server = bound.expect(path, state.secret().clone());
        let waiting = PendingLogin { server, metadata, client, verifier, redirect, resource, scopes };
        Ok((authorization_url.into(), waiting))
    }

    /// What the browser is told to come back to, and the path that it will ask for.
    fn redirect(&self, bound: &BoundAddress) -> Result<(String, String), OauthError> {
        if let Some(url) = &self.settings.callback_url {
            let parsed = Url::parse(url).map_err(|error| {
                OauthError::Unreadable(format!("mcp_oauth_callback_url cannot be used: {error}"))
            })?;
            return Ok((url.clone(), parsed.path().to_owned()));
        }
        let port = bound.port().map_err(|error| OauthError::Network(error.to_string()))?;
        Ok((format!("http://127.0.0.1:{port}/callback"), "/callback".to_owned()))
    }

    fn resource(&self, metadata: &OauthMetadata, url: &Url) -> String {
        let mut own = url.clone();
        own.set_query(None);
        own.set_fragment(None);
        self.config.oauth_resource.clone().or_else(|| metadata.resource.clone()).unwrap_or_else(|| own.into())
    }

    async fn complete(self, mut waiting: PendingLogin, patience: Duration) -> Result<(), OauthError> {
        let visit = timeout(patience, waiting.server.visit()).await.map_err(|_| OauthError::TimedOut)?;
        let (result, server) = self.redeem(visit.callback, waiting).await;
        let page = match &result {
            Ok(()) => CallbackPage::signed_in(&self.server),
            Err(error) => CallbackPage::failed(&self.server, &error.to_string()),
        };
        let _ = visit.page.send(page);
        server.finish().await;
        result
    }

    async fn redeem(
        &self,
        callback: CallbackParams,
        waiting: PendingLogin,
    ) -> (Result<(), OauthError>, CallbackServer) {
        let PendingLogin { server, metadata, client, verifier, redirect, resource, scopes } = waiting;
        let result = async {
            let code = code_of(callback, &metadata)?;
            let token_endpoint = metadata.token_endpoint.to_string();
            let asked = CodeExchange {
                client: &client,
                token_endpoint: &token_endpoint,
                secret_in_body: metadata.secret_in_body,
                redirect: &redirect,
                resource: &resource,
            };
            let tokens = exchange(asked, code, verifier).await?;
            let blank = self.blank(&client, scopes, token_endpoint.clone(), &resource);
            let lock = self.file.lock().await?;
            self.file.put(tokens.into_credentials(blank), &lock).await
        };
        (result.await, server)
    }

    /// Credentials without their tokens.
    fn blank(
        &self,
        client: &OauthClient,
        scopes: Vec<String>,
        token_endpoint: String,
        resource: &str,
    ) -> ServerCredentials {
        ServerCredentials {
            server_name: self.server.clone(),
            server_url: self.config.url.clone(),
            client_id: client.id.clone(),
            access_token: String::new().into(),
            expires_at: None,
            refresh_token: None,
            scopes,
            client_secret: client.secret.clone(),
            token_endpoint: Some(token_endpoint),
            rest: [("resource".to_owned(), resource.into())].into_iter().collect(),
        }
    }
}

/// The code, if it comes from whom we asked (RFC 9207).
fn code_of(callback: CallbackParams, metadata: &OauthMetadata) -> Result<String, OauthError> {
    let (code, issuer) = match callback {
        CallbackParams::Code { code, issuer } => (code, issuer),
        CallbackParams::Error { error, description } => {
            return Err(OauthError::Provider { error, description });
        }
    };
    match (issuer, &metadata.issuer) {
        (Some(named), Some(expected)) if named != *expected => Err(OauthError::WrongIssuer(named)),
        (None, Some(_)) if metadata.names_issuer => Err(OauthError::WrongIssuer("none is named".to_owned())),
        _ => Ok(code),
    }
}
