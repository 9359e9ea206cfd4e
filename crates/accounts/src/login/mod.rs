//! Interactive logins: in a browser on this machine, or by entering a code in any browser.
//!
//! Only one interactive login is active at a time. A newer one, an API key, external tokens or a logout end it.

mod slot;

use std::time::Duration;

use codicil_http::{
    CallbackListener, CallbackOutcome, CallbackPage, CallbackPort, CallbackVisit, StateCheck,
};
use codicil_protocol::Secret;
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};
use uuid::Uuid;

use crate::{
    accounts::Accounts,
    credentials::IssuedTokens,
    error::AccountError,
    issuer::{AuthorizationRequest, DeviceCode, IssuerError, OauthIssuer},
    settings::AccountSettings,
    storage::StorageError,
};

pub(crate) use slot::{LoginPermit, LoginSlot};

const CALLBACK_PATH: &str = "/auth/callback";

/// Time that the user has in a browser, and with a device code.
const BROWSER_TIME: Duration = Duration::from_secs(10 * 60);
const DEVICE_TIME: Duration = Duration::from_secs(15 * 60);

/// The reason why a login ended without an account.
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

/// A pending login. Dropping it ends the login.
pub struct LoginAttempt {
    work: LoginWork,
    stop: oneshot::Receiver<LoginError>,
    accounts: Accounts,
    /// The last field: the port in `work` must be closed before the slot is free.
    permit: LoginPermit,
}

enum LoginWork {
    Browser(Box<BrowserLogin>),
    Device { issuer: OauthIssuer, code: DeviceCode },
}

struct BrowserLogin {
    listener: CallbackListener,
    issuer: OauthIssuer,
    auth_url: String,
    verifier: Secret,
    redirect: String,
}

/// What the user has to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginInvitation {
    Browser { auth_url: String },
    Device { verification_url: String, user_code: String },
}

impl LoginAttempt {
    pub(crate) async fn in_browser(
        accounts: Accounts,
        settings: &AccountSettings,
        (permit, stop): (LoginPermit, oneshot::Receiver<LoginError>),
    ) -> Result<Self, AccountError> {
        let browser = BrowserLogin::prepare(settings).await?;
        Ok(Self { work: LoginWork::Browser(Box::new(browser)), stop, accounts, permit })
    }

    pub(crate) fn with_code(
        accounts: Accounts,
        issuer: OauthIssuer,
        code: DeviceCode,
        (permit, stop): (LoginPermit, oneshot::Receiver<LoginError>),
    ) -> Self {
        Self { work: LoginWork::Device { issuer, code }, stop, accounts, permit }
    }

    pub fn id(&self) -> Uuid {
        self.permit.id()
    }

    pub fn invitation(&self) -> LoginInvitation {
        match &self.work {
            LoginWork::Browser(browser) => LoginInvitation::Browser { auth_url: browser.auth_url.clone() },
            LoginWork::Device { code, .. } => LoginInvitation::Device {
                verification_url: code.verification_url.clone(),
                user_code: code.user_code.clone(),
            },
        }
    }

    /// Waits for the user. On success the account is stored and in use. The error is worded for clients.
    pub async fn finish(self) -> Result<(), String> {
        let Self { work, stop, accounts, permit } = self;
        let stopping = accounts.stopping();
        let stopped = async {
            tokio::select! {
                Ok(reason) = stop => reason,
                () = stopping.cancelled() => LoginError::NotCompleted,
            }
        };
        match work {
            LoginWork::Browser(browser) => browser.finish(&accounts, &permit, stopped).await,
            LoginWork::Device { issuer, code } => {
                let result = tokio::select! {
                    biased;
                    reason = stopped => Err(reason),
                    result = timeout(DEVICE_TIME, poll_device(&issuer, &code, &accounts, &permit)) => {
                        result.unwrap_or(Err(LoginError::TimedOut))
                    }
                };
                result.map_err(|error| error.to_string())
            }
        }
    }
}

impl BrowserLogin {
    async fn prepare(settings: &AccountSettings) -> Result<Self, AccountError> {
        let issuer = settings.issuer.clone();
        let port = CallbackPort::bind_shared(settings.callback_port).await.map_err(AccountError::Callback)?;
        let number = port.number().map_err(AccountError::Callback)?;
        let redirect = format!("http://localhost:{number}{CALLBACK_PATH}");
        // The page can be limited to one workspace. More are checked at the end.
        let workspace = match settings.forced_workspaces.as_slice() {
            [only] => Some(only.as_str()),
            _ => None,
        };
        let AuthorizationRequest { url, state, verifier } =
            issuer.authorize(&redirect, workspace).map_err(AccountError::Issuer)?;
        let listener = port.listen(CALLBACK_PATH.to_owned(), state, StateCheck::Always);
        Ok(Self { listener, issuer, auth_url: url, verifier, redirect })
    }

    async fn finish(
        mut self,
        accounts: &Accounts,
        permit: &LoginPermit,
        stopped: impl Future<Output = LoginError>,
    ) -> Result<(), String> {
        let (result, visit) = tokio::select! {
            biased;
            reason = stopped => (Err(reason), None),
            waited = timeout(BROWSER_TIME, self.wait(accounts, permit)) => match waited {
                Ok((result, visit)) => (result, Some(visit)),
                Err(_) => (Err(LoginError::TimedOut), None),
            },
        };
        if let Some(visit) = visit {
            // The listener in `self` owns the connection and must live until the page is sent.
            visit.show(result_page(&result)).await;
        }
        result.map_err(|error| match error {
            LoginError::TimedOut => error.to_string(),
            error => format!("Login server error: {error}"),
        })
    }

    async fn wait(
        &mut self,
        accounts: &Accounts,
        permit: &LoginPermit,
    ) -> (Result<(), LoginError>, CallbackVisit) {
        let visit = self.listener.next_visit().await;
        let result = match &visit.outcome {
            CallbackOutcome::Code { code, .. } => self.exchange(code, accounts, permit).await,
            CallbackOutcome::Error { error, description } => {
                let reason = description.as_ref().or(error.as_ref()).cloned();
                Err(LoginError::Refused(reason.unwrap_or_default()))
            }
            CallbackOutcome::MissingCode => Err(LoginError::Refused("the issuer sent no code".to_owned())),
            CallbackOutcome::Cancelled => Err(LoginError::Cancelled),
        };
        (result, visit)
    }

    async fn exchange(
        &self,
        code: &Secret,
        accounts: &Accounts,
        permit: &LoginPermit,
    ) -> Result<(), LoginError> {
        let tokens = self.issuer.exchange(code, &self.verifier, &self.redirect).await?;
        accounts.store_login(tokens, permit).await
    }
}

fn result_page(result: &Result<(), LoginError>) -> CallbackPage {
    match result {
        Ok(()) => CallbackPage::signed_in(),
        Err(LoginError::Cancelled) => CallbackPage::cancelled(),
        Err(error) => CallbackPage::failed(&error.to_string()),
    }
}

/// Polls the issuer at the interval that it asked for until the user has entered the code.
async fn poll_device(
    issuer: &OauthIssuer,
    code: &DeviceCode,
    accounts: &Accounts,
    permit: &LoginPermit,
) -> Result<(), LoginError> {
    let pause = Duration::from_secs(code.interval).max(Duration::from_millis(50));
    let authorization = loop {
        if let Some(authorization) = issuer.poll_device(code).await? {
            break authorization;
        }
        sleep(pause).await;
    };
    accounts.store_login(issuer.exchange_device(&authorization).await?, permit).await
}

/// Rejects tokens of a workspace other than the one that the configuration requires.
pub(crate) fn check_workspace(tokens: &IssuedTokens, expected: &[String]) -> Result<(), LoginError> {
    let is_expected = tokens.claims().account_id.is_some_and(|id| expected.contains(&id));
    if expected.is_empty() || is_expected {
        return Ok(());
    }
    Err(LoginError::OtherWorkspace(expected.join(", ")))
}
