//! Tokens that a client supplies and renews. They are never written down.

use std::sync::Arc;

use codicil_protocol::{ChatgptAuthTokensRefreshParams, ChatgptAuthTokensRefreshResponse, Secret};
use futures_util::future::BoxFuture;

use crate::claims::{TokenClaims, TokenError};

/// Whoever gave tokens and is asked for others when they are refused.
pub trait TokenSource: Send + Sync {
    /// New tokens, or why there are none.
    fn fresh(
        &self,
        params: ChatgptAuthTokensRefreshParams,
    ) -> BoxFuture<'_, Result<ChatgptAuthTokensRefreshResponse, String>>;
}

/// An access token and whose it is.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalTokens {
    pub access_token: Secret,
    pub account_id: String,
    /// Counts before the plan named in the token.
    pub plan: Option<String>,
}

impl ExternalTokens {
    /// Refuses what is no token. An empty account is taken from the token.
    pub(crate) fn checked(mut self) -> Result<Self, TokenError> {
        let claims = TokenClaims::of(self.access_token.reveal())?;
        if self.account_id.is_empty() {
            self.account_id = claims.account_id.unwrap_or_default();
        }
        Ok(self)
    }

    pub(crate) fn claims(&self) -> TokenClaims {
        TokenClaims::of(self.access_token.reveal()).unwrap_or_default()
    }
}

impl From<ChatgptAuthTokensRefreshResponse> for ExternalTokens {
    fn from(answer: ChatgptAuthTokensRefreshResponse) -> Self {
        Self {
            access_token: answer.access_token,
            account_id: answer.chatgpt_account_id,
            plan: answer.chatgpt_plan_type,
        }
    }
}

/// Tokens in force and who gave them.
#[derive(Clone)]
pub(crate) struct ExternalLogin {
    pub tokens: ExternalTokens,
    pub source: Arc<dyn TokenSource>,
}
