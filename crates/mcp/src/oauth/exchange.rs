//! The token requests: the exchange of an authorization code, and the renewal with a refresh token.

use codicil_protocol::Secret;
use oauth2::{
    AuthType, AuthorizationCode, ClientId, ClientSecret, EndpointNotSet, EndpointSet, PkceCodeVerifier,
    RedirectUrl, RefreshToken, RequestTokenError, TokenResponse, TokenUrl,
    basic::{BasicClient, BasicErrorResponse, BasicErrorResponseType, BasicTokenResponse},
};

use super::{
    credentials::{ServerCredentials, expires_at},
    error::OauthError,
    registration::OauthClient,
    web,
};
use crate::text::cut;

/// A client with a token endpoint.
type TokenClient = BasicClient<EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointSet>;

/// How a client authenticates at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientAuth {
    /// By PKCE alone.
    None,
    /// With the secret in a header.
    Basic,
    /// With the secret in the body.
    Post,
}

impl ClientAuth {
    /// All methods, best first.
    pub(super) const ALL: [ClientAuth; 3] = [ClientAuth::None, ClientAuth::Basic, ClientAuth::Post];

    /// Returns the name in metadata documents.
    pub(super) fn name(self) -> &'static str {
        match self {
            ClientAuth::None => "none",
            ClientAuth::Basic => "client_secret_basic",
            ClientAuth::Post => "client_secret_post",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<ClientAuth> {
        ClientAuth::ALL.into_iter().find(|auth| auth.name() == name)
    }

    /// Chooses the method of a client, by whether it has a secret and what the server supports.
    pub(super) fn for_secret(secret: Option<&Secret>, supported: &[ClientAuth]) -> ClientAuth {
        match secret {
            None => ClientAuth::None,
            Some(_) if supported.contains(&ClientAuth::Basic) || !supported.contains(&ClientAuth::Post) => {
                ClientAuth::Basic
            }
            Some(_) => ClientAuth::Post,
        }
    }
}

/// The parameters of a code exchange.
pub(super) struct CodeExchange<'a> {
    pub(super) client: &'a OauthClient,
    pub(super) token_endpoint: &'a str,
    pub(super) redirect: &'a str,
    pub(super) resource: &'a str,
}

/// The result of a token renewal.
pub(super) enum TokenRenewal {
    Renewed(ServerCredentials),
    /// The server no longer accepts the refresh token.
    Rejected,
}

/// The response of a token endpoint.
pub(super) struct IssuedTokens(BasicTokenResponse);

/// Exchanges an authorization code for tokens.
pub(super) async fn exchange(
    exchange: CodeExchange<'_>,
    code: Secret,
    verifier: PkceCodeVerifier,
) -> Result<IssuedTokens, OauthError> {
    let redirect = RedirectUrl::new(exchange.redirect.to_owned()).map_err(|error| invalid_url(&error))?;
    let client = token_client(exchange.client, exchange.token_endpoint)?;
    let client = client.set_redirect_uri(redirect);
    let request = client
        .exchange_code(AuthorizationCode::new(code.reveal().to_owned()))
        .set_pkce_verifier(verifier)
        .add_extra_param("resource", exchange.resource.to_owned());
    request.request_async(&web::execute).await.map(IssuedTokens).map_err(failed)
}

/// Renews a token. The refresh token is kept if the response has no new one.
pub(super) async fn renew(
    old: &ServerCredentials,
    token_endpoint: &str,
    resource: &str,
) -> Result<TokenRenewal, OauthError> {
    let Some(refresh) = &old.refresh_token else { return Ok(TokenRenewal::Rejected) };
    let client = token_client(&old.client(), token_endpoint)?;
    let refresh = RefreshToken::new(refresh.reveal().to_owned());
    let request = client.exchange_refresh_token(&refresh).add_extra_param("resource", resource.to_owned());
    match request.request_async(&web::execute).await {
        Ok(tokens) => Ok(TokenRenewal::Renewed(IssuedTokens(tokens).into_credentials(old.clone()))),
        Err(RequestTokenError::ServerResponse(response))
            if response.error() == &BasicErrorResponseType::InvalidGrant =>
        {
            Ok(TokenRenewal::Rejected)
        }
        Err(error) => Err(failed(error)),
    }
}

impl IssuedTokens {
    /// Replaces the tokens in `old`.
    pub(super) fn into_credentials(self, old: ServerCredentials) -> ServerCredentials {
        let tokens = self.0;
        let refresh = tokens.refresh_token().map(|token| Secret::from(token.secret().clone()));
        let scopes = tokens.scopes().map(|scopes| scopes.iter().map(|scope| scope.to_string()).collect());
        ServerCredentials {
            access_token: Secret::from(tokens.access_token().secret().clone()),
            expires_at: tokens.expires_in().map(expires_at),
            refresh_token: refresh.or(old.refresh_token),
            scopes: scopes.unwrap_or(old.scopes),
            ..old
        }
    }
}

fn token_client(client: &OauthClient, endpoint: &str) -> Result<TokenClient, OauthError> {
    let endpoint = TokenUrl::new(endpoint.to_owned()).map_err(|error| invalid_url(&error))?;
    let built = BasicClient::new(ClientId::new(client.id.clone())).set_token_uri(endpoint);
    let secret = client.secret.as_ref().map(|secret| ClientSecret::new(secret.reveal().to_owned()));
    Ok(match (client.auth, secret) {
        (ClientAuth::None, _) | (_, None) => built.set_auth_type(AuthType::RequestBody),
        (ClientAuth::Basic, Some(secret)) => built.set_client_secret(secret),
        (ClientAuth::Post, Some(secret)) => {
            built.set_client_secret(secret).set_auth_type(AuthType::RequestBody)
        }
    })
}

fn invalid_url(error: &dyn std::error::Error) -> OauthError {
    OauthError::Unreadable(format!("an address cannot be used: {error}"))
}

/// Converts an error of the `oauth2` crate, whose own text could repeat the whole response.
fn failed(error: RequestTokenError<OauthError, BasicErrorResponse>) -> OauthError {
    match error {
        RequestTokenError::ServerResponse(response) => {
            let code = response.error().to_string();
            let reason = match response.error_description() {
                Some(description) => format!("{code}: {description}"),
                None => code,
            };
            OauthError::Refused(cut(&reason, 300))
        }
        RequestTokenError::Request(error) => error,
        RequestTokenError::Parse(..) => {
            OauthError::Unreadable("the response of the token endpoint is not valid".to_owned())
        }
        RequestTokenError::Other(reason) => OauthError::Unreadable(cut(&reason, 300)),
    }
}
