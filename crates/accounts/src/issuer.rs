//! Who signs people in: an OAuth issuer with the authorization code grant (PKCE), a device flow of its own
//! and refresh tokens that can be used once.

use codicil_protocol::Secret;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::{
    credentials::IssuedTokens,
    http::{HttpError, HttpReply, RequestContent, encode, get, post},
    storage::StorageError,
};

/// What the tokens are for.
const SCOPE: &str = "openid profile email offline_access";
/// The vendor's own issuer, and what its tokens are good for besides: the apps of an account.
const VENDOR: &str = "https://auth.openai.com";
const APPS_SCOPE: &str = "openid profile email offline_access api.connectors.read api.connectors.invoke";
/// The most that is repeated of what an issuer says.
const MAX_REASON: usize = 300;

/// An issuer and the id under which we are known to it.
#[derive(Clone, Debug)]
pub(crate) struct OauthIssuer {
    /// Without a slash at its end.
    url: String,
    client_id: String,
    refresh_url: Option<String>,
}

/// Why the issuer gave no tokens. Nothing that was sent to it is repeated.
#[derive(Debug, thiserror::Error)]
pub enum IssuerError {
    #[error("{0}")]
    Http(#[from] HttpError),
    #[error("{what} failed with status {status}{}", reason(.said))]
    Status { what: &'static str, status: u16, said: Option<String> },
    #[error("{what} was answered with something else than expected")]
    Malformed { what: &'static str },
    #[error("this issuer does not know device codes; sign in with a browser, or check its address")]
    NoDeviceCodes,
}

/// Why tokens were not exchanged for new ones.
#[derive(Debug, thiserror::Error)]
pub enum RefreshError {
    /// They never will be: somebody has to sign in again.
    #[error("the sign-in is no longer valid{}; sign in again", reason(.0))]
    Over(Option<String>),
    /// They may be later.
    #[error("the sign-in could not be renewed: {0}")]
    Failed(IssuerError),
    #[error("the sign-in could not be renewed: {0}")]
    Storage(#[from] StorageError),
    #[error("the sign-in could not be renewed: the server is ending")]
    Ending,
}

/// A sign-in that waits for somebody to type its code.
#[derive(Clone)]
pub(crate) struct DeviceCode {
    pub verification_url: String,
    pub user_code: String,
    /// Seconds between two questions.
    pub interval: u64,
    id: Secret,
}

/// The end of a device sign-in: a code to be exchanged for tokens.
pub(crate) struct DeviceAuthorization {
    code: Secret,
    verifier: Secret,
}

impl OauthIssuer {
    pub fn new(url: &str, client_id: &str, refresh_url: Option<String>) -> Self {
        let url = url.trim().trim_end_matches('/').to_owned();
        Self { url, client_id: client_id.to_owned(), refresh_url }
    }

    /// Where a person signs in.
    pub fn authorize_url(
        &self,
        redirect: &str,
        challenge: &str,
        state: &str,
        workspace: Option<&str>,
    ) -> String {
        let mut query = vec![
            ("response_type", "code"),
            ("client_id", &self.client_id),
            ("redirect_uri", redirect),
            ("scope", if self.url == VENDOR { APPS_SCOPE } else { SCOPE }),
            ("code_challenge", challenge),
            ("code_challenge_method", "S256"),
            ("id_token_add_organizations", "true"),
            ("codex_cli_simplified_flow", "true"),
            ("state", state),
        ];
        query.extend(workspace.map(|workspace| ("allowed_workspace_id", workspace)));
        format!("{}/oauth/authorize?{}", self.url, encode(&query))
    }

    /// Exchanges the code that a browser brought.
    pub async fn exchange(
        &self,
        code: &str,
        verifier: &str,
        redirect: &str,
    ) -> Result<IssuedTokens, IssuerError> {
        const WHAT: &str = "the exchange of the sign-in code";
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect),
            ("client_id", &self.client_id),
            ("code_verifier", verifier),
        ];
        let answer = post(&format!("{}/oauth/token", self.url), RequestContent::Form(&form)).await?;
        let body = succeeded(WHAT, &answer, &[code, verifier])?;
        let text = |name: &str| text(&body, name).ok_or(IssuerError::Malformed { what: WHAT });
        Ok(IssuedTokens::new(text("id_token")?, text("access_token")?, text("refresh_token")?))
    }

    /// Exchanges a refresh token, which is of no use afterwards. What the issuer does not renew stays.
    pub async fn refresh(&self, tokens: &IssuedTokens) -> Result<IssuedTokens, RefreshError> {
        const WHAT: &str = "the renewal of the sign-in";
        let refresh_token = tokens.refresh_token.reveal();
        let request = json!({
            "client_id": self.client_id,
            "grant_type": "refresh_token",
            "refresh_token": refresh_token,
        });
        let url = self.refresh_url.clone().unwrap_or_else(|| format!("{}/oauth/token", self.url));
        let answer = post(&url, RequestContent::Json(&request)).await;
        let answer = answer.map_err(|error| RefreshError::Failed(error.into()))?;
        if is_over(&answer) {
            return Err(RefreshError::Over(said(&answer.json(), &[refresh_token])));
        }
        let body = succeeded(WHAT, &answer, &[refresh_token]).map_err(RefreshError::Failed)?;
        let access =
            text(&body, "access_token").ok_or(RefreshError::Failed(IssuerError::Malformed { what: WHAT }))?;
        Ok(tokens.renewed(text(&body, "id_token"), access, text(&body, "refresh_token")))
    }

    /// Asks for a code that somebody can type in any browser.
    pub async fn device_code(&self) -> Result<DeviceCode, IssuerError> {
        const WHAT: &str = "the request for a device code";
        let url = format!("{}/api/accounts/deviceauth/usercode", self.url);
        let answer = post(&url, RequestContent::Json(&json!({ "client_id": self.client_id }))).await?;
        if answer.status == 404 {
            return Err(IssuerError::NoDeviceCodes);
        }
        let body = succeeded(WHAT, &answer, &[])?;
        let malformed = || IssuerError::Malformed { what: WHAT };
        let user_code = text(&body, "user_code").or_else(|| text(&body, "usercode"));
        Ok(DeviceCode {
            verification_url: format!("{}/codex/device", self.url),
            user_code: user_code.ok_or_else(malformed)?,
            interval: seconds(body.get("interval")).unwrap_or(5),
            id: text(&body, "device_auth_id").ok_or_else(malformed)?.into(),
        })
    }

    /// Asks whether the code has been typed. `None`: not yet.
    pub async fn device_answer(
        &self,
        device: &DeviceCode,
    ) -> Result<Option<DeviceAuthorization>, IssuerError> {
        const WHAT: &str = "the sign-in with a device code";
        let url = format!("{}/api/accounts/deviceauth/token", self.url);
        let id = device.id.reveal();
        let request = json!({ "device_auth_id": id, "user_code": device.user_code });
        let answer = post(&url, RequestContent::Json(&request)).await?;
        if matches!(answer.status, 403 | 404) {
            return Ok(None);
        }
        let body = succeeded(WHAT, &answer, &[id])?;
        let text = |name: &str| text(&body, name).ok_or(IssuerError::Malformed { what: WHAT });
        let (code, verifier) = (text("authorization_code")?, text("code_verifier")?);
        Ok(Some(DeviceAuthorization { code: code.into(), verifier: verifier.into() }))
    }

    /// Exchanges what came of a device code.
    pub async fn exchange_device(
        &self,
        authorized: &DeviceAuthorization,
    ) -> Result<IssuedTokens, IssuerError> {
        let redirect = format!("{}/deviceauth/callback", self.url);
        self.exchange(authorized.code.reveal(), authorized.verifier.reveal(), &redirect).await
    }
}

impl OauthIssuer {
    /// Makes tokens useless. An issuer that says where it takes this is asked as RFC 7009 has it, others at
    /// the usual place; one that has no such place is done with.
    pub async fn revoke(&self, tokens: &IssuedTokens) -> Result<(), IssuerError> {
        const WHAT: &str = "revoking the tokens";
        let (token, kind) = match tokens.refresh_token.reveal() {
            "" => (tokens.access_token.reveal(), "access_token"),
            // The tokens that it was exchanged for go with it.
            refresh => (refresh, "refresh_token"),
        };
        let id = self.client_id.as_str();
        let answer = match self.revocation_endpoint().await {
            Some(url) => {
                let form = [("token", token), ("token_type_hint", kind), ("client_id", id)];
                post(&url, RequestContent::Form(&form)).await?
            }
            None => {
                let request = json!({ "token": token, "token_type_hint": kind, "client_id": id });
                post(&format!("{}/oauth/revoke", self.url), RequestContent::Json(&request)).await?
            }
        };
        match answer.status {
            404 | 405 | 501 => Ok(()),
            _ => succeeded(WHAT, &answer, &[token]).map(drop),
        }
    }

    async fn revocation_endpoint(&self) -> Option<String> {
        let url = format!("{}/.well-known/openid-configuration", self.url);
        let answer = get(&url, HeaderMap::new()).await.ok().filter(HttpReply::is_success)?;
        text(&answer.json(), "revocation_endpoint")
    }
}

/// Whether a refresh token is spent or revoked, as opposed to an issuer in trouble.
fn is_over(answer: &HttpReply) -> bool {
    let code = error_code(&answer.json()).unwrap_or_default();
    let is_final = |code: &str| code == "invalid_grant" || code.starts_with("refresh_token_");
    answer.status == 401 || (answer.status == 400 && is_final(&code))
}

fn succeeded(what: &'static str, answer: &HttpReply, secrets: &[&str]) -> Result<Value, IssuerError> {
    let body = answer.json();
    match answer.is_success() {
        true => Ok(body),
        false => Err(IssuerError::Status { what, status: answer.status, said: said(&body, secrets) }),
    }
}

/// The issuer's own words, without anything that was sent to it.
fn said(body: &Value, secrets: &[&str]) -> Option<String> {
    let description = text(body, "error_description");
    let message = body.get("error").and_then(|error| text(error, "message"));
    let mut words = description.or(message).or_else(|| error_code(body))?;
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        words = words.replace(secret, "***");
    }
    words.truncate(words.floor_char_boundary(MAX_REASON));
    Some(words)
}

/// `{"error": "code"}` or `{"error": {"code": "code"}}`.
fn error_code(body: &Value) -> Option<String> {
    text(body, "error").or_else(|| body.get("error").and_then(|error| text(error, "code")))
}

fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A number, which this issuer writes as a string.
fn seconds(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}

fn reason(said: &Option<String>) -> String {
    said.as_ref().map(|said| format!(": {said}")).unwrap_or_default()
}
