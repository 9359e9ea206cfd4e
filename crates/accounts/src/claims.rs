//! What a token says about the account it belongs to.
//!
//! Nobody checks the signature here: tokens come straight from the issuer or from a client that is trusted
//! with them anyway, and whoever they are sent to checks them. The claims serve to show and to compare.

use base64::{DecodeError, Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use codicil_protocol::PlanType;
use serde_json::Value;

/// Where the issuer puts what is its own.
const AUTH: &str = "https://api.openai.com/auth";
const PROFILE: &str = "https://api.openai.com/profile";

/// The claims that matter here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenClaims {
    pub email: Option<String>,
    pub plan: Option<String>,
    pub account_id: Option<String>,
    /// Unix seconds.
    pub expires_at: Option<i64>,
}

/// Why a text is no token. None of these repeats the text.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TokenError {
    #[error("invalid ID token format")]
    Format,
    #[error("{0}")]
    Base64(#[from] DecodeError),
    #[error("the token's payload is not JSON")]
    Json,
}

impl TokenClaims {
    /// Reads the payload of a JWT.
    pub fn of(token: &str) -> Result<Self, TokenError> {
        let parts: Vec<&str> = token.splitn(3, '.').collect();
        let [header, payload, signature] = parts.as_slice() else { return Err(TokenError::Format) };
        if header.is_empty() || payload.is_empty() || signature.is_empty() {
            return Err(TokenError::Format);
        }
        let payload = URL_SAFE_NO_PAD.decode(payload)?;
        let payload: Value = serde_json::from_slice(&payload).map_err(|_| TokenError::Json)?;
        Ok(Self::read(&payload))
    }

    fn read(payload: &Value) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let auth = |name: &str| text(payload.get(AUTH).and_then(|auth| auth.get(name)));
        let profile = || payload.get(PROFILE).and_then(|profile| profile.get("email"));
        Self {
            email: text(payload.get("email").or_else(profile)),
            plan: auth("chatgpt_plan_type"),
            account_id: auth("chatgpt_account_id"),
            expires_at: payload.get("exp").and_then(Value::as_i64),
        }
    }

    /// Whether the token is of no use any more, or will not be by the time it arrives.
    pub fn is_expired(&self, now: i64) -> bool {
        self.expires_at.is_some_and(|end| end <= now + 30)
    }
}

/// A plan by the name that the issuer and the backend use for it. Clients end on names that they do not
/// know, so a new one is `unknown` to them.
pub fn plan_type(name: &str) -> PlanType {
    match name.to_ascii_lowercase().as_str() {
        "free" => PlanType::Free,
        "go" => PlanType::Go,
        "plus" => PlanType::Plus,
        "pro" => PlanType::Pro,
        "team" => PlanType::Team,
        "self_serve_business_usage_based" => PlanType::SelfServeBusinessUsageBased,
        "business" => PlanType::Business,
        "enterprise_cbp_usage_based" => PlanType::EnterpriseCbpUsageBased,
        "enterprise" | "hc" => PlanType::Enterprise,
        "edu" | "education" => PlanType::Edu,
        _ => PlanType::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn token(payload: &Value) -> String {
        format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(payload.to_string()))
    }

    #[test]
    fn claims_are_found_where_the_issuer_puts_them() {
        let auth = json!({ "chatgpt_plan_type": "pro", "chatgpt_account_id": "acc" });
        let both = json!({ "email": "a@b.c", "exp": 12, AUTH: auth, PROFILE: { "email": "other" } });
        let expected = TokenClaims {
            email: Some("a@b.c".into()),
            plan: Some("pro".into()),
            account_id: Some("acc".into()),
            expires_at: Some(12),
        };
        assert_eq!(TokenClaims::of(&token(&both)), Ok(expected));
        let profile = TokenClaims::of(&token(&json!({ PROFILE: { "email": "p@b.c" } }))).unwrap();
        assert_eq!(profile, TokenClaims { email: Some("p@b.c".into()), ..TokenClaims::default() });
        let odd = token(&json!({ "email": 5, "exp": "soon", AUTH: [] }));
        assert_eq!(TokenClaims::of(&odd), Ok(TokenClaims::default()));
    }

    #[test]
    fn what_is_no_token_is_refused_without_being_repeated() {
        let check = |token: &str, expected: &str| {
            let said = TokenClaims::of(token).unwrap_err().to_string();
            assert_eq!(said, expected, "{token}");
        };
        check("garbage", "invalid ID token format");
        check("", "invalid ID token format");
        check("a..c", "invalid ID token format");
        check("a.b.", "invalid ID token format");
        check("a.!secret!.c", "Invalid symbol 33, offset 0.");
        check("a.c2VjcmV0.c", "the token's payload is not JSON");
    }

    #[test]
    fn plans_have_the_names_that_clients_know() {
        let check = |name: &str, expected| assert_eq!(plan_type(name), expected, "{name}");
        check("pro", PlanType::Pro);
        check("Plus", PlanType::Plus);
        check("hc", PlanType::Enterprise);
        check("education", PlanType::Edu);
        check("enterprise_cbp_usage_based", PlanType::EnterpriseCbpUsageBased);
        check("tomorrow's plan", PlanType::Unknown);
    }

    #[test]
    fn a_token_expires_a_little_early() {
        let claims = TokenClaims { expires_at: Some(1_000), ..TokenClaims::default() };
        assert!(!claims.is_expired(900));
        assert!(claims.is_expired(980));
        assert!(!TokenClaims::default().is_expired(i64::MAX - 100));
    }
}
