//! A server that is overloaded is asked again.

use std::time::Duration;

use codicil_client::{Client, RetryOptions, protocol::*};
use serde_json::json;
use tokio::time::Instant;

use crate::fake::connected;

const OVERLOADED: &str = "Server overloaded; retry later.";

#[tokio::test(start_paused = true)]
async fn a_refused_request_is_repeated_with_growing_pauses() {
    let (mut fake, client) = connected(Client::builder()).await;
    let call = tokio::spawn(client.call::<ModelList>(Default::default()));
    let (mut last, mut pauses) = (Instant::now(), Vec::new());
    for id in 1..=5 {
        let request = fake.expect("model/list").await;
        assert_eq!(request["id"], id, "each try has an id of its own");
        pauses.push(last.elapsed());
        last = Instant::now();
        match id {
            5 => fake.reply(&request, json!({ "data": [] })).await,
            _ => fake.refuse(&request, -32001, OVERLOADED).await,
        }
    }
    call.await.unwrap().unwrap();
    for (number, pause) in pauses.iter().skip(1).enumerate() {
        let full = Duration::from_millis(100 << number);
        // The clock counts in milliseconds.
        assert!(*pause >= full / 2 && *pause <= full + Duration::from_millis(2), "{number}: {pause:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_given_up_after_a_while() {
    let retry = RetryOptions { max_retries: 2, ..RetryOptions::default() };
    let (mut fake, client) = connected(Client::builder().retry(retry)).await;
    let call = tokio::spawn(client.call::<ModelList>(Default::default()));
    for _ in 0..3 {
        let request = fake.expect("model/list").await;
        fake.refuse(&request, -32001, OVERLOADED).await;
    }
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.response_error().unwrap().message, OVERLOADED);
}

#[tokio::test]
async fn other_errors_are_not_repeated() {
    let (mut fake, client) = connected(Client::builder()).await;
    let call = tokio::spawn(client.call::<ModelList>(Default::default()));
    let request = fake.expect("model/list").await;
    fake.refuse(&request, -32603, "broken").await;
    assert_eq!(call.await.unwrap().unwrap_err().response_error().unwrap().code, -32603);
}
