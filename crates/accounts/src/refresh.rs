//! Token refresh.
//!
//! Stored tokens are refreshed at the issuer. A refresh token can be used once: the first process uses it, and the
//! others find the new tokens in the home. Tokens of a client are requested from that client.

use codicil_protocol::{AuthMode, ChatgptAuthTokensRefreshParams, ChatgptAuthTokensRefreshReason, Secret};

use crate::{
    accounts::Accounts,
    credentials::StoredCredentials,
    external::{ExternalLogin, ExternalTokens},
    issuer::RefreshError,
    signed_in::SignedIn,
};

/// Age at which valid tokens are refreshed, so that the refresh token does not expire.
const MAX_AGE_SECONDS: i64 = 8 * 24 * 60 * 60;

impl Accounts {
    /// Refreshes the stored tokens, whatever their age. API keys and tokens of a client stay unchanged.
    pub(crate) async fn renew_now(&self) -> Result<(), RefreshError> {
        if self.external().is_some() {
            return Ok(());
        }
        let tokens = self.stored().await?.and_then(|stored| stored.tokens);
        match tokens {
            Some(tokens) => self.renew(tokens.access_token).await.map(drop),
            None => Ok(()),
        }
    }

    /// Returns the stored account with tokens other than `refused`.
    pub(crate) async fn renew(&self, refused: Secret) -> Result<Option<SignedIn>, RefreshError> {
        let this = self.clone();
        // In a task, so that an interrupted turn does not lose the new tokens: the refresh token is spent.
        let exchange = self.0.tasks.spawn(async move { this.exchange(&refused).await });
        exchange.await.unwrap_or(Err(RefreshError::Ending))
    }

    async fn exchange(&self, refused: &Secret) -> Result<Option<SignedIn>, RefreshError> {
        let settings = self.settings_or_default().await;
        let _guard = self.lock(settings.store).await?;
        // Read again under the lock, since another process may have refreshed them.
        let Some(stored) = self.with_storage(settings.store, |storage| storage.load()).await? else {
            return Ok(None);
        };
        let tokens = stored.tokens.as_ref().filter(|_| stored.mode() == AuthMode::Chatgpt);
        let Some(tokens) = tokens.filter(|tokens| tokens.access_token == *refused) else {
            return Ok(SignedIn::with_stored(&stored));
        };
        let fresh = stored.with_tokens(settings.issuer.refresh(tokens).await?);
        let signed_in = SignedIn::with_stored(&fresh);
        self.with_storage(settings.store, move |storage| storage.save(&fresh)).await?;
        Ok(signed_in)
    }

    /// Returns the client's account with tokens other than `refused`, or the reason why there are none.
    pub(crate) async fn request_tokens(&self, refused: &Secret) -> Result<Option<SignedIn>, String> {
        // The semaphore is never closed.
        let _permit = self.0.token_requests.acquire().await;
        let Some(ExternalLogin { tokens, source }) = self.external() else { return Ok(None) };
        if tokens.access_token != *refused {
            return Ok(Some(SignedIn::with_external(&tokens)));
        }
        let params = ChatgptAuthTokensRefreshParams {
            reason: ChatgptAuthTokensRefreshReason::Unauthorized,
            previous_account_id: Some(tokens.account_id.clone()),
        };
        let response = source.fresh(params).await;
        // The client's error may repeat the token.
        let response = response.map_err(|reason| reason.replace(refused.reveal(), "***"))?;
        // A logout or another login meanwhile takes precedence.
        if self.external().is_some_and(|now| now.tokens == tokens) {
            let settings = self.settings_or_default().await;
            let fresh = ExternalTokens::from(response);
            self.use_tokens(&settings, fresh, source).map_err(|error| error.to_string())?;
        }
        Ok(self.external().map(|now| SignedIn::with_external(&now.tokens)))
    }
}

impl StoredCredentials {
    /// Returns whether the tokens have expired or were not refreshed for a long time.
    pub(crate) fn needs_renewal(&self, now: i64) -> bool {
        let Some(tokens) = self.tokens.as_ref().filter(|_| self.mode() == AuthMode::Chatgpt) else {
            return false;
        };
        tokens.claims().is_expired(now)
            || self.seconds_since_refresh(now).is_some_and(|age| age > MAX_AGE_SECONDS)
    }
}
