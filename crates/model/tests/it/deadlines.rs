//! A provider that sends nothing fails in time.

use std::time::Duration;

use codicil_model::{ModelError, ProviderConfig, WireApi};
use serde_json::json;
use tokio::net::TcpSocket;

use crate::{
    server::{Answer, Server},
    support::{config, configured, drain, error, hello, transcript},
};

fn with_short_timeout(base_url: &str, wire_api: WireApi) -> ProviderConfig {
    ProviderConfig { wire_api, stream_idle_timeout_ms: Some(200), ..config(base_url) }
}

#[tokio::test]
async fn no_response() {
    let mut server = Server::start([Answer::silence()]).await;
    let provider = configured(with_short_timeout(&server.base_url, WireApi::Responses));
    let error = error(&provider, hello()).await;
    assert_eq!(error, ModelError::FirstTokenTimeout(Duration::from_millis(200)));
    assert_eq!(error.to_string(), "stream disconnected before completion: no answer within 0.2 s");
    server.client_left().await;
}

#[tokio::test]
async fn headers_but_no_event() {
    // Comments do not count as events.
    let server = Server::start([Answer::stream(&[], ": ping\n\n").then_hang()]).await;
    let provider = configured(with_short_timeout(&server.base_url, WireApi::Responses));
    assert_eq!(error(&provider, hello()).await, ModelError::FirstTokenTimeout(Duration::from_millis(200)));
}

#[tokio::test]
async fn a_pause_in_the_middle() {
    let begin = json!({"type": "response.output_text.delta", "item_id": "m", "delta": "Hel"});
    let mut server = Server::start([Answer::sse([begin]).then_hang()]).await;
    let provider = configured(with_short_timeout(&server.base_url, WireApi::Responses));
    let (events, end) = drain(provider.stream(hello())).await;
    assert_eq!(transcript(&events), "text m \"Hel\"\n");
    let error = end.unwrap_err();
    assert_eq!(error, ModelError::Stalled(Duration::from_millis(200)));
    assert_eq!(
        json!(error.to_turn_error().codex_error_info),
        json!({"responseStreamDisconnected": {"httpStatusCode": null}})
    );
    server.client_left().await;
}

#[tokio::test]
async fn pings_do_not_count_as_progress() {
    let events = [json!({"type": "message_start", "message": {"id": "m"}}), json!({"type": "ping"})];
    let server = Server::start([Answer::sse(events).then_hang()]).await;
    let provider = configured(with_short_timeout(&server.base_url, WireApi::Anthropic));
    assert_eq!(error(&provider, hello()).await, ModelError::Stalled(Duration::from_millis(200)));
}

#[tokio::test]
async fn a_complete_chat_response_does_not_wait_for_done() {
    let events = [
        json!({"id": "c1", "choices": [{"delta": {"content": "Hi"}}]}),
        json!({"id": "c1", "choices": [{"delta": {}, "finish_reason": "stop"}]}),
    ];
    let server = Server::start([Answer::sse(events).then_hang()]).await;
    let provider = configured(with_short_timeout(&server.base_url, WireApi::Chat));
    let (events, end) = drain(provider.stream(hello())).await;
    assert_eq!(end, Ok(()));
    assert!(transcript(&events).ends_with("completed c1: no usage\n"), "{}", transcript(&events));
}

#[tokio::test]
async fn an_address_that_accepts_no_connections() {
    // Connections to a socket that does not accept them wait once its backlog is full.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let connecting = tokio::net::TcpStream::connect(address);
        match tokio::time::timeout(Duration::from_millis(100), connecting).await {
            Ok(Ok(stream)) => waiting.push(stream),
            _ => break,
        }
    }
    let provider = configured(ProviderConfig {
        connect_timeout_ms: Some(150),
        ..config(&format!("http://{address}/v1"))
    });
    let error = error(&provider, hello()).await.to_string();
    assert!(error.ends_with("no connection within 0.15 s"), "{error}");
}
