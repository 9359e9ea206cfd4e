//! [`Accounts`]: the one handle through which everybody learns who is signed in, and changes it.

use std::{sync::Arc, time::Duration};

use codicil_config::{ConfigStore, CredentialsStore};
use codicil_model::EnvironmentSource;
use codicil_protocol::{CancelLoginAccountStatus, ForcedLoginMethod, GetAccountResponse, Secret};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

use crate::{
    credentials::{IssuedTokens, StoredCredentials},
    error::AccountError,
    external::{ExternalLogin, ExternalTokens, TokenSource},
    issuer::OauthIssuer,
    login::{LoginAttempt, LoginError, LoginPermit, LoginSlot, check_workspace},
    settings::AccountSettings,
    signed_in::SignedIn,
    storage::{CredentialStorage, MemoryStorage, StorageError, StorageLock},
};

/// The variable with a key that counts before what is stored.
const KEY_VARIABLE: &str = "CODEX_API_KEY";

/// How long a sign-out tries to tell the issuer.
const REVOKE_TIME: Duration = Duration::from_secs(8);

/// Who is signed in. Clones are the same accounts; making it touches no disk.
#[derive(Clone)]
pub struct Accounts(pub(crate) Arc<AccountsInner>);

pub(crate) struct AccountsInner {
    config: ConfigStore,
    environment: EnvironmentSource,
    external: Mutex<Option<ExternalLogin>>,
    memory: MemoryStorage,
    /// What changes or reads the account passes one after the other, in order of arrival: a client that
    /// signs in and asks who is signed in, in one write, is told the new account.
    line: Semaphore,
    /// Tokens are asked of their client by one request at a time; the others use what it gets.
    pub(crate) asking: Semaphore,
    slot: LoginSlot,
    /// Owns sign-ins and exchanges of tokens.
    pub(crate) tasks: TaskTracker,
    stopping: CancellationToken,
}

/// Whether to exchange tokens that are still good before an account is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenUpdate {
    Forced,
    WhenNeeded,
}

impl Accounts {
    pub fn new(config: ConfigStore, environment: EnvironmentSource) -> Self {
        Self(Arc::new(AccountsInner {
            config,
            environment,
            external: Mutex::default(),
            memory: MemoryStorage::default(),
            line: Semaphore::new(1),
            asking: Semaphore::new(1),
            slot: LoginSlot::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
        }))
    }

    /// The account that requests would use now. Credentials that cannot be read are reported in the log
    /// and count as none.
    pub async fn current(&self) -> Option<SignedIn> {
        if let Some(external) = self.external() {
            return Some(SignedIn::with_given(&external.tokens));
        }
        if let Some(key) = self.0.environment.get(KEY_VARIABLE) {
            return Some(SignedIn::with_key(key.trim().to_owned().into()));
        }
        let stored = self.stored().await.unwrap_or_else(|error| {
            tracing::warn!("nobody counts as signed in: {error}");
            None
        });
        stored.as_ref().and_then(SignedIn::with_stored)
    }

    /// `account/read`.
    pub async fn read(&self, update: TokenUpdate) -> Result<GetAccountResponse, AccountError> {
        let _line = self.stand_in_line().await;
        if update == TokenUpdate::Forced
            && let Err(error) = self.renew_now().await
        {
            tracing::warn!("{error}");
        }
        let requires_openai_auth = self.settings_or_default().await.requires_openai_auth;
        let account = match self.current().await.filter(|_| requires_openai_auth) {
            Some(signed_in) => Some(signed_in.account().ok_or(AccountError::NoEmail)?),
            None => None,
        };
        Ok(GetAccountResponse { account, requires_openai_auth })
    }

    /// Signs in with a key, which is stored and not tried out.
    pub async fn sign_in_with_key(&self, key: Secret) -> Result<(), AccountError> {
        let _line = self.stand_in_line().await;
        let settings = self.settings().await?;
        if self.external().is_some() {
            return Err(AccountError::ExternalActive);
        }
        if settings.forced_method == Some(ForcedLoginMethod::Chatgpt) {
            return Err(AccountError::KeysDisabled);
        }
        self.0.slot.clear(LoginError::NotCompleted).await;
        self.save(&settings, StoredCredentials::of_key(key)).await.map_err(AccountError::Save)
    }

    /// Signs in with tokens of a client, who will be asked for others when they are refused.
    pub async fn sign_in_with_tokens(
        &self,
        tokens: ExternalTokens,
        source: Arc<dyn TokenSource>,
    ) -> Result<(), AccountError> {
        let _line = self.stand_in_line().await;
        let settings = self.settings().await?;
        if settings.forced_method == Some(ForcedLoginMethod::Api) {
            return Err(AccountError::ExternalDisabled);
        }
        self.0.slot.clear(LoginError::NotCompleted).await;
        self.use_tokens(&settings, tokens, source)
    }

    pub(crate) fn use_tokens(
        &self,
        settings: &AccountSettings,
        tokens: ExternalTokens,
        source: Arc<dyn TokenSource>,
    ) -> Result<(), AccountError> {
        // Without an account of its own the token's counts, which has to be a token then.
        let tokens = if tokens.account_id.is_empty() { tokens.checked()? } else { tokens };
        if let Some(expected) = settings.forced_workspace.as_ref()
            && tokens.account_id != *expected
        {
            let (expected, given) = (expected.clone(), tokens.account_id);
            return Err(AccountError::OtherWorkspace { expected, given });
        }
        let tokens = tokens.checked()?;
        *self.lock_external() = Some(ExternalLogin { tokens, source });
        Ok(())
    }

    /// Begins a sign-in in a browser on this machine.
    pub async fn sign_in_with_browser(&self) -> Result<LoginAttempt, AccountError> {
        let _line = self.stand_in_line().await;
        let settings = self.settings().await?;
        self.check_chatgpt_login(&settings)?;
        self.0.slot.clear(LoginError::Cancelled).await;
        LoginAttempt::in_browser(self.clone(), &settings, self.0.slot.acquire()).await
    }

    /// Begins a sign-in by typing a code.
    pub async fn sign_in_with_code(&self) -> Result<LoginAttempt, AccountError> {
        let settings = self.settings().await?;
        self.check_chatgpt_login(&settings)?;
        let code = settings.issuer.device_code().await.map_err(AccountError::DeviceCode)?;
        let _line = self.stand_in_line().await;
        self.check_chatgpt_login(&settings)?;
        self.0.slot.clear(LoginError::Cancelled).await;
        Ok(LoginAttempt::with_code(self.clone(), settings.issuer, code, self.0.slot.acquire()))
    }

    fn check_chatgpt_login(&self, settings: &AccountSettings) -> Result<(), AccountError> {
        match settings.forced_method {
            _ if self.external().is_some() => Err(AccountError::ExternalActive),
            Some(ForcedLoginMethod::Api) => Err(AccountError::ChatgptDisabled),
            _ => Ok(()),
        }
    }

    /// Waits for a sign-in on behalf of somebody who does not, and says how it ended.
    pub fn follow<R>(&self, login: LoginAttempt, ended: impl FnOnce(Result<(), String>) -> R + Send + 'static)
    where
        R: Future<Output = ()> + Send + 'static,
    {
        self.0.tasks.spawn(async move { ended(login.finish().await).await });
    }

    /// Gives up the sign-in with this id.
    pub fn cancel_login(&self, id: &str) -> Result<CancelLoginAccountStatus, AccountError> {
        let id = Uuid::parse_str(id).map_err(|_| AccountError::LoginId(id.to_owned()))?;
        Ok(match self.0.slot.cancel(id) {
            true => CancelLoginAccountStatus::Canceled,
            false => CancelLoginAccountStatus::NotFound,
        })
    }

    /// Forgets every credential. False when there was none.
    pub async fn sign_out(&self) -> Result<bool, AccountError> {
        let _line = self.stand_in_line().await;
        self.0.slot.clear(LoginError::NotCompleted).await;
        let given = self.lock_external().take().is_some();
        let settings = self.settings_or_default().await;
        let removed = async {
            let _guard = self.lock(settings.store).await?;
            // What cannot be read is removed all the same.
            let stored = self.at_storage(settings.store, CredentialStorage::load).await.unwrap_or_default();
            let removed = self.at_storage(settings.store, CredentialStorage::remove).await?;
            Ok((removed, stored.and_then(|stored| stored.tokens)))
        };
        let (removed, tokens) = removed.await.map_err(AccountError::SignOut)?;
        if let Some(tokens) = tokens.filter(|_| removed) {
            // Nobody waits for the issuer: the person is signed out here in any case.
            self.0.tasks.spawn(revoke(settings.issuer, tokens));
        }
        Ok(removed || given)
    }

    /// Stores what a person's sign-in brought, unless it has been stopped meanwhile.
    pub(crate) async fn store_login(
        &self,
        tokens: IssuedTokens,
        permit: &LoginPermit,
    ) -> Result<(), LoginError> {
        let settings = self.settings_or_default().await;
        check_workspace(&tokens, settings.forced_workspace.as_deref())?;
        if !permit.commit() {
            return Err(LoginError::NotCompleted);
        }
        Ok(self.save(&settings, StoredCredentials::of_tokens(tokens)).await?)
    }

    /// Where the services of a ChatGPT account are, without a slash at its end.
    pub async fn backend_url(&self) -> String {
        self.settings_or_default().await.backend
    }

    /// Ends sign-ins that wait, and waits for exchanges of tokens that are under way.
    pub async fn stop(&self) {
        self.0.stopping.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    pub(crate) fn stopping(&self) -> CancellationToken {
        self.0.stopping.clone()
    }

    pub(crate) fn external(&self) -> Option<ExternalLogin> {
        self.lock_external().clone()
    }

    pub(crate) async fn stored(&self) -> Result<Option<StoredCredentials>, StorageError> {
        let this = self.clone();
        blocking(move || {
            let settings = AccountSettings::load_or_default(&this.0.config, &this.0.environment);
            CredentialStorage::new(settings.store, this.0.config.home(), &this.0.memory).load()
        })
        .await
    }

    pub(crate) async fn settings(&self) -> Result<AccountSettings, AccountError> {
        let this = self.clone();
        Ok(blocking(move || AccountSettings::load(&this.0.config, &this.0.environment)).await?)
    }

    pub(crate) async fn settings_or_default(&self) -> AccountSettings {
        let this = self.clone();
        blocking(move || AccountSettings::load_or_default(&this.0.config, &this.0.environment)).await
    }

    /// Waits until nobody else changes the credentials. Comes after the line, never before it.
    pub(crate) async fn lock(&self, store: CredentialsStore) -> Result<StorageLock, StorageError> {
        CredentialStorage::lock(store, self.0.config.home(), &self.0.memory).await
    }

    /// Does something with the place of the credentials, where waiting is allowed.
    pub(crate) async fn at_storage<T: Send + 'static>(
        &self,
        store: CredentialsStore,
        work: impl FnOnce(&CredentialStorage) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        let (home, memory) = (self.0.config.home().clone(), self.0.memory.clone());
        blocking(move || work(&CredentialStorage::new(store, &home, &memory))).await
    }

    async fn save(&self, settings: &AccountSettings, stored: StoredCredentials) -> Result<(), StorageError> {
        let _guard = self.lock(settings.store).await?;
        self.at_storage(settings.store, move |storage| storage.save(&stored)).await
    }

    async fn stand_in_line(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.0.line.acquire().await.ok()
    }

    fn lock_external(&self) -> MutexGuard<'_, Option<ExternalLogin>> {
        self.0.external.lock()
    }
}

/// Tells the issuer that tokens are no longer wanted. Bounded, and no more than an attempt.
async fn revoke(issuer: OauthIssuer, tokens: IssuedTokens) {
    match tokio::time::timeout(REVOKE_TIME, issuer.revoke(&tokens)).await {
        Ok(Ok(())) => tracing::debug!("the issuer was told to revoke the tokens"),
        Ok(Err(error)) => tracing::info!("the issuer did not revoke the tokens: {error}"),
        Err(_) => tracing::info!("the issuer did not revoke the tokens in time"),
    }
}

/// Runs what reads or writes files where waiting is allowed. A panic there goes on here.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
