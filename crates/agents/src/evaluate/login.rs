//! Signing in: with an API key, or with account tokens that the program manages itself.

use std::{fmt, pin::Pin, sync::Arc};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use codicil_client::{
    HandlerAnswer, NoAnswer,
    protocol::{ChatgptAuthTokensRefreshParams, ChatgptAuthTokensRefreshResponse, Secret},
};
use serde::Serialize;
use serde_json::Value;

/// How the server signs in after the handshake.
#[derive(Clone, Debug)]
pub enum LoginMethod {
    /// An API key of the provider.
    ApiKey(Secret),
    /// Tokens of an account that this program obtained.
    ExternalTokens(ExternalTokens),
}

impl LoginMethod {
    /// Returns a login with an API key of the provider.
    pub fn api_key(key: impl Into<String>) -> Self {
        Self::ApiKey(key.into().into())
    }

    /// Returns a login with tokens of an account. [`AccountTokens`] alone cannot be renewed; see [`ExternalTokens`].
    pub fn external_tokens(tokens: impl Into<ExternalTokens>) -> Self {
        Self::ExternalTokens(tokens.into())
    }

    /// Returns the params of `account/login/start`.
    pub(super) fn params(&self) -> LoginParams<'_> {
        match self {
            Self::ApiKey(api_key) => LoginParams::ApiKey { api_key },
            Self::ExternalTokens(ExternalTokens { tokens, .. }) => LoginParams::ChatgptAuthTokens {
                access_token: &tokens.access_token,
                id_token: tokens.id_token.as_ref(),
                chatgpt_account_id: tokens.account(),
                chatgpt_plan_type: tokens.plan_type.as_deref(),
            },
        }
    }

    pub(super) async fn refresh(
        &self,
        params: ChatgptAuthTokensRefreshParams,
    ) -> HandlerAnswer<ChatgptAuthTokensRefreshResponse> {
        let Self::ExternalTokens(ExternalTokens { refresh: Some(refresh), .. }) = self else {
            return Err(NoAnswer::error("this client has no fresh tokens"));
        };
        let tokens = refresh(params.previous_account_id.clone()).await.map_err(NoAnswer::error)?;
        let account = tokens.account().or(params.previous_account_id);
        Ok(ChatgptAuthTokensRefreshResponse {
            chatgpt_account_id: account.ok_or_else(|| NoAnswer::error("the tokens name no account"))?,
            access_token: tokens.access_token,
            chatgpt_plan_type: tokens.plan_type,
        })
    }
}

/// The params of `account/login/start` for servers of all versions: early ones require the id token, which the protocol's
/// own type no longer has; later ones require the account.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum LoginParams<'a> {
    ApiKey {
        api_key: &'a Secret,
    },
    ChatgptAuthTokens {
        access_token: &'a Secret,
        #[serde(skip_serializing_if = "Option::is_none")]
        id_token: Option<&'a Secret>,
        #[serde(skip_serializing_if = "Option::is_none")]
        chatgpt_account_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        chatgpt_plan_type: Option<&'a str>,
    },
}

/// Tokens of an account. Their `Debug` output shows no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountTokens {
    /// The id token, which early servers require.
    pub id_token: Option<Secret>,
    /// The access token that requests carry.
    pub access_token: Secret,
    /// The account id; read from the tokens if it is `None`.
    pub account_id: Option<String>,
    /// The plan; overrides the one in the tokens.
    pub plan_type: Option<String>,
}

impl AccountTokens {
    /// Creates tokens whose account and plan are read from the tokens themselves.
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

/// Returns the account id in a token's claims. The signature is not checked; that is up to the provider.
fn account_in(token: &Secret) -> Option<String> {
    let payload = token.reveal().split('.').nth(1)?;
    let payload = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    let claims: Value = serde_json::from_slice(&payload).ok()?;
    let account = claims.get("https://api.openai.com/auth")?.get("chatgpt_account_id")?;
    account.as_str().map(str::to_owned)
}

/// Account tokens that this program renews on request of the server.
///
/// ```
/// use codicil_agents::evaluate::{AccountTokens, ExternalTokens, LoginMethod};
///
/// # async fn fetch() -> Result<(String, String), String> { Err("offline".into()) }
/// let tokens = ExternalTokens::new(AccountTokens::new("id token", "access token")).refresh_with(|_account| async {
///     let (id_token, access_token) = fetch().await?;
///     Ok(AccountTokens::new(id_token, access_token))
/// });
/// let login = LoginMethod::external_tokens(tokens);
/// assert!(!format!("{login:?}").contains("access token"));
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
    /// Creates tokens that cannot be renewed. The evaluation fails when the provider refuses them.
    pub fn new(tokens: AccountTokens) -> Self {
        Self { tokens, refresh: None }
    }

    /// Calls this function for fresh tokens when the provider has refused the current ones. It receives the account
    /// id, and may fail with a reason.
    pub fn refresh_with<F, R>(mut self, refresh: F) -> Self
    where
        F: Fn(Option<String>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<AccountTokens, String>> + Send + 'static,
    {
        self.refresh = Some(Arc::new(move |account| Box::pin(refresh(account))));
        self
    }
}

impl From<AccountTokens> for ExternalTokens {
    fn from(tokens: AccountTokens) -> Self {
        Self::new(tokens)
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
    use serde_json::json;

    use super::*;

    fn token(account: &str) -> String {
        let claims = json!({ "https://api.openai.com/auth": { "chatgpt_account_id": account } });
        format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    fn check(login: &LoginMethod, expected: Value) {
        assert_eq!(serde_json::to_value(login.params()).unwrap(), expected);
    }

    #[test]
    fn login_params_suit_servers_of_all_versions() {
        check(&LoginMethod::api_key("sk-1"), json!({ "type": "apiKey", "apiKey": "sk-1" }));
        let access = token("acc-1");
        let login = LoginMethod::external_tokens(AccountTokens::new("id", access.as_str()));
        let expected = json!({
            "type": "chatgptAuthTokens", "idToken": "id", "accessToken": access, "chatgptAccountId": "acc-1",
        });
        check(&login, expected);
        let unreadable = LoginMethod::external_tokens(AccountTokens::new("id", "a.b.c"));
        check(&unreadable, json!({ "type": "chatgptAuthTokens", "idToken": "id", "accessToken": "a.b.c" }));
        assert!(!format!("{unreadable:?}").contains("a.b.c"));
    }
}
