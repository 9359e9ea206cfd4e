//! The OAuth login to a server, from the URL for the browser to the stored token.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use codicil_config::CredentialsStore;
use codicil_http::{
    CallbackListener, CallbackOutcome, CallbackPage, CallbackPort, CallbackVisit, StateCheck,
};
use codicil_protocol::{McpServerOauthLoginParams, Secret};
use oauth2::{
    AuthUrl, ClientId, CsrfToken, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, Scope, basic::BasicClient,
};
use thiserror::Error;
use tokio::time::timeout;
use url::Url;

use super::{
    challenge::{AuthChallenge, ChallengeKind},
    credentials::{AUTH_METHOD, CredentialsFile, ServerCredentials},
    discovery::{OauthMetadata, discover},
    error::OauthError,
    exchange::{ClientAuth, CodeExchange, exchange},
    registration::{OauthClient, register},
};
use crate::{
    config::{HttpConfig, OauthSettings, ServerConfig, ServerTable, ServerTransport},
    pool::ServerPool,
    text::cut,
};

/// Default time to wait for the browser.
const BROWSER_TIME: Duration = Duration::from_secs(300);

/// Time for discovery and client registration.
const PREPARATION_TIME: Duration = Duration::from_secs(30);

/// Upper bound, in characters, of an error text that the authorization server sent.
const MAX_REASON: usize = 300;

/// The user's options for a login.
#[derive(Clone, Debug, Default)]
pub struct LoginOptions {
    /// Scopes to request instead of those configured or published.
    pub scopes: Option<Vec<String>>,
    /// Time to wait for the browser.
    pub timeout: Option<Duration>,
}

impl From<&McpServerOauthLoginParams> for LoginOptions {
    fn from(params: &McpServerOauthLoginParams) -> Self {
        let seconds = params.timeout_secs.map(|seconds| u64::try_from(seconds).unwrap_or(0).max(1));
        LoginOptions { scopes: params.scopes.clone(), timeout: seconds.map(Duration::from_secs) }
    }
}

/// A pending login.
pub struct OauthLogin {
    /// URL to open in a browser.
    pub authorization_url: String,
    /// Waits for the browser, then requests and stores the token. Dropping it ends the login.
    pub completion: Pin<Box<dyn Future<Output = Result<(), OauthError>> + Send>>,
}

/// The reason why a login could not begin.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LoginError {
    #[error("No MCP server named '{0}' found.")]
    UnknownServer(String),
    #[error("OAuth login is only supported for streamable HTTP servers.")]
    NotHttp,
    #[error("failed to login to MCP server '{server}': {error}")]
    Failed { server: String, error: OauthError },
}

/// The parameters of a login.
struct SignIn {
    server: String,
    config: HttpConfig,
    /// Configured scopes.
    scopes: Option<Vec<String>>,
    settings: OauthSettings,
    file: CredentialsFile,
    client_name: String,
    configured_client: Result<Option<ConfiguredClient>, OauthError>,
    /// The last challenge that a connection has received from the server.
    challenge: Option<Arc<AuthChallenge>>,
}

/// A client that is known to the authorization server beforehand.
#[derive(Clone)]
struct ConfiguredClient {
    id: String,
    secret: Option<Secret>,
}

/// The state of a login while it waits for the browser.
struct PendingLogin {
    listener: CallbackListener,
    metadata: OauthMetadata,
    client: OauthClient,
    verifier: PkceCodeVerifier,
    redirect: String,
    resource: String,
    scopes: Vec<String>,
}

impl ServerPool {
    /// `mcpServer/oauth/login`: begins a login to a configured server. Threads use the token once it is stored.
    pub async fn login(
        &self,
        table: &ServerTable,
        name: &str,
        options: LoginOptions,
    ) -> Result<OauthLogin, LoginError> {
        let config = table.get(name).ok_or_else(|| LoginError::UnknownServer(name.to_owned()))?;
        self.begin_login(name, config, &table.oauth, options).await
    }

    pub(crate) async fn begin_login(
        &self,
        name: &str,
        config: &Arc<ServerConfig>,
        settings: &OauthSettings,
        options: LoginOptions,
    ) -> Result<OauthLogin, LoginError> {
        let ServerTransport::Http(http) = &config.transport else { return Err(LoginError::NotHttp) };
        let sign_in = SignIn {
            server: name.to_owned(),
            config: http.clone(),
            scopes: config.scopes.clone(),
            settings: settings.clone(),
            file: self.credentials().clone(),
            client_name: self.identity().name.clone(),
            configured_client: self.configured_client(http),
            challenge: self.receive_challenge(name, config, http).await,
        };
        let begun = sign_in.begin(options).await;
        let login = begun.map_err(|error| LoginError::Failed { server: name.to_owned(), error })?;
        let pool = self.clone();
        let server = name.to_owned();
        let url = http.url.clone();
        let completion = Box::pin(async move {
            login.completion.await?;
            pool.challenges().remove(&server, &url);
            pool.reset_failure(&server);
            Ok(())
        });
        Ok(OauthLogin { authorization_url: login.authorization_url, completion })
    }

    /// Returns the last challenge of a server. Without one the server is started, since many servers send a challenge
    /// only in response to the first message.
    async fn receive_challenge(
        &self,
        name: &str,
        config: &Arc<ServerConfig>,
        http: &HttpConfig,
    ) -> Option<Arc<AuthChallenge>> {
        let challenge = || self.challenges().get(name, &http.url);
        if challenge().is_none() {
            let slot = self.slot(name, config);
            slot.reset_failure();
            // The result does not matter: discovery follows in any case.
            let _ = timeout(PREPARATION_TIME, slot.ready()).await;
        }
        challenge()
    }

    /// Returns the client that the configuration names, with its secret from the environment.
    fn configured_client(&self, http: &HttpConfig) -> Result<Option<ConfiguredClient>, OauthError> {
        let Some(client) = &http.oauth_client else { return Ok(None) };
        let secret = match &client.secret_env_var {
            Some(name) => Some(self.secret_variable(name).ok_or_else(|| {
                OauthError::Credentials(format!(
                    "environment variable {name} (oauth.client_secret_env_var) is not set"
                ))
            })?),
            None => None,
        };
        Ok(Some(ConfiguredClient { id: client.id.clone(), secret }))
    }
}

impl SignIn {
    /// Discovers the endpoints, registers a client and listens for the browser.
    async fn begin(self, options: LoginOptions) -> Result<OauthLogin, OauthError> {
        self.check_store()?;
        let prepared = timeout(PREPARATION_TIME, self.prepare(&options)).await;
        let (authorization_url, pending) =
            prepared.map_err(|_| OauthError::Network("timed out while preparing the login".to_owned()))??;
        let browser_time = options.timeout.unwrap_or(BROWSER_TIME);
        Ok(OauthLogin { authorization_url, completion: Box::pin(self.complete(pending, browser_time)) })
    }

    /// Rejects a configured store other than the file, instead of silently using the file.
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
        let configured_client = self.configured_client.clone()?;
        let metadata = discover(&url, self.challenge.as_deref()).await?.ok_or(OauthError::NoMetadata)?;
        let scopes = self.scopes(options, &metadata).await?;
        let port = CallbackPort::bind(self.settings.callback_port.unwrap_or(0)).await;
        let port =
            port.map_err(|error| OauthError::Network(format!("cannot listen for the browser: {error}")))?;
        let (redirect, path) = self.redirect(&port)?;
        let client = match configured_client {
            Some(ConfiguredClient { id, secret }) => {
                let auth = ClientAuth::for_secret(secret.as_ref(), &metadata.client_auth);
                OauthClient { id, secret, auth }
            }
            None => register(&metadata, &self.client_name, &redirect, &scopes).await?,
        };
        let resource = self.resource(&metadata, &url);
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let oauth_client = BasicClient::new(ClientId::new(client.id.clone()))
            .set_auth_uri(AuthUrl::from_url(metadata.authorization_endpoint.clone()))
            .set_redirect_uri(
                RedirectUrl::new(redirect.clone())
                    .map_err(|error| OauthError::Unreadable(error.to_string()))?,
            );
        let (authorization_url, state) = oauth_client
            .authorize_url(CsrfToken::new_random)
            .add_scopes(scopes.iter().cloned().map(Scope::new))
            .set_pkce_challenge(challenge)
            .add_extra_param("resource", resource.clone())
            .url();
        let listener = port.listen(path, state.into_secret().into(), StateCheck::ExceptErrors);
        let pending = PendingLogin { listener, metadata, client, verifier, redirect, resource, scopes };
        Ok((authorization_url.into(), pending))
    }

    /// Returns the scopes to request: those of the user, the configuration or the server. If the token lacks scopes,
    /// they are added to those that it has.
    async fn scopes(
        &self,
        options: &LoginOptions,
        metadata: &OauthMetadata,
    ) -> Result<Vec<String>, OauthError> {
        if let Some(scopes) = &options.scopes {
            return Ok(scopes.clone());
        }
        let mut scopes = self.scopes.clone().unwrap_or_else(|| metadata.scopes.clone());
        let missing = self.challenge.as_ref().filter(|challenge| challenge.kind == ChallengeKind::MoreScopes);
        if let Some(challenge) = missing {
            let stored = self.file.get(&self.server, &self.config.url).await?;
            let granted = stored.map(|credentials| credentials.scopes).unwrap_or_default();
            for scope in granted.into_iter().chain(challenge.scopes.iter().cloned()) {
                if !scopes.contains(&scope) {
                    scopes.push(scope);
                }
            }
        }
        Ok(scopes)
    }

    /// Returns the redirect URI and the path on which to listen.
    fn redirect(&self, port: &CallbackPort) -> Result<(String, String), OauthError> {
        if let Some(url) = &self.settings.callback_url {
            let parsed = Url::parse(url).map_err(|error| {
                OauthError::Unreadable(format!("mcp_oauth_callback_url cannot be used: {error}"))
            })?;
            return Ok((url.clone(), parsed.path().to_owned()));
        }
        let port = port.number().map_err(|error| OauthError::Network(error.to_string()))?;
        Ok((format!("http://127.0.0.1:{port}/callback"), "/callback".to_owned()))
    }

    fn resource(&self, metadata: &OauthMetadata, url: &Url) -> String {
        let mut own = url.clone();
        own.set_query(None);
        own.set_fragment(None);
        self.config.oauth_resource.clone().or_else(|| metadata.resource.clone()).unwrap_or_else(|| own.into())
    }

    async fn complete(self, mut login: PendingLogin, browser_time: Duration) -> Result<(), OauthError> {
        let visit = timeout(browser_time, login.next_response()).await.map_err(|_| OauthError::TimedOut)?;
        let result = self.redeem(&visit.outcome, &login).await;
        let page = match &result {
            Ok(()) => CallbackPage::signed_in_to(&self.server),
            Err(error) => CallbackPage::failed(&format!("Signing in to {} failed: {error}", self.server)),
        };
        visit.show(page).await;
        result
    }

    /// Exchanges the code for tokens and stores them.
    async fn redeem(&self, outcome: &CallbackOutcome, login: &PendingLogin) -> Result<(), OauthError> {
        let code = code_of(outcome, &login.metadata)?;
        let token_endpoint = login.metadata.token_endpoint.to_string();
        let request = CodeExchange {
            client: &login.client,
            token_endpoint: &token_endpoint,
            redirect: &login.redirect,
            resource: &login.resource,
        };
        let verifier = PkceCodeVerifier::new(login.verifier.secret().clone());
        let tokens = exchange(request, code, verifier).await?;
        let blank = self.credentials_without_tokens(
            &login.client,
            login.scopes.clone(),
            token_endpoint.clone(),
            &login.resource,
        );
        let lock = self.file.lock().await?;
        self.file.put(tokens.into_credentials(blank), &lock).await
    }

    fn credentials_without_tokens(
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
            rest: [
                ("resource".to_owned(), resource.into()),
                (AUTH_METHOD.to_owned(), client.auth.name().into()),
            ]
            .into_iter()
            .collect(),
        }
    }
}

impl PendingLogin {
    /// Waits for the response of the authorization server. A request without a code or an error does not count.
    async fn next_response(&mut self) -> CallbackVisit {
        loop {
            let visit = self.listener.next_visit().await;
            if visit.outcome != CallbackOutcome::MissingCode {
                return visit;
            }
            visit.show(CallbackPage::unexpected()).await;
        }
    }
}

/// Returns the code if it comes from the expected authorization server (RFC 9207).
fn code_of(outcome: &CallbackOutcome, metadata: &OauthMetadata) -> Result<Secret, OauthError> {
    let (code, issuer) = match outcome {
        CallbackOutcome::Code { code, issuer } => (code, issuer),
        CallbackOutcome::Error { error, description } => {
            let shortened = |text: &Option<String>| text.as_ref().map(|text| cut(text, MAX_REASON));
            return Err(OauthError::Provider {
                error: shortened(error),
                description: shortened(description),
            });
        }
        CallbackOutcome::MissingCode | CallbackOutcome::Cancelled => {
            return Err(OauthError::Provider { error: None, description: None });
        }
    };
    match (issuer, &metadata.issuer) {
        (Some(named), Some(expected)) if named != expected => Err(OauthError::WrongIssuer(named.clone())),
        (None, Some(_)) if metadata.names_issuer => Err(OauthError::WrongIssuer("none is named".to_owned())),
        _ => Ok(code.clone()),
    }
}
