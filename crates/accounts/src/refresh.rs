//! Fresh tokens in place of those that were refused or are about to be.
//!
//! Stored tokens are exchanged at the issuer. Their refresh token can be used once, by whichever process is
//! first; the others find the new tokens in the home. Tokens of a client are asked of that client.

use codicil_protocol::{AuthMode, ChatgptAuthTokensRefreshParams, ChatgptAuthTokensRefreshReason, Secret};

use crate::{
    accounts::Accounts,
    credentials::StoredCredentials,
    external::{ExternalLogin, ExternalTokens},
    issuer::RefreshError,
    signed_in::SignedIn,
};

/// Tokens older than this are exchanged even if they are good, so that the refresh token stays alive.
const MAX_AGE_SECONDS: i64 = 8 * 24 * 60 * 60;

impl Accounts {
    /// Exchanges the stored tokens, however young they are. Keys and tokens of a client stay.
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

    /// The stored account with other tokens than `refused`.
    pub(crate) async fn renew(&self, refused: Secret) -> Result<Option<SignedIn>, RefreshError> {
        let this = self.clone();
        // A task of its own: a turn that is interrupted now must not lose tokens that have been paid for with
        // the only refresh token.
        let exchange = self.0.tasks.spawn(async move { this.exchange(&refused).await });
        exchange.await.unwrap_or(Err(RefreshError::Ending))
    }

    async fn exchange(&self, refused: &Secret) -> Result<Option<SignedIn>, RefreshError> {
        let settings = self.settings_or_default().await;
        let _guard = self.lock(settings.store).await?;
        // Read again under the lock: somebody may have been faster.
        let Some(stored) = self.at_storage(settings.store, |storage| storage.load()).await? else {
            return Ok(None);
        };
        let tokens = stored.tokens.as_ref().filter(|_| stored.mode() == AuthMode::Chatgpt);
        let Some(tokens) = tokens.filter(|tokens| tokens.access_token == *refused) else {
            return Ok(SignedIn::with_stored(&stored));
        };
        let fresh = stored.with_tokens(settings.issuer.refresh(tokens).await?);
        let signed_in = SignedIn::with_stored(&fresh);
        self.at_storage(settings.store, move |storage| storage.save(&fresh)).await?;
        Ok(signed_in)
    }

    /// The client's account with other tokens than `refused`, or why there are none.
    pub(crate) async fn ask_for_tokens(&self, refused: &Secret) -> Result<Option<SignedIn>, String> {
        // It is never closed.
        let _asking = self.0.asking.acquire().await;
        let Some(ExternalLogin { tokens, source }) = self.external() else { return Ok(None) };
        if tokens.access_token != *refused {
            return Ok(Some(SignedIn::with_given(&tokens)));
        }
        let params = ChatgptAuthTokensRefreshParams {
            reason: ChatgptAuthTokensRefreshReason::Unauthorized,
            previous_account_id: Some(tokens.account_id.clone()),
        };
        let answer = source.fresh(params).await;
        // The client's words may hold what it tried with.
        let answer = answer.map_err(|reason| reason.replace(refused.reveal(), "***"))?;
        // A client that signed out or in again meanwhile has said what counts.
        if self.external().is_some_and(|now| now.tokens == tokens) {
            let settings = self.settings_or_default().await;
            let fresh = ExternalTokens::from(answer);
            self.use_tokens(&settings, fresh, source).map_err(|error| error.to_string())?;
        }
        Ok(self.external().map(|now| SignedIn::with_given(&now.tokens)))
    }
}

impl StoredCredentials {
    /// Whether the tokens have expired, or have not been exchanged for long.
    pub(crate) fn needs_renewal(&self, now: i64) -> bool {
        let Some(tokens) = self.tokens.as_ref().filter(|_| self.mode() == AuthMode::Chatgpt) else {
            return false;
        };
        tokens.claims().is_expired(now)
            || self.seconds_since_refresh(now).is_some_and(|age| age > MAX_AGE_SECONDS)
    }
}
