//! [`Accounts`]: the handle that reads and changes the signed-in account.

use std::{sync::Arc, time::Duration};

use codicil_config::{ConfigStore, CredentialsStore};
use codicil_model::EnvironmentSource;
use codicil_protocol::{CancelLoginAccountStatus, ForcedLoginMethod, GetAccountResponse, Secret};
use parking_lot::Mutex;
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

/// Environment variable with an API key that takes precedence over the stored credentials.
const KEY_VARIABLE: &str = "CODEX_API_KEY";

/// Time for revoking tokens at the issuer.
const REVOKE_TIME: Duration = Duration::from_secs(8);

/// The signed-in account. Clones share it. Creating it reads no files.
#[derive(Clone)]
pub struct Accounts(pub(crate) Arc<AccountsInner>);

pub(crate) struct AccountsInner {
    config: ConfigStore,
    environment: EnvironmentSource,
    external: Mutex<Option<ExternalLogin>>,
    memory: MemoryStorage,
    /// Serialises requests that read or change the account, in order of arrival: a client that sends a login and
    /// `account/read` in one write receives the new account.
    queue: Semaphore,
    /// Serialises token requests to the client. Requests that waited use the tokens of the first.
    pub(crate) token_requests: Semaphore,
    login_slot: LoginSlot,
    /// Owns pending logins and token refreshes.
    pub(crate) tasks: TaskTracker,
    stopping: CancellationToken,
}

/// Whether to refresh tokens that are still valid before an account is read.
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
            queue: Semaphore::new(1),
            token_requests: Semaphore::new(1),
            login_slot: LoginSlot::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
        }))
    }

    /// Returns the account that requests use now. Stored credentials that cannot be read are logged and count as
    /// signed out.
    pub async fn current(&self) -> Option<SignedIn> {
        if let Some(external) = self.external() {
            return Some(SignedIn::with_external(&external.tokens));
        }
        if let Some(key) = self.0.environment.get(KEY_VARIABLE) {
            return Some(SignedIn::with_key(key.trim().to_owned().into()));
        }
        let stored = self.stored().await.unwrap_or_else(|error| {
            tracing::warn!("cannot read stored credentials, treating as signed out: {error}");
            None
        });
        stored.as_ref().and_then(SignedIn::with_stored)
    }

    /// Serves `account/read`.
    pub async fn read(&self, update: TokenUpdate) -> Result<GetAccountResponse, AccountError> {
        let _permit = self.wait_in_queue().await;
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
        Ok(GetAccountResponse { account, requires_openai_auth, workspace_routing: None })
    }

    /// Signs in with an API key, which is stored without being checked.
    pub async fn sign_in_with_key(&self, key: Secret) -> Result<(), AccountError> {
        let _permit = self.wait_in_queue().await;
        let settings = self.settings().await?;
        if self.external().is_some() {
            return Err(AccountError::ExternalActive);
        }
        if settings.forced_method == Some(ForcedLoginMethod::Chatgpt) {
            return Err(AccountError::KeysDisabled);
        }
        self.0.login_slot.clear(LoginError::NotCompleted).await;
        self.save(&settings, StoredCredentials::of_key(key)).await.map_err(AccountError::Save)
    }

    /// Signs in with tokens of a client. `source` supplies new ones when they are rejected.
    pub async fn sign_in_with_tokens(
        &self,
        tokens: ExternalTokens,
        source: Arc<dyn TokenSource>,
    ) -> Result<(), AccountError> {
        let _permit = self.wait_in_queue().await;
        let settings = self.settings().await?;
        if settings.forced_method == Some(ForcedLoginMethod::Api) {
            return Err(AccountError::ExternalDisabled);
        }
        self.0.login_slot.clear(LoginError::NotCompleted).await;
        self.use_tokens(&settings, tokens, source)
    }

    pub(crate) fn use_tokens(
        &self,
        settings: &AccountSettings,
        tokens: ExternalTokens,
        source: Arc<dyn TokenSource>,
    ) -> Result<(), AccountError> {
        // A missing account id is read from the token, which must be valid in that case.
        let tokens = if tokens.account_id.is_empty() { tokens.checked()? } else { tokens };
        let expected = &settings.forced_workspaces;
        if !expected.is_empty() && !expected.contains(&tokens.account_id) {
            return Err(AccountError::OtherWorkspace {
                expected: expected.join(", "),
                given: tokens.account_id,
            });
        }
        let tokens = tokens.checked()?;
        *self.0.external.lock() = Some(ExternalLogin { tokens, source });
        Ok(())
    }

    /// Begins a login in a browser on this machine.
    pub async fn sign_in_with_browser(&self) -> Result<LoginAttempt, AccountError> {
        let _permit = self.wait_in_queue().await;
        let settings = self.settings().await?;
        self.check_chatgpt_login(&settings)?;
        self.0.login_slot.clear(LoginError::Cancelled).await;
        LoginAttempt::in_browser(self.clone(), &settings, self.0.login_slot.acquire()).await
    }

    /// Begins a login with a device code.
    pub async fn sign_in_with_code(&self) -> Result<LoginAttempt, AccountError> {
        let settings = self.settings().await?;
        self.check_chatgpt_login(&settings)?;
        let code = settings.issuer.device_code().await.map_err(AccountError::DeviceCode)?;
        let _permit = self.wait_in_queue().await;
        self.check_chatgpt_login(&settings)?;
        self.0.login_slot.clear(LoginError::Cancelled).await;
        Ok(LoginAttempt::with_code(self.clone(), settings.issuer, code, self.0.login_slot.acquire()))
    }

    fn check_chatgpt_login(&self, settings: &AccountSettings) -> Result<(), AccountError> {
        match settings.forced_method {
            _ if self.external().is_some() => Err(AccountError::ExternalActive),
            Some(ForcedLoginMethod::Api) => Err(AccountError::ChatgptDisabled),
            _ => Ok(()),
        }
    }

    /// Waits for a login in the background and calls `on_end` with its result.
    pub fn follow<R>(
        &self,
        login: LoginAttempt,
        on_end: impl FnOnce(Result<(), String>) -> R + Send + 'static,
    ) where
        R: Future<Output = ()> + Send + 'static,
    {
        self.0.tasks.spawn(async move { on_end(login.finish().await).await });
    }

    /// Cancels the login with this id.
    pub fn cancel_login(&self, id: &str) -> Result<CancelLoginAccountStatus, AccountError> {
        let id = Uuid::parse_str(id).map_err(|_| AccountError::LoginId(id.to_owned()))?;
        let is_cancelled = self.0.login_slot.cancel(id);
        Ok(if is_cancelled { CancelLoginAccountStatus::Canceled } else { CancelLoginAccountStatus::NotFound })
    }

    /// Removes all credentials. Returns false if there were none.
    pub async fn sign_out(&self) -> Result<bool, AccountError> {
        let _permit = self.wait_in_queue().await;
        self.0.login_slot.clear(LoginError::NotCompleted).await;
        let had_external = self.0.external.lock().take().is_some();
        let settings = self.settings_or_default().await;
        let removed = async {
            let _guard = self.lock(settings.store).await?;
            // Credentials that cannot be read are removed, too.
            let stored = self.with_storage(settings.store, CredentialStorage::load).await.unwrap_or_default();
            let removed = self.with_storage(settings.store, CredentialStorage::remove).await?;
            Ok((removed, stored.and_then(|stored| stored.tokens)))
        };
        let (removed, tokens) = removed.await.map_err(AccountError::SignOut)?;
        if let Some(tokens) = tokens.filter(|_| removed) {
            // In the background: the user is signed out here in any case.
            self.0.tasks.spawn(revoke(settings.issuer, tokens));
        }
        Ok(removed || had_external)
    }

    /// Stores the tokens of an interactive login, unless it has been stopped meanwhile.
    pub(crate) async fn store_login(
        &self,
        tokens: IssuedTokens,
        permit: &LoginPermit,
    ) -> Result<(), LoginError> {
        let settings = self.settings_or_default().await;
        check_workspace(&tokens, &settings.forced_workspaces)?;
        if !permit.commit() {
            return Err(LoginError::NotCompleted);
        }
        Ok(self.save(&settings, StoredCredentials::of_tokens(tokens)).await?)
    }

    /// Returns the URL of the ChatGPT backend, without a trailing slash.
    pub async fn backend_url(&self) -> String {
        self.settings_or_default().await.backend
    }

    /// Ends pending logins and waits for token refreshes to finish.
    pub async fn stop(&self) {
        self.0.stopping.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    pub(crate) fn stopping(&self) -> CancellationToken {
        self.0.stopping.clone()
    }

    pub(crate) fn external(&self) -> Option<ExternalLogin> {
        self.0.external.lock().clone()
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

    /// Waits for the right to change the credentials. Must be taken after `wait_in_queue`, never before.
    pub(crate) async fn lock(&self, store: CredentialsStore) -> Result<StorageLock, StorageError> {
        CredentialStorage::lock(store, self.0.config.home(), &self.0.memory).await
    }

    /// Runs `work` with the credential storage on a blocking thread.
    pub(crate) async fn with_storage<T: Send + 'static>(
        &self,
        store: CredentialsStore,
        work: impl FnOnce(&CredentialStorage) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        let home = self.0.config.home().clone();
        let memory = self.0.memory.clone();
        blocking(move || work(&CredentialStorage::new(store, &home, &memory))).await
    }

    async fn save(&self, settings: &AccountSettings, stored: StoredCredentials) -> Result<(), StorageError> {
        let _guard = self.lock(settings.store).await?;
        self.with_storage(settings.store, move |storage| storage.save(&stored)).await
    }

    async fn wait_in_queue(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.0.queue.acquire().await.ok()
    }
}

/// Revokes tokens at the issuer, within a time limit and without a retry.
async fn revoke(issuer: OauthIssuer, tokens: IssuedTokens) {
    match tokio::time::timeout(REVOKE_TIME, issuer.revoke(&tokens)).await {
        Ok(Ok(())) => tracing::debug!("revoked the tokens at the issuer"),
        Ok(Err(error)) => tracing::info!("the issuer did not revoke the tokens: {error}"),
        Err(_) => tracing::info!("the issuer did not revoke the tokens in time"),
    }
}

/// Runs work that reads or writes files on a blocking thread. A panic there is resumed here.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
