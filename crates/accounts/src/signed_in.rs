//! An account that is signed in, whatever it came from.

use codicil_model::ProviderCredentials;
use codicil_protocol::{Account, AccountUpdatedNotification, AuthMode, PlanType, Secret};

use crate::{
    claims::{TokenClaims, plan_type},
    credentials::StoredCredentials,
    external::ExternalTokens,
};

/// What is known of the account, and what its requests carry.
#[derive(Clone, Debug, PartialEq)]
pub struct SignedIn {
    pub mode: AuthMode,
    /// The key, or the access token.
    pub token: Secret,
    pub email: Option<String>,
    /// Of a ChatGPT account, always; of a key, never.
    pub plan: Option<PlanType>,
    /// Of a ChatGPT account.
    pub account_id: Option<String>,
}

impl SignedIn {
    pub(crate) fn with_key(key: Secret) -> Self {
        Self { mode: AuthMode::Apikey, token: key, email: None, plan: None, account_id: None }
    }

    pub(crate) fn with_given(given: &ExternalTokens) -> Self {
        let claims = given.claims();
        Self {
            mode: AuthMode::ChatgptAuthTokens,
            token: given.access_token.clone(),
            plan: Some(plan(given.plan.as_deref().or(claims.plan.as_deref()))),
            email: claims.email,
            account_id: Some(given.account_id.clone()),
        }
    }

    /// `None` when the file holds nothing that can be used.
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

    /// As clients are shown it. `None` for a ChatGPT account that does not tell its address.
    pub fn account(&self) -> Option<Account> {
        match (&self.mode, &self.email, &self.plan) {
            (AuthMode::Apikey, ..) => Some(Account::ApiKey),
            (_, Some(email), Some(plan)) => {
                Some(Account::Chatgpt { email: email.clone(), plan_type: plan.clone() })
            }
            _ => None,
        }
    }

    /// What a request to the provider carries.
    pub fn credentials(&self) -> ProviderCredentials {
        ProviderCredentials { token: self.token.clone(), account_id: self.account_id.clone() }
    }

    /// What everyone is told when this, or nobody, is signed in now.
    pub fn updated(now: Option<&Self>) -> AccountUpdatedNotification {
        AccountUpdatedNotification {
            auth_mode: now.map(|signed_in| signed_in.mode.clone()),
            plan_type: now.and_then(|signed_in| signed_in.plan.clone()),
        }
    }
}

fn plan(name: Option<&str>) -> PlanType {
    name.map_or(PlanType::Unknown, plan_type)
}
