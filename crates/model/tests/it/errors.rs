//! The error that a client receives for each failure, with the texts of the reference implementation.

use codicil_model::{ModelError, WireApi};
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::{
    server::{Answer, Server},
    support::{error, hello, provider},
};

/// Renders `codexErrorInfo`, whether the error is retried, and the message without the port.
fn rendered(error: &ModelError) -> String {
    let turn_error = error.to_turn_error();
    let info = json!(turn_error.codex_error_info);
    let retried = if error.is_retryable() { " retried" } else { "" };
    let details = turn_error.additional_details.map(|text| format!(" [{text}]")).unwrap_or_default();
    format!("{info}{retried}: {}{details}", without_port(&turn_error.message))
}

fn without_port(text: &str) -> String {
    match text.split_once("127.0.0.1:") {
        Some((before, after)) => {
            format!("{before}HOST{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        None => text.to_owned(),
    }
}

async fn status(code: u16, body: &str) -> String {
    let server = Server::start([Answer::status(code, &[], body)]).await;
    rendered(&error(&provider(&server.base_url, WireApi::Responses), hello()).await)
}

#[tokio::test]
async fn http_statuses() {
    let mut lines = String::new();
    for (code, body) in [
        (400, r#"{"error": {"message": "bad input", "code": "invalid_prompt"}}"#),
        (400, r#"{"object": "error", "message": "of vLLM"}"#),
        (401, r#"{"error": {"message": "no key"}}"#),
        (402, "pay first"),
        (403, "forbidden"),
        (404, "nothing here"),
        (405, "no"),
        (422, r#"{"detail": "unprocessable"}"#),
        (429, ""),
        (429, r#"{"error": {"message": "slow down"}}"#),
        (500, ""),
        (500, " oops\n"),
        (500, r#"{"error": "the GPU is gone"}"#),
        (503, "busy"),
        (529, ""),
        (529, r#"{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}"#),
        (307, ""),
    ] {
        lines.push_str(&format!("{code} {}\n", status(code, body).await));
    }
    assert_snapshot!(lines, @r#"
    400 "badRequest": bad input, answer: {"error": {"message": "bad input", "code": "invalid_prompt"}}
    400 "badRequest": of vLLM, answer: {"object": "error", "message": "of vLLM"} [of vLLM]
    401 {"httpConnectionFailed":{"httpStatusCode":401}}: unexpected status 401 Unauthorized: no key, url: http://HOST/v1/responses
    402 "other": unexpected status 402 Payment Required: pay first, url: http://HOST/v1/responses
    403 {"httpConnectionFailed":{"httpStatusCode":403}}: unexpected status 403 Forbidden: forbidden, url: http://HOST/v1/responses
    404 {"httpConnectionFailed":{"httpStatusCode":404}}: unexpected status 404 Not Found: nothing here, url: http://HOST/v1/responses
    405 "other": unexpected status 405 Method Not Allowed: no, url: http://HOST/v1/responses
    422 {"httpConnectionFailed":{"httpStatusCode":422}}: unexpected status 422 Unprocessable Entity: {"detail": "unprocessable"}, url: http://HOST/v1/responses [unprocessable]
    429 {"responseTooManyFailedAttempts":{"httpStatusCode":429}} retried: exceeded retry limit, last status: 429 Too Many Requests
    429 {"responseTooManyFailedAttempts":{"httpStatusCode":429}} retried: exceeded retry limit, last status: 429 Too Many Requests: slow down
    500 "internalServerError" retried: the model's provider had an internal error; try again in a moment
    500 "internalServerError" retried: the model's provider had an internal error; try again in a moment: oops
    500 "internalServerError" retried: the model's provider had an internal error; try again in a moment: the GPU is gone
    503 {"httpConnectionFailed":{"httpStatusCode":503}} retried: unexpected status 503 Service Unavailable: busy, url: http://HOST/v1/responses
    529 "serverOverloaded" retried: the model is overloaded at the moment; try again later or choose another model
    529 "serverOverloaded" retried: the model is overloaded at the moment; try again later or choose another model: Overloaded
    307 "other": unexpected status 307 Temporary Redirect: , url: http://HOST/v1/responses
    "#);
}

#[tokio::test]
async fn limits_reported_with_a_status() {
    let of = async |code, body: Value| status(code, &json!({ "error": body }).to_string()).await;
    assert_eq!(
        of(429, json!({"type": "usage_limit_reached", "plan_type": "pro", "resets_in_seconds": 3600})).await,
        r#""usageLimitExceeded": the usage limit of your pro plan is reached; it resets in 1 hour"#
    );
    assert_eq!(
        of(429, json!({"type": "usage_not_included", "message": "no"})).await,
        r#""usageLimitExceeded": your plan does not include this model; sign in with another plan or use an API key"#
    );
    assert!(of(429, json!({"code": "insufficient_quota"})).await.starts_with(r#""usageLimitExceeded": "#));
    // A limit that ends by itself is retried.
    let soon = of(429, json!({"message": "Rate limit reached. Please try again in 1.5s."})).await;
    assert!(soon.contains(" retried: "), "{soon}");
    assert!(
        of(400, json!({"code": "context_length_exceeded"})).await.starts_with(r#""contextWindowExceeded": "#)
    );
    let too_long = json!({"message": "This model's maximum context length is 8192 tokens."});
    let error = of(400, too_long).await;
    assert!(error.starts_with(r#""contextWindowExceeded": "#), "{error}");
    assert!(error.ends_with(" [This model's maximum context length is 8192 tokens.]"), "{error}");
    // llama.cpp has the numbers in members of their own.
    let sizes = json!({"code": 400, "message": "the request exceeds the available context size",
        "type": "exceed_context_size_error", "n_prompt_tokens": 9130, "n_ctx": 4096});
    assert!(of(400, sizes).await.contains("9130"));
}

#[tokio::test]
async fn failures_within_the_stream() {
    let mut lines = String::new();
    for code in [
        "context_length_exceeded",
        "usage_limit_reached",
        "insufficient_quota",
        "usage_not_included",
        "invalid_prompt",
        "server_is_overloaded",
        "slow_down",
        "rate_limit_exceeded",
        "cyber_policy",
        "weird_code",
    ] {
        let failed = json!({"type": "response.failed", "response": {"id": "r", "status": "failed",
            "error": {"code": code, "message": format!("model says {code}")}}});
        let server = Server::start([Answer::sse([failed])]).await;
        let error = error(&provider(&server.base_url, WireApi::Responses), hello()).await;
        lines.push_str(&format!("{code} {}\n", rendered(&error)));
    }
    assert_snapshot!(lines, @r#"
    context_length_exceeded "contextWindowExceeded": the conversation no longer fits the model's context window; compact the thread or start a new one
    usage_limit_reached "usageLimitExceeded": your usage limit is reached; try again later
    insufficient_quota "usageLimitExceeded": the account's quota is used up; check its plan and billing details with the provider: model says insufficient_quota
    usage_not_included "usageLimitExceeded": your plan does not include this model; sign in with another plan or use an API key
    invalid_prompt "other": model says invalid_prompt
    server_is_overloaded "serverOverloaded" retried: the model is overloaded at the moment; try again later or choose another model: model says server_is_overloaded
    slow_down "serverOverloaded" retried: the model is overloaded at the moment; try again later or choose another model: model says slow_down
    rate_limit_exceeded "rateLimitExceeded" retried: stream disconnected before completion: model says rate_limit_exceeded
    cyber_policy "other" retried: stream disconnected before completion: model says cyber_policy
    weird_code "other" retried: stream disconnected before completion: model says weird_code
    "#);
}

#[tokio::test]
async fn broken_streams() {
    let incomplete = json!({"type": "response.incomplete", "response": {"id": "r",
        "incomplete_details": {"reason": "max_output_tokens"}}});
    let mut lines = String::new();
    for (name, answer) in [
        ("incomplete", Answer::sse([incomplete])),
        ("cut", Answer::sse([json!({"type": "response.created", "response": {"id": "r"}})])),
        (
            "told",
            Answer::sse([json!({"type": "error", "code": "server_error", "message": "the GPU is gone"})]),
        ),
        (
            "limit",
            Answer::sse([
                json!({"type": "error", "error": {"type": "usage_limit_reached", "plan_type": "plus",
            "resets_in_seconds": 60, "message": "limit"}}),
            ]),
        ),
        ("garbled", Answer::stream(&[], "event: response.completed\ndata: {\"response\":\n\n")),
        ("unnamed", Answer::stream(&[], "data: oops\n\n")),
        ("document", Answer::status(200, &[], "{\"status\": \"ok\"}")),
        ("hung up", Answer::hang_up()),
        ("web page", Answer::status(200, &[("content-type", "text/html; charset=utf-8")], "<html>")),
    ] {
        let server = Server::start([answer]).await;
        let error = error(&provider(&server.base_url, WireApi::Responses), hello()).await;
        lines.push_str(&format!("{name} {}\n", rendered(&error)));
    }
    assert_snapshot!(lines, @r#"
    incomplete "other": stream disconnected before completion: Incomplete response returned, reason: max_output_tokens
    cut {"responseStreamDisconnected":{"httpStatusCode":null}} retried: stream disconnected before completion: stream closed before response.completed
    told "other" retried: stream disconnected before completion: the GPU is gone
    limit "usageLimitExceeded": the usage limit of your plus plan is reached; it resets in 1 minute
    garbled {"responseStreamDisconnected":{"httpStatusCode":null}} retried: stream disconnected before completion: an event of the provider cannot be read: EOF while parsing a value at line 1 column 12
    unnamed {"responseStreamDisconnected":{"httpStatusCode":null}} retried: stream disconnected before completion: an event of the provider cannot be read: expected value at line 1 column 1
    document {"responseStreamConnectionFailed":{"httpStatusCode":200}}: the provider answered with JSON that is no response: {"status": "ok"}
    hung up {"responseStreamConnectionFailed":{"httpStatusCode":null}} retried: no response from http://HOST/v1/responses: connection closed before message completed
    web page {"responseStreamConnectionFailed":{"httpStatusCode":200}}: the provider answered text/html instead of an event stream, url: http://HOST/v1/responses
    "#);
}

#[tokio::test]
async fn an_unreachable_provider() {
    // The listener is closed at once, so nothing listens at its address.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = error(&provider(&format!("http://{address}/v1"), WireApi::Responses), hello()).await;
    let rendered = rendered(&error);
    assert!(
        rendered.starts_with(
            r#"{"httpConnectionFailed":{"httpStatusCode":null}} retried: could not reach http://HOST"#
        ),
        "{rendered}"
    );
}

#[tokio::test]
async fn a_retry_is_announced_as_the_reference_does() {
    let server = Server::start([Answer::status(503, &[], "busy")]).await;
    let error = error(&provider(&server.base_url, WireApi::Responses), hello()).await;
    let announced = error.to_retry_error(1, 5);
    assert_eq!(announced.message, "Reconnecting... 1/5");
    assert_eq!(
        json!(announced.codex_error_info),
        json!({"responseStreamDisconnected": {"httpStatusCode": 503}})
    );
    assert_eq!(
        without_port(&announced.additional_details.unwrap()),
        "unexpected status 503 Service Unavailable: busy, url: http://HOST/v1/responses"
    );
}

#[tokio::test]
async fn errors_contain_request_ids_and_no_secrets() {
    let server = Server::start([Answer::status(404, &[("x-request-id", "req_7")], "gone")]).await;
    let config = codicil_model::ProviderConfig {
        query_params: Some([("key".to_owned(), "secret".to_owned())].into()),
        ..crate::support::config(&server.base_url.replace("://", "://me:secret@"))
    };
    let error = error(&crate::support::configured(config), hello()).await;
    assert_eq!(
        without_port(&error.to_string()),
        "unexpected status 404 Not Found: gone, url: http://HOST/v1/responses, request id: req_7"
    );
}
