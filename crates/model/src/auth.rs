//! Who the requests are made for: secrets, and where they come from.

use std::{future::Future, pin::Pin};

use codicil_protocol::Secret;

use crate::ModelError;

/// What identifies an account to its provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderCredentials {
    pub token: Secret,
    /// The ChatGPT account that the token belongs to, if it is such a token.
    pub account_id: Option<String>,
}

impl ProviderCredentials {
    pub fn api_key(key: impl Into<String>) -> Self {
        Self { token: Secret::from(key.into()), account_id: None }
    }
}

/// The answer of an [`AccountAuth`], later.
pub type AuthFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Option<ProviderCredentials>, ModelError>> + Send + 'a>>;

/// The account that is signed in, asked anew for each request because tokens expire.
///
/// Only providers with `requires_openai_auth` ask it: a login is not sent to anybody else.
pub trait AccountAuth: Send + Sync {
    /// The credentials to use now; `None` when nobody is signed in.
    fn credentials(&self) -> AuthFuture<'_>;

    /// New credentials after the provider refused `refused` with 401. `None` keeps that answer.
    fn refresh<'a>(&'a self, refused: &'a ProviderCredentials) -> AuthFuture<'a> {
        let _ = refused;
        Box::pin(async { Ok(None) })
    }
}

/// A fixed key is an account too.
impl AccountAuth for ProviderCredentials {
    fn credentials(&self) -> AuthFuture<'_> {
        Box::pin(async { Ok(Some(self.clone())) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_secrets() {
        let shown = format!("{:?}", ProviderCredentials::api_key("sk-123"));
        assert_eq!(shown, "ProviderCredentials { token: ***, account_id: None }");
    }
}
