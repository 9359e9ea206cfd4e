//! Authentication of websocket clients.
//!
//! Signed tokens are verified by hand: only HS256 is accepted, and a JWT library would bring the other algorithms that
//! must be refused.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// The shortest shared secret that is accepted.
const MIN_SECRET_BYTES: usize = 32;

/// How long a token is valid that this server signs to connect to another one.
const OWN_TOKEN_SECONDS: u64 = 60;

/// The authentication that a websocket listener requires.
#[derive(Clone, Debug, Default)]
pub enum WsAuth {
    /// None, for loopback addresses.
    #[default]
    None,
    /// A token that the client knows.
    Capability(TokenSecret),
    /// A JWT signed with a shared secret.
    Signed(SignedTokenRules),
}

/// A secret that `Debug` does not print.
#[derive(Clone)]
pub struct TokenSecret(Vec<u8>);

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The claims that a signed token needs.
#[derive(Clone, Debug)]
pub struct SignedTokenRules {
    secret: TokenSecret,
    pub issuer: Option<String>,
    pub audience: Option<String>,
    pub max_clock_skew_seconds: u64,
}

/// Why websocket authentication cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error("cannot read the {what} {}: {source}", path.display())]
    Read { what: &'static str, path: PathBuf, source: std::io::Error },
    #[error("the {what} {} is empty", path.display())]
    Empty { what: &'static str, path: PathBuf },
    #[error("the shared secret in {} is too short: it needs at least {MIN_SECRET_BYTES} bytes", path.display())]
    ShortSecret { path: PathBuf },
}

impl WsAuth {
    pub fn capability(token_file: &Path) -> Result<Self, AuthError> {
        Ok(Self::Capability(read_secret("token file", token_file)?))
    }

    pub fn signed(
        secret_file: &Path,
        issuer: Option<String>,
        audience: Option<String>,
        max_clock_skew_seconds: u64,
    ) -> Result<Self, AuthError> {
        let secret = read_secret("shared secret file", secret_file)?;
        if secret.0.len() < MIN_SECRET_BYTES {
            return Err(AuthError::ShortSecret { path: secret_file.to_owned() });
        }
        Ok(Self::Signed(SignedTokenRules { secret, issuer, audience, max_clock_skew_seconds }))
    }

    /// Returns whether a request with this `Authorization` header may connect.
    pub fn allows(&self, authorization: Option<&str>) -> bool {
        let token = authorization.and_then(bearer);
        match (self, token) {
            (Self::None, _) => true,
            (_, None) => false,
            (Self::Capability(secret), Some(token)) => token.as_bytes().ct_eq(&secret.0).into(),
            (Self::Signed(rules), Some(token)) => rules.accepts_token(token, unix_now()),
        }
    }
}

impl WsAuth {
    /// Returns a token that a server with the same authentication accepts; `None` if it asks for none.
    pub fn own_token(&self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Capability(secret) => String::from_utf8(secret.0.clone()).ok(),
            Self::Signed(rules) => rules.sign_token(unix_now()),
        }
    }
}

impl SignedTokenRules {
    /// Returns a token that these rules accept for a minute.
    fn sign_token(&self, now: f64) -> Option<String> {
        let claims = SignedClaims {
            exp: now as u64 + OWN_TOKEN_SECONDS,
            iss: self.issuer.as_deref(),
            aud: self.audience.as_deref(),
        };
        let claims = BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(&claims).ok()?);
        let signed_part =
            format!("{}.{claims}", BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#));
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret.0).ok()?;
        mac.update(signed_part.as_bytes());
        let signature = BASE64_URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
        Some(format!("{signed_part}.{signature}"))
    }

    fn accepts_token(&self, token: &str, now: f64) -> bool {
        self.verify(token).is_some_and(|claims| self.accepts_claims(&claims, now))
    }

    /// Verifies the signature and returns the claims.
    fn verify(&self, token: &str) -> Option<TokenClaims> {
        let (signed_part, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed_part.split_once('.')?;
        let header: TokenHeader = decode(header)?;
        if header.alg != "HS256" || header.has_critical_extensions {
            return None;
        }
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret.0).ok()?;
        mac.update(signed_part.as_bytes());
        mac.verify_slice(&BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
        decode(claims)
    }

    fn accepts_claims(&self, claims: &TokenClaims, now: f64) -> bool {
        let skew = self.max_clock_skew_seconds as f64;
        let matches = |required: &Option<String>, given: &[String]| {
            required.as_ref().is_none_or(|required| given.contains(required))
        };
        now <= claims.exp + skew
            && claims.nbf.is_none_or(|not_before| now >= not_before - skew)
            && matches(&self.issuer, claims.iss.as_slice())
            && matches(&self.audience, claims.aud.as_slice())
    }
}

/// The claims of a token that this server signs.
#[derive(Serialize)]
struct SignedClaims<'a> {
    exp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
}

#[derive(Deserialize)]
struct TokenHeader {
    alg: String,
    /// Whether there is a `crit` member. It names extensions that must be understood (RFC 7515, 4.1.11), and none are.
    #[serde(rename = "crit", default, deserialize_with = "is_present")]
    has_critical_extensions: bool,
}

fn is_present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    serde::de::IgnoredAny::deserialize(deserializer).map(|_| true)
}

#[derive(Deserialize)]
struct TokenClaims {
    exp: f64,
    nbf: Option<f64>,
    iss: Option<String>,
    #[serde(default)]
    aud: TokenAudience,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TokenAudience {
    One(String),
    Many(Vec<String>),
}

impl Default for TokenAudience {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl TokenAudience {
    fn as_slice(&self) -> &[String] {
        match self {
            Self::One(audience) => std::slice::from_ref(audience),
            Self::Many(audiences) => audiences,
        }
    }
}

fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn decode<T: serde::de::DeserializeOwned>(part: &str) -> Option<T> {
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

fn read_secret(what: &'static str, path: &Path) -> Result<TokenSecret, AuthError> {
    let content =
        std::fs::read(path).map_err(|source| AuthError::Read { what, path: path.to_owned(), source })?;
    let secret = content.trim_ascii();
    if secret.is_empty() {
        return Err(AuthError::Empty { what, path: path.to_owned() });
    }
    Ok(TokenSecret(secret.to_vec()))
}

fn unix_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests;
