//! Where credentials are stored, and the errors of an unusable file.

use std::{fs, os::unix::fs::PermissionsExt};

use codicil_accounts::TokenUpdate;
use codicil_model::{AccountAuth, EnvironmentSource};
use codicil_protocol::{Account, AuthMode};
use serde_json::json;

use crate::support::Place;

#[tokio::test]
async fn a_key_is_stored_in_a_private_file_that_is_replaced_atomically() {
    let place = Place::new().await;
    place.write("{}");
    fs::set_permissions(place.file(), fs::Permissions::from_mode(0o644)).unwrap();
    let accounts = place.accounts();
    accounts.sign_in_with_key("sk-1".to_owned().into()).await.unwrap();
    assert_eq!(place.stored(), json!({ "auth_mode": "apikey", "OPENAI_API_KEY": "sk-1" }));
    assert_eq!(fs::metadata(place.file()).unwrap().permissions().mode() & 0o777, 0o600);
    let folder = place.file().parent().unwrap().to_owned();
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".auth.lock", "auth.json", "config.toml"]);
}

#[tokio::test]
async fn a_symbolic_link_is_kept() {
    let place = Place::new().await;
    let elsewhere = place.file().with_file_name("elsewhere.json");
    fs::write(&elsewhere, "{}").unwrap();
    std::os::unix::fs::symlink(&elsewhere, place.file()).unwrap();
    place.accounts().sign_in_with_key("sk-1".to_owned().into()).await.unwrap();
    assert!(fs::symlink_metadata(place.file()).unwrap().is_symlink());
    assert!(fs::read_to_string(elsewhere).unwrap().contains("sk-1"));
}

#[tokio::test]
async fn a_broken_file_counts_as_signed_out_and_is_not_repeated() {
    let place = Place::new().await;
    for text in ["", "canary", r#"{"tokens": "canary"}"#, r#"{"OPENAI_API_KEY": {"canary": 1}}"#, "[]"] {
        place.write(text);
        assert_eq!(place.accounts().current().await, None, "{text}");
        let error = format!("{:?}", place.accounts().rate_limits().await.unwrap_err());
        assert!(!error.contains("canary"), "{error}");
    }
    place.accounts().sign_in_with_key("sk-1".to_owned().into()).await.unwrap();
    assert!(place.accounts().current().await.is_some(), "signing in repairs it");
}

#[tokio::test]
async fn ephemeral_credentials_are_not_stored() {
    let place = Place::with("cli_auth_credentials_store = \"ephemeral\"").await;
    let accounts = place.accounts();
    accounts.sign_in_with_key("sk-1".to_owned().into()).await.unwrap();
    assert_eq!(accounts.current().await.unwrap().mode, AuthMode::Apikey);
    assert!(!place.file().exists());
    assert_eq!(place.accounts().current().await, None);
    assert!(accounts.sign_out().await.unwrap());
    assert_eq!(accounts.current().await, None);
}

#[tokio::test]
async fn a_key_in_the_environment_takes_precedence() {
    let place = Place::new().await;
    place.sign_in();
    let accounts = place.accounts_in(EnvironmentSource::new(|name| {
        (name == "CODEX_API_KEY").then(|| " sk-env\n".to_owned())
    }));
    let read = accounts.read(TokenUpdate::WhenNeeded).await.unwrap();
    assert_eq!(read.account, Some(Account::ApiKey));
    let credentials = accounts.credentials().await.unwrap().unwrap();
    assert_eq!(credentials.token.reveal(), "sk-env");
    assert_eq!(accounts.refresh(&credentials).await.unwrap(), None, "a key cannot be renewed");
}

#[tokio::test]
async fn debug_output_hides_tokens() {
    let place = Place::new().await;
    place.sign_in();
    let signed_in = place.accounts().current().await.unwrap();
    let shown = format!("{signed_in:?} {:?}", signed_in.credentials());
    assert!(!shown.contains(signed_in.token.reveal()), "{shown}");
}
