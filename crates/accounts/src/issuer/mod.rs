//! The OAuth issuer that signs users in.
//!
//! The authorization code grant is standard and left to the `oauth2` crate (`exchange`). The rest is written by
//! hand because this issuer departs from the standards that the crate implements: it takes refresh requests as
//! JSON and reports errors as objects, its device flow is not that of RFC 8628, and revocation is requested as
//! JSON unless the issuer publishes an endpoint of RFC 7009. A refresh token can be used once.

mod exchange;

use codicil_protocol::Secret;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::{
    credentials::IssuedTokens,
    http::{HttpError, HttpReply, get, post_form, post_json},
    storage::StorageError,
};

pub(crate) use exchange::AuthorizationRequest;

/// Upper bound of the issuer's own words in an error, in bytes.
const MAX_REASON: usize = 300;

/// An issuer and the client id under which it knows this program.
#[derive(Clone, Debug)]
pub(crate) struct OauthIssuer {
    /// Without a trailing slash.
    url: String,
    client_id: String,
    refresh_url: Option<String>,
}

/// The reason why the issuer gave no tokens. Never repeats what was sent to it.
#[derive(Debug, thiserror::Error)]
pub enum IssuerError {
    #[error("{0}")]
    Http(#[from] HttpError),
    #[error("{what} failed with status {status}{}", suffix(.reason))]
    Status { what: &'static str, status: u16, reason: Option<String> },
    #[error("{what} was answered with something else than expected")]
    Malformed { what: &'static str },
    #[error("this issuer does not know device codes; sign in with a browser, or check its address")]
    NoDeviceCodes,
}

/// The reason why tokens were not refreshed.
#[derive(Debug, thiserror::Error)]
pub enum RefreshError {
    /// The refresh token is spent or revoked; only a new login helps.
    #[error("the sign-in is no longer valid{}; sign in again", suffix(.0))]
    Rejected(Option<String>),
    /// A later attempt may succeed.
    #[error("the sign-in could not be renewed: {0}")]
    Failed(IssuerError),
    #[error("the sign-in could not be renewed: {0}")]
    Storage(#[from] StorageError),
    #[error("the sign-in could not be renewed: the server is ending")]
    Ending,
}

/// A device login that waits for the user to enter its code.
#[derive(Clone)]
pub(crate) struct DeviceCode {
    pub verification_url: String,
    pub user_code: String,
    /// Seconds between two polls.
    pub interval: u64,
    id: Secret,
}

/// The result of a device login: a code to exchange for tokens.
pub(crate) struct DeviceAuthorization {
    code: Secret,
    verifier: Secret,
}

impl OauthIssuer {
    pub fn new(url: &str, client_id: &str, refresh_url: Option<String>) -> Self {
        let url = url.trim().trim_end_matches('/').to_owned();
        Self { url, client_id: client_id.to_owned(), refresh_url }
    }

    /// Exchanges the refresh token, which is spent afterwards. Tokens that the response omits are kept.
    pub async fn refresh(&self, tokens: &IssuedTokens) -> Result<IssuedTokens, RefreshError> {
        const WHAT: &str = "the renewal of the sign-in";
        let refresh_token = tokens.refresh_token.reveal();
        let request = json!({
            "client_id": self.client_id,
            "grant_type": "refresh_token",
            "refresh_token": refresh_token,
        });
        let url = self.refresh_url.clone().unwrap_or_else(|| self.token_url());
        let reply = post_json(&url, &request).await.map_err(|error| RefreshError::Failed(error.into()))?;
        if is_refresh_token_rejected(&reply) {
            return Err(RefreshError::Rejected(error_reason(&reply.json(), &[refresh_token])));
        }
        let body = check_success(WHAT, &reply, &[refresh_token]).map_err(RefreshError::Failed)?;
        let malformed = || RefreshError::Failed(IssuerError::Malformed { what: WHAT });
        let access_token = text(&body, "access_token").ok_or_else(malformed)?;
        Ok(tokens.renewed(text(&body, "id_token"), access_token, text(&body, "refresh_token")))
    }

    /// Requests a code that the user enters in any browser.
    pub async fn device_code(&self) -> Result<DeviceCode, IssuerError> {
        const WHAT: &str = "the request for a device code";
        let url = format!("{}/api/accounts/deviceauth/usercode", self.url);
        let reply = post_json(&url, &json!({ "client_id": self.client_id })).await?;
        if reply.status == 404 {
            return Err(IssuerError::NoDeviceCodes);
        }
        let body = check_success(WHAT, &reply, &[])?;
        let malformed = || IssuerError::Malformed { what: WHAT };
        let user_code = text(&body, "user_code").or_else(|| text(&body, "usercode"));
        Ok(DeviceCode {
            verification_url: format!("{}/codex/device", self.url),
            user_code: user_code.ok_or_else(malformed)?,
            interval: seconds(body.get("interval")).unwrap_or(5),
            id: text(&body, "device_auth_id").ok_or_else(malformed)?.into(),
        })
    }

    /// Returns the authorization once the user has entered the code; `None` before.
    pub async fn poll_device(&self, device: &DeviceCode) -> Result<Option<DeviceAuthorization>, IssuerError> {
        const WHAT: &str = "the sign-in with a device code";
        let url = format!("{}/api/accounts/deviceauth/token", self.url);
        let id = device.id.reveal();
        let reply = post_json(&url, &json!({ "device_auth_id": id, "user_code": device.user_code })).await?;
        if matches!(reply.status, 403 | 404) {
            return Ok(None);
        }
        let body = check_success(WHAT, &reply, &[id])?;
        let secret = |name: &str| match text(&body, name) {
            Some(text) => Ok(Secret::from(text)),
            None => Err(IssuerError::Malformed { what: WHAT }),
        };
        Ok(Some(DeviceAuthorization {
            code: secret("authorization_code")?,
            verifier: secret("code_verifier")?,
        }))
    }

    /// Exchanges the code of a device login for tokens.
    pub async fn exchange_device(
        &self,
        authorization: &DeviceAuthorization,
    ) -> Result<IssuedTokens, IssuerError> {
        let redirect = format!("{}/deviceauth/callback", self.url);
        self.exchange(&authorization.code, &authorization.verifier, &redirect).await
    }

    /// Revokes tokens. An issuer that publishes a revocation endpoint is asked there, as RFC 7009 specifies;
    /// any other at its usual path, where a missing endpoint is not an error.
    pub async fn revoke(&self, tokens: &IssuedTokens) -> Result<(), IssuerError> {
        const WHAT: &str = "revoking the tokens";
        let (token, kind) = match tokens.refresh_token.reveal() {
            "" => (tokens.access_token.reveal(), "access_token"),
            // Revokes the tokens that it was exchanged for, too.
            refresh_token => (refresh_token, "refresh_token"),
        };
        let client_id = self.client_id.as_str();
        let reply = match self.revocation_endpoint().await {
            Some(url) => {
                let form = [("token", token), ("token_type_hint", kind), ("client_id", client_id)];
                post_form(&url, &form).await?
            }
            None => {
                let request = json!({ "token": token, "token_type_hint": kind, "client_id": client_id });
                post_json(&format!("{}/oauth/revoke", self.url), &request).await?
            }
        };
        match reply.status {
            404 | 405 | 501 => Ok(()),
            _ => check_success(WHAT, &reply, &[token]).map(drop),
        }
    }

    async fn revocation_endpoint(&self) -> Option<String> {
        let url = format!("{}/.well-known/openid-configuration", self.url);
        let reply = get(&url, HeaderMap::new()).await.ok().filter(HttpReply::is_success)?;
        text(&reply.json(), "revocation_endpoint")
    }

    fn token_url(&self) -> String {
        format!("{}/oauth/token", self.url)
    }
}

/// Returns whether a refresh token is spent or revoked, as opposed to an issuer that fails.
fn is_refresh_token_rejected(reply: &HttpReply) -> bool {
    let code = error_code(&reply.json()).unwrap_or_default();
    let is_final = code == "invalid_grant" || code.starts_with("refresh_token_");
    reply.status == 401 || (reply.status == 400 && is_final)
}

/// Returns the body of a success. `secrets` are removed from the text of an error.
fn check_success(what: &'static str, reply: &HttpReply, secrets: &[&str]) -> Result<Value, IssuerError> {
    let body = reply.json();
    if reply.is_success() {
        return Ok(body);
    }
    Err(IssuerError::Status { what, status: reply.status, reason: error_reason(&body, secrets) })
}

/// Returns the issuer's explanation without the secrets that were sent to it.
fn error_reason(body: &Value, secrets: &[&str]) -> Option<String> {
    let description = text(body, "error_description");
    let message = body.get("error").and_then(|error| text(error, "message"));
    let mut reason = description.or(message).or_else(|| error_code(body))?;
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        reason = reason.replace(secret, "***");
    }
    reason.truncate(reason.floor_char_boundary(MAX_REASON));
    Some(reason)
}

/// Reads `{"error": "code"}` or `{"error": {"code": "code"}}`.
fn error_code(body: &Value) -> Option<String> {
    text(body, "error").or_else(|| body.get("error").and_then(|error| text(error, "code")))
}

/// Returns a string member that is not empty.
fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Reads a number, which this issuer writes as a string.
fn seconds(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}

fn suffix(reason: &Option<String>) -> String {
    reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default()
}
