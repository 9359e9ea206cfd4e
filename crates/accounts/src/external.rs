//! Tokens that a client supplies and renews. They are never stored.

use std::sync::Arc;

use codicil_protocol::{ChatgptAuthTokensRefreshParams, ChatgptAuthTokensRefreshResponse, Secret};
use futures_util::future::BoxFuture;

use crate::claims::{TokenClaims, TokenError};

/// The client that supplied tokens and supplies new ones when they are rejected.
pub trait TokenSource: Send + Sync {
    /// Returns new tokens, or the reason why there are none.
    fn fresh(
        &self,
        params: ChatgptAuthTokensRefreshParams,
    ) -> BoxFuture<'_, Result<ChatgptAuthTokensRefreshResponse, String>>;
}

/// An access token and its account.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalTokens {
    pub access_token: Secret,
    pub account_id: String,
    /// Takes precedence over the plan in the token.
    pub plan: Option<String>,
}

impl ExternalTokens {
    /// Checks the token. An empty account id is taken from the token.
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
    fn from(response: ChatgptAuthTokensRefreshResponse) -> Self {
        Self {
            access_token: response.access_token,
            account_id: response.chatgpt_account_id,
            plan: response.chatgpt_plan_type,
        }
    }
}

/// The tokens in use and their source.
#[derive(Clone)]
pub(crate) struct ExternalLogin {
    pub tokens: ExternalTokens,
    pub source: Arc<dyn TokenSource>,
}
