//! The authorization code grant with PKCE, by the `oauth2` crate.

use std::time::Duration;

use codicil_protocol::Secret;
use oauth2::{
    AccessToken, AuthUrl, AuthorizationCode, Client, ClientId, CsrfToken, PkceCodeChallenge,
    PkceCodeVerifier, RedirectUrl, RefreshToken, RequestTokenError, Scope, StandardRevocableToken,
    TokenResponse, TokenUrl,
    basic::{
        BasicErrorResponse, BasicRevocationErrorResponse, BasicTokenIntrospectionResponse, BasicTokenType,
    },
    url::ParseError,
};
use serde::{Deserialize, Serialize};

use super::{IssuerError, OauthIssuer, check_success};
use crate::{
    credentials::IssuedTokens,
    http::{HttpError, send_oauth},
};

/// The scopes of a login.
const SCOPE: &str = "openid profile email offline_access";
/// The vendor's own issuer also grants access to the apps of an account.
const VENDOR: &str = "https://auth.openai.com";
const APPS_SCOPE: &str = "openid profile email offline_access api.connectors.read api.connectors.invoke";

/// The exchange as error texts name it.
const EXCHANGE: &str = "the exchange of the sign-in code";

const STATE_BYTES: u32 = 32;
const VERIFIER_BYTES: u32 = 64;

type OauthClient = Client<
    BasicErrorResponse,
    ExchangeResponse,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
>;

/// A login that begins: the URL for the browser, and the secrets that its callback must match.
pub(crate) struct AuthorizationRequest {
    pub url: String,
    pub state: Secret,
    pub verifier: Secret,
}

/// The token response. The crate's own type requires `token_type`, which this issuer may omit, and has no
/// `id_token`.
#[derive(Debug, Serialize, Deserialize)]
struct ExchangeResponse {
    id_token: Secret,
    access_token: AccessToken,
    refresh_token: RefreshToken,
    #[serde(skip, default = "bearer")]
    token_type: BasicTokenType,
}

fn bearer() -> BasicTokenType {
    BasicTokenType::Bearer
}

impl OauthIssuer {
    /// Builds the address at which the user signs in.
    pub fn authorize(
        &self,
        redirect: &str,
        workspace: Option<&str>,
    ) -> Result<AuthorizationRequest, IssuerError> {
        let auth_url = AuthUrl::new(format!("{}/oauth/authorize", self.url)).map_err(invalid_url)?;
        let redirect = RedirectUrl::new(redirect.to_owned()).map_err(invalid_url)?;
        let client = self.oauth_client().set_auth_uri(auth_url).set_redirect_uri(redirect);
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256_len(VERIFIER_BYTES);
        let scope = if self.url == VENDOR { APPS_SCOPE } else { SCOPE };
        let mut request = client
            .authorize_url(|| CsrfToken::new_random_len(STATE_BYTES))
            .add_scope(Scope::new(scope.to_owned()))
            .set_pkce_challenge(challenge)
            .add_extra_param("id_token_add_organizations", "true")
            .add_extra_param("codex_cli_simplified_flow", "true");
        if let Some(workspace) = workspace {
            request = request.add_extra_param("allowed_workspace_id", workspace);
        }
        let (url, state) = request.url();
        Ok(AuthorizationRequest {
            url: url.into(),
            state: state.into_secret().into(),
            verifier: verifier.into_secret().into(),
        })
    }

    /// Exchanges an authorization code for tokens.
    pub async fn exchange(
        &self,
        code: &Secret,
        verifier: &Secret,
        redirect: &str,
    ) -> Result<IssuedTokens, IssuerError> {
        let token_url = TokenUrl::new(self.token_url()).map_err(invalid_url)?;
        let redirect = RedirectUrl::new(redirect.to_owned()).map_err(invalid_url)?;
        let client = self.oauth_client().set_token_uri(token_url).set_redirect_uri(redirect);
        let secrets = [code.clone(), verifier.clone()];
        let send = move |request| send_exchange(request, secrets.clone());
        let response = client
            .exchange_code(AuthorizationCode::new(code.reveal().to_owned()))
            .set_pkce_verifier(PkceCodeVerifier::new(verifier.reveal().to_owned()))
            .request_async(&send)
            .await
            .map_err(|error| match error {
                RequestTokenError::Request(error) => error,
                _ => IssuerError::Malformed { what: EXCHANGE },
            })?;
        response.into_tokens().ok_or(IssuerError::Malformed { what: EXCHANGE })
    }

    fn oauth_client(&self) -> OauthClient {
        Client::new(ClientId::new(self.client_id.clone()))
    }
}

/// Sends the exchange for the `oauth2` crate. A status other than success becomes the issuer's error here, since
/// the crate would discard the status.
async fn send_exchange(
    request: oauth2::HttpRequest,
    secrets: [Secret; 2],
) -> Result<oauth2::HttpResponse, IssuerError> {
    let reply = send_oauth(request).await?;
    check_success(EXCHANGE, &reply, &secrets.each_ref().map(Secret::reveal))?;
    // Without headers, so that the crate accepts JSON under any content type.
    Ok(oauth2::HttpResponse::new(reply.body))
}

fn invalid_url(error: ParseError) -> IssuerError {
    HttpError::Address(error.to_string()).into()
}

impl ExchangeResponse {
    /// Returns `None` if a token is empty.
    fn into_tokens(self) -> Option<IssuedTokens> {
        let id_token = self.id_token.reveal().to_owned();
        let access_token = self.access_token.into_secret();
        let refresh_token = self.refresh_token.into_secret();
        let is_complete = [&id_token, &access_token, &refresh_token].iter().all(|token| !token.is_empty());
        is_complete.then(|| IssuedTokens::new(id_token, access_token, refresh_token))
    }
}

impl TokenResponse for ExchangeResponse {
    type TokenType = BasicTokenType;

    fn access_token(&self) -> &AccessToken {
        &self.access_token
    }

    fn token_type(&self) -> &BasicTokenType {
        &self.token_type
    }

    fn expires_in(&self) -> Option<Duration> {
        None
    }

    fn refresh_token(&self) -> Option<&RefreshToken> {
        Some(&self.refresh_token)
    }

    fn scopes(&self) -> Option<&Vec<Scope>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_login_has_secrets_of_its_own() {
        let issuer = OauthIssuer::new("https://issuer.example", "client", None);
        let first = issuer.authorize("http://localhost:1455/auth/callback", Some("ws-1")).unwrap();
        let second = issuer.authorize("http://localhost:1455/auth/callback", None).unwrap();
        assert!(
            first.url.starts_with("https://issuer.example/oauth/authorize?response_type=code&"),
            "{}",
            first.url
        );
        assert!(first.url.contains("allowed_workspace_id=ws-1"), "{}", first.url);
        assert!(first.url.contains("redirect_uri=http%3A%2F%2Flocalhost%3A1455%2Fauth%2Fcallback"));
        assert!(first.url.contains(first.state.reveal()));
        assert!(!first.url.contains(first.verifier.reveal()), "the verifier stays here");
        assert_ne!(first.state, second.state);
        assert_ne!(first.verifier, second.verifier);
    }

    #[test]
    fn an_empty_token_makes_a_response_unusable() {
        let parse = |json: &str| serde_json::from_str::<ExchangeResponse>(json).unwrap().into_tokens();
        assert!(
            parse(r#"{"id_token":"i","access_token":"a","refresh_token":"r","token_type":null}"#).is_some()
        );
        assert!(parse(r#"{"id_token":"i","access_token":"a","refresh_token":""}"#).is_none());
    }
}
