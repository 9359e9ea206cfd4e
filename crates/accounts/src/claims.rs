//! The claims of a token about its account.
//!
//! The signature is not verified: tokens come from the issuer or from a trusted client, and the services that
//! receive them verify them. The claims are only displayed and compared.

use base64::{DecodeError, Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use codicil_protocol::PlanType;
use serde_json::Value;

/// Members in which the issuer puts its own claims.
const AUTH: &str = "https://api.openai.com/auth";
const PROFILE: &str = "https://api.openai.com/profile";

/// The claims that this crate uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenClaims {
    pub email: Option<String>,
    pub plan: Option<String>,
    pub account_id: Option<String>,
    /// Unix seconds.
    pub expires_at: Option<i64>,
}

/// The reason why a text is not a token. Never repeats the text.
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

    /// Returns whether the token has expired or expires within 30 seconds.
    pub fn is_expired(&self, now: i64) -> bool {
        self.expires_at.is_some_and(|end| end <= now + 30)
    }
}

/// Parses a plan name of the issuer or the backend. Clients fail on unknown names, so a new plan becomes `unknown`.
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
    fn claims_are_read_from_all_their_places() {
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
    fn an_invalid_token_is_rejected_without_being_repeated() {
        let check = |token: &str, expected: &str| {
            let error = TokenClaims::of(token).unwrap_err().to_string();
            assert_eq!(error, expected, "{token}");
        };
        check("garbage", "invalid ID token format");
        check("", "invalid ID token format");
        check("a..c", "invalid ID token format");
        check("a.b.", "invalid ID token format");
        check("a.!secret!.c", "Invalid symbol 33, offset 0.");
        check("a.c2VjcmV0.c", "the token's payload is not JSON");
    }

    #[test]
    fn plan_names_are_mapped() {
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
