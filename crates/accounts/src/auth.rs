//! The credentials of model requests.

use codicil_model::{AccountAuth, AuthFuture, ModelError, ProviderCredentials};
use codicil_protocol::{AuthMode, Secret};

use crate::{accounts::Accounts, issuer::RefreshError, signed_in::SignedIn};

impl AccountAuth for Accounts {
    fn credentials(&self) -> AuthFuture<'_> {
        Box::pin(async {
            let signed_in = self.usable().await.map_err(|error| unauthorized(&error))?;
            Ok(signed_in.map(|signed_in| signed_in.credentials()))
        })
    }

    fn refresh<'a>(&'a self, refused: &'a ProviderCredentials) -> AuthFuture<'a> {
        Box::pin(async move {
            let fresh =
                self.replace_rejected(refused.token.clone()).await?.map(|signed_in| signed_in.credentials());
            // The same credentials would be rejected again.
            Ok(fresh.filter(|fresh| fresh != refused))
        })
    }
}

impl Accounts {
    /// Returns the account, after refreshing tokens that have expired or are old.
    pub async fn usable(&self) -> Result<Option<SignedIn>, RefreshError> {
        let Some(current) = self.current().await else { return Ok(None) };
        let now = jiff::Timestamp::now().as_second();
        let stored = match current.mode {
            AuthMode::Chatgpt => self.stored().await?,
            _ => None,
        };
        if !stored.is_some_and(|stored| stored.needs_renewal(now)) {
            return Ok(Some(current));
        }
        match self.renew(current.token.clone()).await {
            Ok(renewed) => Ok(renewed),
            Err(error @ RefreshError::Rejected(_)) => Err(error),
            // The issuer may be unreachable while the tokens still work.
            Err(error) => {
                tracing::warn!("{error}");
                Ok(Some(current))
            }
        }
    }

    /// Returns the account with credentials other than the rejected ones; `None` if there are none.
    async fn replace_rejected(&self, refused: Secret) -> Result<Option<SignedIn>, ModelError> {
        if self.external().is_some() {
            return self.request_tokens(&refused).await.map_err(ModelError::Unauthorized);
        }
        match self.current().await {
            Some(current) if current.token != refused => Ok(Some(current)),
            Some(current) if current.is_chatgpt() => {
                self.renew(refused).await.map_err(|error| unauthorized(&error))
            }
            _ => Ok(None),
        }
    }
}

fn unauthorized(error: &RefreshError) -> ModelError {
    ModelError::Unauthorized(error.to_string())
}
