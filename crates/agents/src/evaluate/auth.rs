//! Credentials for the server: an API key, or tokens that the program manages itself.

use std::{fmt, pin::Pin, sync::Arc};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use codicil_client::{
    HandlerAnswer, NoAnswer,
    protocol::{ChatgptAuthTokensRefreshParams, ChatgptAuthTokensRefreshResponse, Secret},
};
use serde_json::{Value, json};

/// How the server signs in, right after the handshake.
#[derive(Clone, Debug)]
pub enum LoginMethod {
    /// A key of the provider.
    ApiKey(Secret),
    /// Tokens of an account that this program obtained.
    ExternalTokens(ExternalTokens),
}

impl LoginMethod {
    /// A key of the provider.
    pub fn api_key(key: impl Into<String>) -> Self {
        Self::ApiKey(key.into().into())
    }

    /// The params of `account/login/start`.
    pub(super) fn login(&self) -> Value {
        match self {
            Self::ApiKey(key) => json!({ "type": "apiKey", "apiKey": key }),
            Self::ExternalTokens(auth) => {
                let tokens = &auth.tokens;
                // Servers of the first generation want the id token, later ones the account.
                let mut params = json!({ "type": "chatgptAuthTokens", "accessToken": tokens.access_token });
                if let Some(params) = params.as_object_mut() {
                    let account = tokens.account().map(Value::from);
                    let optional = [
                        ("idToken", tokens.id_token.as_ref().map(|token| json!(token))),
                        ("chatgptAccountId", account),
                        ("chatgptPlanType", tokens.plan_type.clone().map(Value::from)),
                    ];
                    params.extend(
                        optional.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))),
                    );
                }
                params
            }
        }
    }

    pub(super) async fn refresh(
        &self,
        asked: ChatgptAuthTokensRefreshParams,
    ) -> HandlerAnswer<ChatgptAuthTokensRefreshResponse> {
        let Self::ExternalTokens(ExternalTokens { refresh: Some(refresh), .. }) = self else {
            return Err(NoAnswer::error("this client has no fresh tokens"));
        };
        let tokens = refresh(asked.previous_account_id.clone()).await.map_err(NoAnswer::error)?;
        let account = tokens.account().or(asked.previous_account_id);
        Ok(ChatgptAuthTokensRefreshResponse {
            chatgpt_account_id: account.ok_or_else(|| NoAnswer::error("the tokens name no account"))?,
            access_token: tokens.access_token,
            chatgpt_plan_type: tokens.plan_type,
        })
    }
}

/// Tokens of an account. `Debug` does not show them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountTokens {
    /// Who it is; older servers ask for it.
    pub id_token: Option<Secret>,
    /// What requests carry.
    pub access_token: Secret,
    /// The account; when left out it is read from the tokens.
    pub account_id: Option<String>,
    /// The plan, where it counts before the one in the tokens.
    pub plan_type: Option<String>,
}

impl AccountTokens {
    /// Both tokens, with account and plan as they say.
    pub fn new(id_token: impl Into<String>, access_token: impl Into<String>) -> Self {
        Self {
            id_token: Some(id_token.into().into()),
            access_token: access_token.into().into(),
            account_id: None,
            plan_type: None,
        }
    }

    fn account(&self) -> Option<String> {
        let claimed =
            || [Some(&self.access_token), self.id_token.as_ref()].into_iter().flatten().find_map(account_in);
        self.account_id.clone().or_else(claimed)
    }
}

/// The account that a token is for. The signature is the provider's business.
fn account_in(token: &Secret) -> Option<String> {
    let payload = token.reveal().split('.').nth(1)?;
    let payload = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    let claims: Value = serde_json::from_slice(&payload).ok()?;
    let account = claims.get("https://api.openai.com/auth")?.get("chatgpt_account_id")?;
    account.as_str().map(str::to_owned)
}

/// Tokens that this program renews when the server asks for it.
///
/// ```
/// use codicil_agents::evaluate::{LoginMethod, ExternalTokens, AccountTokens};
///
/// # async fn fetch() -> Result<(String, String), String> { Err("offline".into()) }
/// let tokens = ExternalTokens::new(AccountTokens::new("id token", "access token")).refresh_with(|_account| async {
///     let (id_token, access_token) = fetch().await?;
///     Ok(AccountTokens::new(id_token, access_token))
/// });
/// let auth = LoginMethod::ExternalTokens(tokens);
/// assert!(!format!("{auth:?}").contains("access token"));
/// ```
#[derive(Clone)]
pub struct ExternalTokens {
    tokens: AccountTokens,
    refresh: Option<RefreshTokens>,
}

type RefreshTokens = Arc<
    dyn Fn(Option<String>) -> Pin<Box<dyn Future<Output = Result<AccountTokens, String>> + Send>>
        + Send
        + Sync,
>;

impl ExternalTokens {
    /// Tokens that cannot be renewed: once they are refused, the evaluation fails.
    pub fn new(tokens: AccountTokens) -> Self {
        Self { tokens, refresh: None }
    }

    /// Asks this function for fresh tokens when the server says that they were refused. It is told the account,
    /// and may fail with a reason.
    pub fn refresh_with<F, R>(mut self, refresh: F) -> Self
    where
        F: Fn(Option<String>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<AccountTokens, String>> + Send + 'static,
    {
        self.refresh = Some(Arc::new(move |account| Box::pin(refresh(account))));
        self
    }
}

impl fmt::Debug for ExternalTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let can_refresh = self.refresh.is_some();
        f.debug_struct("ExternalTokens")
            .field("tokens", &self.tokens)
            .field("can_refresh", &can_refresh)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(account: &str) -> String {
        let claims = json!({ "https://api.openai.com/auth": { "chatgpt_account_id": account } });
        format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    #[test]
    fn a_login_says_what_servers_of_all_generations_want() {
        assert_eq!(LoginMethod::api_key("sk-1").login(), json!({ "type": "apiKey", "apiKey": "sk-1" }));
        let access = token("acc-1");
        let auth =
            LoginMethod::ExternalTokens(ExternalTokens::new(AccountTokens::new("id", access.as_str())));
        let expected = json!({
            "type": "chatgptAuthTokens", "idToken": "id", "accessToken": access, "chatgptAccountId": "acc-1",
        });
        assert_eq!(auth.login(), expected);
        let unreadable = LoginMethod::ExternalTokens(ExternalTokens::new(AccountTokens::new("id", "a.b.c")));
        let expected = json!({ "type": "chatgptAuthTokens", "idToken": "id", "accessToken": "a.b.c" });
        assert_eq!(unreadable.login(), expected);
        assert!(!format!("{unreadable:?}").contains("a.b.c"));
    }
}
