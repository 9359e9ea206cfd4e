//! A home with an issuer, and any number of servers in it.

use std::{fs, path::PathBuf};

use codicil_accounts::Accounts;
use codicil_config::{ConfigStore, Home, Sources, SystemFiles};
use codicil_model::{Credentials, Environment, Secret};
use codicil_testkit::Issuer;
use serde_json::Value;
use tempfile::TempDir;

pub struct Place {
    pub issuer: Issuer,
    folder: TempDir,
}

impl Place {
    pub async fn new() -> Self {
        Self::with("").await
    }

    /// With more keys in the configuration.
    pub async fn with(keys: &str) -> Self {
        let issuer = Issuer::start().await;
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.toml"), format!("{keys}\n{}", issuer.config())).unwrap();
        Self { issuer, folder }
    }

    /// What one more process would have.
    pub fn accounts(&self) -> Accounts {
        self.accounts_in(Environment::new(|_| None))
    }

    pub fn accounts_in(&self, environment: Environment) -> Accounts {
        let system = SystemFiles { config: Vec::new(), requirements: Vec::new() };
        let sources = Sources { system, ..Sources::of(Home::new(self.folder.path()).unwrap()) };
        Accounts::new(ConfigStore::new(sources), environment)
    }

    /// Signs somebody in, as an earlier process would have.
    pub fn sign_in(&self) -> Credentials {
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

    pub fn stored_credentials(&self) -> Credentials {
        let token = self.stored()["tokens"]["access_token"].as_str().unwrap().to_owned();
        Credentials { token: Secret::new(token), account_id: Some("acc-1".to_owned()) }
    }
}
