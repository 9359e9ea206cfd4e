//! A home with an issuer and any number of processes.

use std::{fs, path::PathBuf};

use codicil_accounts::Accounts;
use codicil_config::{ConfigSources, ConfigStore, HomeDirectory, SystemFiles};
use codicil_model::{EnvironmentSource, ProviderCredentials};
use codicil_testkit::TestIssuer;
use serde_json::Value;
use tempfile::TempDir;

pub struct Place {
    pub issuer: TestIssuer,
    folder: TempDir,
}

impl Place {
    pub async fn new() -> Self {
        Self::with("").await
    }

    /// Adds keys to the configuration.
    pub async fn with(keys: &str) -> Self {
        let issuer = TestIssuer::start().await;
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.toml"), format!("{keys}\n{}", issuer.config())).unwrap();
        Self { issuer, folder }
    }

    /// Returns the accounts of another process.
    pub fn accounts(&self) -> Accounts {
        self.accounts_in(EnvironmentSource::new(|_| None))
    }

    pub fn accounts_in(&self, environment: EnvironmentSource) -> Accounts {
        let system = SystemFiles { config: Vec::new(), requirements: Vec::new() };
        let sources =
            ConfigSources { system, ..ConfigSources::of(HomeDirectory::new(self.folder.path()).unwrap()) };
        Accounts::new(ConfigStore::new(sources), environment)
    }

    /// Stores a login, as an earlier process would have.
    pub fn sign_in(&self) -> ProviderCredentials {
        self.write(&self.issuer.auth_json().to_string());
        self.stored_credentials()
    }

    pub fn write(&self, text: &str) {
        fs::write(self.file(), text).unwrap();
    }

    pub fn file(&self) -> PathBuf {
        self.folder.path().join("auth.json")
    }

    pub fn stored(&self) -> Value {
        serde_json::from_slice(&fs::read(self.file()).unwrap()).unwrap()
    }

    pub fn stored_credentials(&self) -> ProviderCredentials {
        let token = self.stored()["tokens"]["access_token"].as_str().unwrap().to_owned();
        ProviderCredentials { token: token.to_owned().into(), account_id: Some("acc-1".to_owned()) }
    }
}
