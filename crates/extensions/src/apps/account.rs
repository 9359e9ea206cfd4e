//! The account whose apps are asked for.

use std::{future::Future, pin::Pin, sync::Arc};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use codicil_model::AccountAuth;
use codicil_protocol::Secret;
use serde_json::Value;

/// A ChatGPT account that is signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatgptAccount {
    pub access_token: Secret,
    /// The workspace or person that the token is for.
    pub account_id: Option<String>,
    /// Whether it belongs to an organisation, which has apps of its own.
    pub is_workspace: bool,
}

/// The answer of [`AccountSource`], later.
pub type AccountFuture<'a> = Pin<Box<dyn Future<Output = Option<ChatgptAccount>> + Send + 'a>>;

/// Who is signed in, asked anew each time because tokens expire.
pub trait AccountSource: Send + Sync {
    /// `None` when nobody is, or with an API key only: apps belong to ChatGPT accounts.
    fn chatgpt(&self) -> AccountFuture<'_>;
}

/// A fixed account.
impl AccountSource for ChatgptAccount {
    fn chatgpt(&self) -> AccountFuture<'_> {
        Box::pin(async { Some(self.clone()) })
    }
}

/// Nobody is signed in.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAccount;

impl AccountSource for NoAccount {
    fn chatgpt(&self) -> AccountFuture<'_> {
        Box::pin(async { None })
    }
}

/// Whoever signs the requests to models.
pub struct AuthAccount(pub Option<Arc<dyn AccountAuth>>);

impl AccountSource for AuthAccount {
    fn chatgpt(&self) -> AccountFuture<'_> {
        Box::pin(async {
            let credentials = match self.0.as_ref()?.credentials().await {
                Ok(credentials) => credentials?,
                Err(error) => {
                    tracing::warn!("apps need an account: {error}");
                    return None;
                }
            };
            // A key has none.
            let account_id = Some(credentials.account_id?);
            let is_workspace = is_of_organisation(credentials.token.reveal());
            Some(ChatgptAccount { access_token: credentials.token, account_id, is_workspace })
        })
    }
}

/// What a token says of its account's plan. It is the issuer's to check; here it only decides what to ask.
fn is_of_organisation(token: &str) -> bool {
    let payload = token.split('.').nth(1).and_then(|payload| URL_SAFE_NO_PAD.decode(payload).ok());
    let claims: Option<Value> = payload.and_then(|payload| serde_json::from_slice(&payload).ok());
    let auth = claims.as_ref().and_then(|claims| claims.get("https://api.openai.com/auth"));
    let plan = auth.and_then(|auth| auth.get("chatgpt_plan_type")).and_then(Value::as_str);
    let plan = plan.unwrap_or_default().to_lowercase();
    ["team", "business", "enterprise", "edu"].iter().any(|kind| plan.contains(kind))
}

#[cfg(test)]
mod tests {
    use codicil_model::ProviderCredentials;
    use serde_json::json;

    use super::*;

    fn token(plan: &str) -> String {
        let claims = json!({ "https://api.openai.com/auth": { "chatgpt_plan_type": plan } });
        format!("head.{}.signature", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    #[test]
    fn organisations_are_told_from_people() {
        let check = |token: &str, expected| assert_eq!(is_of_organisation(token), expected, "{token}");
        check(&token("team"), true);
        check(&token("Enterprise"), true);
        check(&token("self_serve_business_usage_based"), true);
        check(&token("plus"), false);
        check("sk-123", false);
        check("a.!.c", false);
        check("", false);
    }

    #[tokio::test]
    async fn only_an_account_of_chatgpt_has_apps() {
        let signed = |credentials: ProviderCredentials| AuthAccount(Some(Arc::new(credentials)));
        assert_eq!(signed(ProviderCredentials::api_key("sk-1")).chatgpt().await, None);
        assert_eq!(AuthAccount(None).chatgpt().await, None);
        let tokens = ProviderCredentials { token: token("team").into(), account_id: Some("acc".into()) };
        let account = signed(tokens).chatgpt().await.unwrap();
        assert_eq!((account.account_id.as_deref(), account.is_workspace), (Some("acc"), true));
    }
}
