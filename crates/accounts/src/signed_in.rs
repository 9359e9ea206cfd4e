//! The signed-in account, from any source.

use codicil_model::ProviderCredentials;
use codicil_protocol::{Account, AccountUpdatedNotification, AuthMode, PlanType, Secret};

use crate::{
    claims::{TokenClaims, plan_type},
    credentials::StoredCredentials,
    external::ExternalTokens,
};

/// The data and the token of the account.
#[derive(Clone, Debug, PartialEq)]
pub struct SignedIn {
    pub mode: AuthMode,
    /// API key or access token.
    pub token: Secret,
    pub email: Option<String>,
    /// Set for ChatGPT accounts, `None` for API keys.
    pub plan: Option<PlanType>,
    /// Set for ChatGPT accounts.
    pub account_id: Option<String>,
}

impl SignedIn {
    pub(crate) fn with_key(key: Secret) -> Self {
        Self { mode: AuthMode::Apikey, token: key, email: None, plan: None, account_id: None }
    }

    pub(crate) fn with_external(tokens: &ExternalTokens) -> Self {
        let claims = tokens.claims();
        Self {
            mode: AuthMode::ChatgptAuthTokens,
            token: tokens.access_token.clone(),
            plan: Some(plan(tokens.plan.as_deref().or(claims.plan.as_deref()))),
            email: claims.email,
            account_id: Some(tokens.account_id.clone()),
        }
    }

    /// Returns `None` if the stored credentials hold neither a key nor tokens.
    pub(crate) fn with_stored(stored: &StoredCredentials) -> Option<Self> {
        if stored.mode() == AuthMode::Apikey {
            return stored.api_key.clone().map(Self::with_key);
        }
        let tokens = stored.tokens.as_ref()?;
        let TokenClaims { email, plan: named, account_id, .. } = tokens.claims();
        Some(Self {
            mode: AuthMode::Chatgpt,
            token: tokens.access_token.clone(),
            plan: Some(plan(named.as_deref())),
            email,
            account_id,
        })
    }

    pub fn is_chatgpt(&self) -> bool {
        self.mode != AuthMode::Apikey
    }

    /// Returns the account for clients. `None` for a ChatGPT account without an email address.
    pub fn account(&self) -> Option<Account> {
        match (&self.mode, &self.email, &self.plan) {
            (AuthMode::Apikey, ..) => Some(Account::ApiKey),
            (_, Some(email), Some(plan)) => {
                Some(Account::Chatgpt { email: email.clone(), plan_type: plan.clone(), workspace_name: None })
            }
            _ => None,
        }
    }

    /// Returns the credentials for requests.
    pub fn credentials(&self) -> ProviderCredentials {
        ProviderCredentials { token: self.token.clone(), account_id: self.account_id.clone() }
    }

    /// Builds `account/updated` for the current account; `None` means signed out.
    pub fn updated(current: Option<&Self>) -> AccountUpdatedNotification {
        AccountUpdatedNotification {
            auth_mode: current.map(|signed_in| signed_in.mode.clone()),
            plan_type: current.and_then(|signed_in| signed_in.plan.clone()),
        }
    }
}

fn plan(name: Option<&str>) -> PlanType {
    name.map_or(PlanType::Unknown, plan_type)
}
