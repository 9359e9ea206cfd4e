//! Two servers that share a home: a refresh token is used once, and no file is ever torn.

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
async fn many_servers_that_are_refused_at_once_exchange_one_refresh_token() {
    let place = Place::new().await;
    let refused = place.sign_in();
    let servers: Vec<_> = (0..8).map(|_| place.accounts()).collect();
    // Twice each: two turns of one server are no different from two servers.
    let all = servers.iter().chain(&servers).map(|accounts| refresh(accounts, &refused));

    let fresh = join_all(all).await;

    assert_eq!(place.issuer.refreshes(), 1);
    let expected = Some(place.stored_credentials());
    assert_ne!(expected.as_ref(), Some(&refused));
    assert!(fresh.iter().all(|credentials| *credentials == expected), "{fresh:?}");
    assert_eq!(place.stored()["tokens"]["refresh_token"], "refresh-2");
}

#[tokio::test]
async fn a_turn_that_is_interrupted_does_not_lose_the_new_tokens() {
    let place = Place::new().await;
    let refused = place.sign_in();
    let accounts = place.accounts();

    let mut interrupted = Box::pin(accounts.refresh(&refused));
    assert!((&mut interrupted).now_or_never().is_none());
    drop(interrupted);

    // The exchange goes on by itself; whoever comes next waits for it and uses what it got.
    let fresh = refresh(&accounts, &refused).await;
    assert_eq!(fresh, Some(place.stored_credentials()));
    accounts.stop().await;
    assert_eq!(place.issuer.refreshes(), 1);
}

#[tokio::test]
async fn signing_in_and_out_and_refreshing_at_once_leaves_a_whole_file() {
    let place = Place::new().await;
    let refused = place.sign_in();
    let (one, other) = (place.accounts(), place.accounts());
    for round in 0..20 {
        let key = format!("sk-{round}");
        let (signed_in, refreshed, read) =
            tokio::join!(one.sign_in_with_key(key.clone().into()), other.refresh(&refused), other.current(),);
        signed_in.unwrap();
        refreshed.unwrap();
        read.expect("somebody is signed in all the time");
        let now = place.accounts().current().await.unwrap();
        // Whoever was last, the file is one of the two, and a key that came last stays.
        assert!(now.mode == AuthMode::Chatgpt || now.token.reveal() == key, "{now:?}");
        place.sign_in();
    }
    assert!(one.sign_out().await.unwrap());
    assert!(!other.sign_out().await.unwrap());
    assert!(!place.file().exists());
    assert_eq!(other.current().await, None);
}

#[tokio::test]
async fn a_sign_out_elsewhere_counts_at_once() {
    let place = Place::new().await;
    let refused = place.sign_in();
    let (one, other) = (place.accounts(), place.accounts());
    assert!(other.credentials().await.unwrap().is_some());
    one.sign_out().await.unwrap();
    assert_eq!(other.credentials().await.unwrap(), None);
    assert_eq!(refresh(&other, &refused).await, None);
    assert_eq!(place.issuer.refreshes(), 0);
}

#[tokio::test]
async fn a_spent_refresh_token_asks_for_a_new_sign_in_and_is_not_repeated() {
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
async fn an_issuer_in_trouble_keeps_the_sign_in() {
    let place = Place::new().await;
    let refused = place.sign_in();
    place.issuer.refuse(Some((503, json!({ "error": "try later" }))));
    let error = place.accounts().refresh(&refused).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "the sign-in could not be renewed: the renewal of the sign-in failed with status 503: try later"
    );
    // A forced refresh that fails is no reason not to say who is signed in.
    let read = place.accounts().read(TokenUpdate::Forced).await.unwrap();
    assert!(matches!(read.account, Some(Account::Chatgpt { .. })), "{read:?}");
    place.issuer.refuse(None);
    place.accounts().read(TokenUpdate::Forced).await.unwrap();
    assert_eq!(place.issuer.refreshes(), 1);
}

#[tokio::test]
async fn tokens_that_are_old_or_expired_are_exchanged_before_they_are_used() {
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
