//! The account whose apps are asked for.

use std::{future::Future, pin::Pin};

use codicil_model::Secret;

/// A ChatGPT account that is signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub access_token: Secret,
    /// The workspace or person that the token is for.
    pub account_id: Option<String>,
    /// Whether it belongs to an organisation, which has apps of its own.
    pub is_workspace: bool,
}

/// The answer of [`Accounts`], later.
pub type AccountFuture<'a> = Pin<Box<dyn Future<Output = Option<Account>> + Send + 'a>>;

/// Who is signed in, asked anew each time because tokens expire.
pub trait Accounts: Send + Sync {
    /// `None` when nobody is, or with an API key only: apps belong to ChatGPT accounts.
    fn chatgpt(&self) -> AccountFuture<'_>;
}

/// Nobody is signed in.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAccount;

impl Accounts for NoAccount {
    fn chatgpt(&self) -> AccountFuture<'_> {
        Box::pin(async { None })
    }
}

/// A fixed account.
impl Accounts for Account {
    fn chatgpt(&self) -> AccountFuture<'_> {
        Box::pin(async { Some(self.clone()) })
    }
}
