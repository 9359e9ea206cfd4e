//! Servers that share a home: a refresh token is used once, and no file is ever torn.

use codicil_accounts::{Accounts, TokenUpdate};
use codicil_model::{AccountAuth, ModelError, ProviderCredentials};
use codicil_protocol::{Account, AuthMode};
use futures_util::{FutureExt, future::join_all};
use serde_json::json;

use crate::support::Place;

async fn refresh(accounts: &Accounts, refused: &ProviderCredentials) -> Option<ProviderCredentials> {
    accounts.refresh(refused).await.unwrap()
}

#[tokio::test]
async fn concurrent_rejections_use_one_refresh_token() {
    let place = Place::new().await;
    let refused = place.sign_in();
    let servers: Vec<_> = (0..8).map(|_| place.accounts()).collect();
    // Twice each, since two turns of one server must share the token, too.
    let all = servers.iter().chain(&servers).map(|accounts| refresh(accounts, &refused));

    let fresh = join_all(all).await;

    assert_eq!(place.issuer.refreshes(), 1);
    let expected = Some(place.stored_credentials());
    assert_ne!(expected.as_ref(), Some(&refused));
    assert!(fresh.iter().all(|credentials| *credentials == expected), "{fresh:?}");
    assert_eq!(place.stored()["tokens"]["refresh_token"], "refresh-2");
}

#[tokio::test]
async fn an_interrupted_turn_does_not_lose_the_new_tokens() {
    let place = Place::new().await;
    let refused = place.sign_in();
    let accounts = place.accounts();

    let mut interrupted = Box::pin(accounts.refresh(&refused));
    assert!((&mut interrupted).now_or_never().is_none());
    drop(interrupted);

    // The refresh continues in the background; the next request waits for it and uses its tokens.
    let fresh = refresh(&accounts, &refused).await;
    assert_eq!(fresh, Some(place.stored_credentials()));
    accounts.stop().await;
    assert_eq!(place.issuer.refreshes(), 1);
}

#[tokio::test]
async fn concurrent_login_logout_and_refresh_leave_a_valid_file() {
    let place = Place::new().await;
    let refused = place.sign_in();
    let one = place.accounts();
    let other = place.accounts();
    for round in 0..20 {
        let key = format!("sk-{round}");
        let (signed_in, refreshed, read) =
            tokio::join!(one.sign_in_with_key(key.clone().into()), other.refresh(&refused), other.current(),);
        signed_in.unwrap();
        refreshed.unwrap();
        read.expect("an account is signed in all the time");
        let now = place.accounts().current().await.unwrap();
        // The file holds the key or the tokens, whichever was written last.
        assert!(now.mode == AuthMode::Chatgpt || now.token.reveal() == key, "{now:?}");
        place.sign_in();
    }
    assert!(one.sign_out().await.unwrap());
    assert!(!other.sign_out().await.unwrap());
    assert!(!place.file().exists());
    assert_eq!(other.current().await, None);
}

#[tokio::test]
async fn a_logout_of_another_process_takes_effect_at_once() {
    let place = Place::new().await;
    let refused = place.sign_in();
    let one = place.accounts();
    let other = place.accounts();
    assert!(other.credentials().await.unwrap().is_some());
    one.sign_out().await.unwrap();
    assert_eq!(other.credentials().await.unwrap(), None);
    assert_eq!(refresh(&other, &refused).await, None);
    assert_eq!(place.issuer.refreshes(), 0);
}

#[tokio::test]
async fn a_spent_refresh_token_requires_a_login_and_is_not_repeated() {
    let place = Place::new().await;
    let refused = place.sign_in();
    place.accounts().refresh(&refused).await.unwrap();
    let mut stale = place.stored();
    stale["tokens"]["refresh_token"] = json!("refresh-1");
    place.write(&stale.to_string());
    let refused = place.stored_credentials();

    let error = place.accounts().refresh(&refused).await.unwrap_err();

    let ModelError::Unauthorized(text) = error else { panic!("{error}") };
    assert_eq!(text, "the sign-in is no longer valid: *** was used; sign in again");
    assert_eq!(place.stored(), stale);
}

#[tokio::test]
async fn a_failing_issuer_does_not_end_the_login() {
    let place = Place::new().await;
    let refused = place.sign_in();
    place.issuer.refuse(Some((503, json!({ "error": "try later" }))));
    let error = place.accounts().refresh(&refused).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "the sign-in could not be renewed: the renewal of the sign-in failed with status 503: try later"
    );
    // The account is returned although the forced refresh fails.
    let read = place.accounts().read(TokenUpdate::Forced).await.unwrap();
    assert!(matches!(read.account, Some(Account::Chatgpt { .. })), "{read:?}");
    place.issuer.refuse(None);
    place.accounts().read(TokenUpdate::Forced).await.unwrap();
    assert_eq!(place.issuer.refreshes(), 1);
}

#[tokio::test]
async fn old_tokens_are_refreshed_before_use() {
    let place = Place::new().await;
    place.sign_in();
    let mut old = place.stored();
    old["last_refresh"] = json!("2020-01-01T00:00:00Z");
    place.write(&old.to_string());

    let used = place.accounts().credentials().await.unwrap();

    assert_eq!(place.issuer.refreshes(), 1);
    assert_eq!(used, Some(place.stored_credentials()));
    assert!(place.stored()["last_refresh"].as_str().unwrap() > "2020-01-02");

    place.issuer.refuse(Some((500, json!({}))));
    let mut old = place.stored();
    old["last_refresh"] = json!("2020-01-01T00:00:00Z");
    place.write(&old.to_string());
    let used = place.accounts().credentials().await.unwrap();
    assert_eq!(used, Some(place.stored_credentials()), "an issuer that is down does not stop a turn");
}
