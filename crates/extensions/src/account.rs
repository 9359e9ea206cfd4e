//! The ChatGPT account whose apps are used, and the sources that provide it.

use std::{future::Future, pin::Pin, sync::Arc};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use codicil_model::AccountAuth;
use codicil_protocol::Secret;
use serde_json::Value;

/// A signed-in ChatGPT account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatgptAccount {
    pub access_token: Secret,
    /// The id of the workspace or personal account that the token is issued for.
    pub account_id: Option<String>,
    /// Whether the account belongs to a workspace. Workspaces have their own directory of apps.
    pub is_workspace: bool,
}

/// The future returned by [`AccountSource::chatgpt`].
pub type AccountFuture<'a> = Pin<Box<dyn Future<Output = Option<ChatgptAccount>> + Send + 'a>>;

/// A provider of the signed-in account, queried on each use because tokens expire.
pub trait AccountSource: Send + Sync {
    /// Returns the signed-in ChatGPT account, or `None` when signed out or signed in with an API key, which
    /// has no apps.
    fn chatgpt(&self) -> AccountFuture<'_>;
}

/// Always returns this account.
impl AccountSource for ChatgptAccount {
    fn chatgpt(&self) -> AccountFuture<'_> {
        Box::pin(async { Some(self.clone()) })
    }
}

/// An [`AccountSource`] that is always signed out.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAccount;

impl AccountSource for NoAccount {
    fn chatgpt(&self) -> AccountFuture<'_> {
        Box::pin(async { None })
    }
}

/// An [`AccountSource`] that uses the credentials of model requests. `None` counts as signed out.
pub struct AuthAccount(pub Option<Arc<dyn AccountAuth>>);

impl AccountSource for AuthAccount {
    fn chatgpt(&self) -> AccountFuture<'_> {
        Box::pin(async {
            let credentials = match self.0.as_ref()?.credentials().await {
                Ok(credentials) => credentials?,
                Err(error) => {
                    tracing::warn!("cannot read credentials for apps, treating as signed out: {error}");
                    return None;
                }
            };
            // API keys have no account id.
            let account_id = Some(credentials.account_id?);
            let is_workspace = has_workspace_plan(credentials.token.reveal());
            Some(ChatgptAccount { access_token: credentials.token, account_id, is_workspace })
        })
    }
}

/// Returns whether the plan in a token's claims is a workspace plan. The signature is not verified: the result
/// only selects which directories are listed, and the backend checks the token.
fn has_workspace_plan(token: &str) -> bool {
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
    fn workspace_plans_are_recognised() {
        let check = |token: &str, expected| assert_eq!(has_workspace_plan(token), expected, "{token}");
        check(&token("team"), true);
        check(&token("Enterprise"), true);
        check(&token("self_serve_business_usage_based"), true);
        check(&token("plus"), false);
        check("sk-123", false);
        check("a.!.c", false);
        check("", false);
    }

    #[tokio::test]
    async fn only_chatgpt_accounts_have_apps() {
        let account_source = |credentials: ProviderCredentials| AuthAccount(Some(Arc::new(credentials)));
        assert_eq!(account_source(ProviderCredentials::api_key("sk-1")).chatgpt().await, None);
        assert_eq!(AuthAccount(None).chatgpt().await, None);
        let tokens = ProviderCredentials { token: token("team").into(), account_id: Some("acc".into()) };
        let account = account_source(tokens).chatgpt().await.unwrap();
        assert_eq!((account.account_id.as_deref(), account.is_workspace), (Some("acc"), true));
    }
}
