//! Requests that an overloaded server refuses are repeated.

use std::time::Duration;

use codicil_client::{Client, RetryOptions, protocol::*};
use serde_json::json;
use tokio::time::Instant;

use crate::fake::connected;

const OVERLOADED: &str = "Server overloaded; retry later.";

#[tokio::test(start_paused = true)]
async fn a_refused_request_is_repeated_with_growing_delays() {
    let (mut fake, client) = connected(Client::builder()).await;
    let call = tokio::spawn(client.call::<ModelList>(Default::default()));
    let mut last = Instant::now();
    let mut delays = Vec::new();
    for id in 1..=5 {
        let request = fake.expect("model/list").await;
        assert_eq!(request["id"], id, "each attempt has its own id");
        delays.push(last.elapsed());
        last = Instant::now();
        match id {
            5 => fake.reply(&request, json!({ "data": [] })).await,
            _ => fake.refuse(&request, -32001, OVERLOADED).await,
        }
    }
    call.await.unwrap().unwrap();
    for (number, delay) in delays.iter().skip(1).enumerate() {
        let full = Duration::from_millis(100 << number);
        // Timers have a resolution of one millisecond.
        assert!(*delay >= full / 2 && *delay <= full + Duration::from_millis(2), "{number}: {delay:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_number_of_retries_is_limited() {
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
