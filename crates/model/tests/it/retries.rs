//! The requests that the provider retries, and those that it leaves to the turn.

use std::time::Duration;

use codicil_model::{ModelError, ProviderConfig, WireApi};
use serde_json::json;

use crate::{
    server::{Answer, Server},
    support::{config, configured, error, events, hello, provider},
};

fn done() -> Answer {
    Answer::sse([json!({"type": "response.completed", "response": {"id": "r"}})])
}

#[tokio::test]
async fn a_server_error_is_retried_without_notification() {
    let server = Server::start([Answer::status(503, &[], "busy"), Answer::hang_up(), done()]).await;
    let provider = configured(ProviderConfig { request_max_retries: Some(2), ..config(&server.base_url) });
    let events = events(&provider, hello()).await;
    assert_eq!(events.len(), 1);
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|request| request.body == requests[0].body));
}

#[tokio::test]
async fn retries_of_requests_end() {
    let server = Server::start((0..9).map(|_| Answer::status(500, &[], "oops"))).await;
    let provider = configured(ProviderConfig { request_max_retries: Some(1), ..config(&server.base_url) });
    let error = error(&provider, hello()).await;
    assert!(matches!(error, ModelError::Status(failure) if failure.status == 500));
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_requested_delay_is_kept() {
    let wait = [("retry-after-ms", "600")];
    let server = Server::start([Answer::status(503, &wait, "busy"), done()]).await;
    let provider = configured(ProviderConfig { request_max_retries: Some(1), ..config(&server.base_url) });
    let before = std::time::Instant::now();
    events(&provider, hello()).await;
    assert!(before.elapsed() >= Duration::from_millis(600), "waited {:?}", before.elapsed());
}

#[tokio::test]
async fn a_429_is_left_to_the_turn_with_its_delay() {
    let server = Server::start([Answer::status(429, &[("retry-after", "7")], "slow down"), done()]).await;
    let provider = configured(ProviderConfig {
        request_max_retries: Some(4),
        stream_max_retries: Some(5),
        ..config(&server.base_url)
    });
    let error = error(&provider, hello()).await;
    assert_eq!(server.requests().len(), 1);
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    assert_eq!(provider.limits().stream.delay(1, &error), Some(Duration::from_secs(7)));
    assert_eq!(provider.limits().stream.delay(6, &error), None);
}

#[tokio::test]
async fn a_rejected_request_is_not_retried() {
    let server = Server::start([Answer::status(400, &[], "bad"), done()]).await;
    let provider = configured(ProviderConfig { request_max_retries: Some(4), ..config(&server.base_url) });
    error(&provider, hello()).await;
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_turn_can_retry_a_broken_stream() {
    let server = Server::start([Answer::sse([json!({"type": "response.created"})]), done()]).await;
    let provider = provider(&server.base_url, WireApi::Responses);
    let request = hello();
    assert!(error(&provider, request.clone()).await.is_retryable());
    assert_eq!(events(&provider, request).await.len(), 1);
}
