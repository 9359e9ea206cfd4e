//! Signing in with a person's help: in a browser on this machine, or by typing a code in any browser.
//!
//! There is one such sign-in at a time. A newer one, a key, tokens or a sign-out end it.

mod callback;
mod page;
mod pkce;
mod slot;

use std::{io, time::Duration};

use codicil_protocol::Secret;
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};
use uuid::Uuid;

use self::{
    callback::{BrowserReply, CallbackListener, CallbackOutcome},
    page::LoginPage,
    pkce::{Pkce, random_word},
};
use crate::{
    accounts::Accounts,
    credentials::IssuedTokens,
    issuer::{DeviceCode, IssuerError, OauthIssuer},
    settings::AccountSettings,
    storage::StorageError,
};

pub(crate) use slot::{LoginPermit, LoginSlot};

/// How long a person may take in a browser, and with a code.
const BROWSER_TIME: Duration = Duration::from_secs(10 * 60);
const DEVICE_TIME: Duration = Duration::from_secs(15 * 60);

/// Why a sign-in ended without an account.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    #[error("Login was not completed")]
    NotCompleted,
    #[error("Login cancelled")]
    Cancelled,
    #[error("Login timed out")]
    TimedOut,
    #[error("the issuer refused: {0}")]
    Refused(String),
    #[error("Login is restricted to workspace id {0}.")]
    OtherWorkspace(String),
    #[error("{0}")]
    Issuer(#[from] IssuerError),
    #[error("{0}")]
    Storage(#[from] StorageError),
}

/// A sign-in under way. Dropped, it is over.
pub struct LoginAttempt {
    id: Uuid,
    work: LoginWork,
    stop: oneshot::Receiver<LoginError>,
    accounts: Accounts,
    /// Last, so that the port is free when the seat is.
    seat: LoginPermit,
}

enum LoginWork {
    Browser(Box<BrowserLogin>),
    Device { issuer: OauthIssuer, code: DeviceCode },
}

struct BrowserLogin {
    callback: CallbackListener,
    pkce: Pkce,
    issuer: OauthIssuer,
    url: String,
}

/// What to show to the person who signs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginInvitation {
    Browser { auth_url: String },
    Device { verification_url: String, user_code: String },
}

impl LoginAttempt {
    pub(crate) async fn in_browser(
        accounts: Accounts,
        settings: &AccountSettings,
        (seat, stop): (LoginPermit, oneshot::Receiver<LoginError>),
    ) -> io::Result<Self> {
        let state = random_word::<32>()?;
        let pkce = Pkce::new()?;
        let callback = CallbackListener::open(settings.callback_port, Secret::from(state.clone())).await?;
        let issuer = settings.issuer.clone();
        let workspace = settings.forced_workspace.as_deref();
        let url = issuer.authorize_url(&callback.address(), &pkce.challenge, &state, workspace);
        let work = LoginWork::Browser(Box::new(BrowserLogin { callback, pkce, issuer, url }));
        Ok(Self { id: seat.id(), work, stop, accounts, seat })
    }

    pub(crate) fn with_code(
        accounts: Accounts,
        issuer: OauthIssuer,
        code: DeviceCode,
        (seat, stop): (LoginPermit, oneshot::Receiver<LoginError>),
    ) -> Self {
        Self { id: seat.id(), work: LoginWork::Device { issuer, code }, stop, accounts, seat }
    }

    pub fn id(&self) -> Uuid {
        self.id
    }

    pub fn invitation(&self) -> LoginInvitation {
        match &self.work {
            LoginWork::Browser(browser) => LoginInvitation::Browser { auth_url: browser.url.clone() },
            LoginWork::Device { code, .. } => LoginInvitation::Device {
                verification_url: code.verification_url.clone(),
                user_code: code.user_code.clone(),
            },
        }
    }

    /// Waits for the person; on success the account is in force. An error is worded for clients.
    pub async fn finish(self) -> Result<(), String> {
        let Self { work, stop, accounts, seat, .. } = self;
        let stopping = accounts.stopping();
        let stopped = async {
            tokio::select! {
                Ok(why) = stop => why,
                () = stopping.cancelled() => LoginError::NotCompleted,
            }
        };
        match work {
            LoginWork::Browser(browser) => browser.finish(&accounts, &seat, stopped).await,
            LoginWork::Device { issuer, code } => {
                let ended = tokio::select! {
                    biased;
                    why = stopped => Err(why),
                    ended = timeout(DEVICE_TIME, poll(&issuer, &code, &accounts, &seat)) => {
                        ended.unwrap_or(Err(LoginError::TimedOut))
                    }
                };
                ended.map_err(|error| error.to_string())
            }
        }
    }
}

impl BrowserLogin {
    async fn finish(
        mut self,
        accounts: &Accounts,
        seat: &LoginPermit,
        stopped: impl Future<Output = LoginError>,
    ) -> Result<(), String> {
        let (ended, reply) = tokio::select! {
            biased;
            why = stopped => (Err(why), None),
            visited = timeout(BROWSER_TIME, self.wait(accounts, seat)) => match visited {
                Ok((ended, reply)) => (ended, Some(reply)),
                Err(_) => (Err(LoginError::TimedOut), None),
            },
        };
        if let Some(reply) = reply {
            // The connections live in the callback, so it stays until the page has left.
            reply.show(page(&ended)).await;
        }
        ended.map_err(|error| match error {
            LoginError::TimedOut => error.to_string(),
            error => format!("Login server error: {error}"),
        })
    }

    async fn wait(
        &mut self,
        accounts: &Accounts,
        seat: &LoginPermit,
    ) -> (Result<(), LoginError>, BrowserReply) {
        let (visit, reply) = self.callback.visit().await;
        let ended = match visit {
            CallbackOutcome::Code(code) => self.exchange(&code, accounts, seat).await,
            CallbackOutcome::Refused(reason) => Err(LoginError::Refused(reason)),
            CallbackOutcome::Cancelled => Err(LoginError::Cancelled),
        };
        (ended, reply)
    }

    async fn exchange(
        &self,
        code: &Secret,
        accounts: &Accounts,
        seat: &LoginPermit,
    ) -> Result<(), LoginError> {
        let redirect = self.callback.address();
        let tokens = self.issuer.exchange(code.reveal(), self.pkce.verifier.reveal(), &redirect).await?;
        accounts.keep(tokens, seat).await
    }
}

fn page(ended: &Result<(), LoginError>) -> LoginPage {
    match ended {
        Ok(()) => LoginPage::signed_in(),
        Err(LoginError::Cancelled) => LoginPage::cancelled(),
        Err(error) => LoginPage::failed(&error.to_string()),
    }
}

/// Asks the issuer, at the pace that it wants, until the code has been typed.
async fn poll(
    issuer: &OauthIssuer,
    code: &DeviceCode,
    accounts: &Accounts,
    seat: &LoginPermit,
) -> Result<(), LoginError> {
    let pause = Duration::from_secs(code.interval).max(Duration::from_millis(50));
    let authorized = loop {
        if let Some(authorized) = issuer.device_answer(code).await? {
            break authorized;
        }
        sleep(pause).await;
    };
    accounts.keep(issuer.exchange_device(&authorized).await?, seat).await
}

/// Refuses tokens of a workspace that is not the one to be used.
pub(crate) fn check_workspace(tokens: &IssuedTokens, expected: Option<&str>) -> Result<(), LoginError> {
    match expected {
        Some(expected) if tokens.claims().account_id.as_deref() != Some(expected) => {
            Err(LoginError::OtherWorkspace(expected.to_owned()))
        }
        _ => Ok(()),
    }
}
