//! The content of `auth.json`, in the format that other programs of this family read and write.

use std::fmt;

use codicil_protocol::{AuthMode, Secret};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::claims::TokenClaims;

/// The stored credentials. Unknown members are kept.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredCredentials {
    /// `apikey` or `chatgpt`. Omitted in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_mode: Option<String>,
    #[serde(rename = "OPENAI_API_KEY", default)]
    pub api_key: Option<Secret>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<IssuedTokens>,
    /// Time of the last token refresh, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_refresh: Option<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// The tokens of the issuer.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct IssuedTokens {
    pub id_token: Secret,
    pub access_token: Secret,
    pub refresh_token: Secret,
    #[serde(default)]
    pub account_id: Option<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl StoredCredentials {
    pub fn of_key(key: Secret) -> Self {
        Self {
            auth_mode: Some("apikey".to_owned()),
            api_key: Some(key),
            tokens: None,
            last_refresh: None,
            rest: Map::new(),
        }
    }

    pub fn of_tokens(tokens: IssuedTokens) -> Self {
        Self {
            auth_mode: Some("chatgpt".to_owned()),
            api_key: None,
            tokens: Some(tokens),
            last_refresh: Some(now()),
            rest: Map::new(),
        }
    }

    /// Replaces the tokens.
    pub fn with_tokens(&self, tokens: IssuedTokens) -> Self {
        Self { tokens: Some(tokens), last_refresh: Some(now()), ..self.clone() }
    }

    /// Returns whether the API key or the tokens are used.
    pub fn mode(&self) -> AuthMode {
        match self.auth_mode.as_deref() {
            Some("apikey") => AuthMode::Apikey,
            Some(_) => AuthMode::Chatgpt,
            None if self.api_key.is_some() => AuthMode::Apikey,
            None => AuthMode::Chatgpt,
        }
    }

    /// Returns the time since the last token refresh; `None` if it is unknown.
    pub fn seconds_since_refresh(&self, now: i64) -> Option<i64> {
        let last: jiff::Timestamp = self.last_refresh.as_deref()?.parse().ok()?;
        Some(now.saturating_sub(last.as_second()))
    }
}

impl IssuedTokens {
    pub fn new(id_token: String, access_token: String, refresh_token: String) -> Self {
        let account_id = TokenClaims::of(&id_token).ok().and_then(|claims| claims.account_id);
        Self {
            id_token: id_token.into(),
            access_token: access_token.into(),
            refresh_token: refresh_token.into(),
            account_id,
            rest: Map::new(),
        }
    }

    /// Returns the refreshed tokens. Tokens that the issuer did not renew are kept.
    pub fn renewed(&self, id: Option<String>, access: String, refresh: Option<String>) -> Self {
        let kept = |new: Option<String>, old: &Secret| new.map_or_else(|| old.clone(), Secret::from);
        Self {
            id_token: kept(id, &self.id_token),
            access_token: access.into(),
            refresh_token: kept(refresh, &self.refresh_token),
            ..self.clone()
        }
    }

    /// Returns the claims of the tokens. Claims that the id token lacks, as in older files, come from the access token.
    pub fn claims(&self) -> TokenClaims {
        let mut claims = TokenClaims::of(self.id_token.reveal()).unwrap_or_default();
        let access = TokenClaims::of(self.access_token.reveal()).unwrap_or_default();
        claims.email = claims.email.or(access.email);
        claims.plan = claims.plan.or(access.plan);
        claims.account_id = self.account_id.clone().or(claims.account_id).or(access.account_id);
        claims.expires_at = access.expires_at;
        claims
    }
}

/// Returns the current time in the format of `last_refresh`.
fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// Omits unknown members, which may be secret, too.
impl fmt::Debug for StoredCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("StoredCredentials");
        shown.field("auth_mode", &self.auth_mode).field("last_refresh", &self.last_refresh);
        shown.finish_non_exhaustive()
    }
}

impl fmt::Debug for IssuedTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedTokens").field("account_id", &self.account_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_is_written_as_other_programs_expect_it() {
        let stored = serde_json::to_value(StoredCredentials::of_key("sk-1".to_owned().into())).unwrap();
        assert_eq!(stored, json!({ "auth_mode": "apikey", "OPENAI_API_KEY": "sk-1" }));
    }

    #[test]
    fn files_of_other_versions_are_read_and_kept() {
        let mode = |file: Value| serde_json::from_value::<StoredCredentials>(file).unwrap().mode();
        let tokens = json!({ "id_token": "i", "access_token": "a", "refresh_token": "r" });
        assert_eq!(mode(json!({ "OPENAI_API_KEY": "sk" })), AuthMode::Apikey);
        assert_eq!(mode(json!({ "OPENAI_API_KEY": null, "tokens": tokens })), AuthMode::Chatgpt);
        assert_eq!(
            mode(json!({ "auth_mode": "chatgpt", "OPENAI_API_KEY": "sk", "tokens": tokens })),
            AuthMode::Chatgpt
        );
        let newer = json!({
            "auth_mode": "chatgpt", "OPENAI_API_KEY": null, "agent": { "x": 1 },
            "tokens": { "id_token": "i", "access_token": "a", "refresh_token": "r", "account_id": null, "y": 2 },
        });
        let read: StoredCredentials = serde_json::from_value(newer.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), newer);
    }

    #[test]
    fn debug_output_hides_credentials() {
        let stored = json!({
            "auth_mode": "chatgpt", "OPENAI_API_KEY": "sk-canary", "other": "canary",
            "tokens": { "id_token": "canary", "access_token": "canary", "refresh_token": "canary", "z": "canary" },
        });
        let stored: StoredCredentials = serde_json::from_value(stored).unwrap();
        let shown = format!("{stored:?} {:?}", stored.tokens);
        assert!(!shown.contains("canary"), "{shown}");
    }
}
