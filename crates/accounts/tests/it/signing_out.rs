//! Logout: credentials are removed at once and revoked at the issuer.

use serde_json::json;

use crate::support::Place;

#[tokio::test]
async fn tokens_are_revoked_at_the_published_endpoint() {
    let place = Place::new().await;
    place.issuer.announce_revocation();
    place.sign_in();
    let accounts = place.accounts();
    assert!(accounts.sign_out().await.unwrap());
    assert!(!place.file().exists());
    accounts.stop().await;
    assert!(!place.issuer.takes("refresh-1"));
    let (_, form) = place.issuer.requests().into_iter().find(|(head, _)| head == "POST /revoke").unwrap();
    assert_eq!(form, "token=refresh-1&token_type_hint=refresh_token&client_id=codicil-test");
}

#[tokio::test]
async fn tokens_are_revoked_at_the_default_endpoint() {
    let place = Place::new().await;
    place.sign_in();
    let accounts = place.accounts();
    assert!(accounts.sign_out().await.unwrap());
    accounts.stop().await;
    assert!(!place.issuer.takes("refresh-1"));
    // The second logout has nothing to revoke.
    assert!(!accounts.sign_out().await.unwrap());
}

#[tokio::test]
async fn logout_succeeds_without_the_issuer() {
    let place = Place::new().await;
    place.sign_in();
    let config = place.file().with_file_name("config.toml");
    std::fs::write(config, "[codicil.login]\nissuer = \"http://127.0.0.1:9\"\n").unwrap();
    let accounts = place.accounts();
    assert!(accounts.sign_out().await.unwrap());
    assert!(!place.file().exists());
    accounts.stop().await;
}

#[tokio::test]
async fn a_key_is_not_sent_to_the_issuer() {
    let place = Place::new().await;
    place.write(&json!({ "auth_mode": "apikey", "OPENAI_API_KEY": "sk-1" }).to_string());
    let accounts = place.accounts();
    assert!(accounts.sign_out().await.unwrap());
    accounts.stop().await;
    assert!(place.issuer.requests().is_empty());
}
