use codicil_protocol::{
    InitializeParams, ProtocolGeneration, ThreadList, ThreadListParams, ThreadListResponse, ThreadLoadedList,
    ThreadLoadedListParams, ThreadLoadedListResponse, ThreadRead, ThreadReadParams, ThreadReadResponse,
};
use serde_json::{Value, json};

use super::*;
use crate::{clients::ClientSession, fixture};

fn cx() -> Cx {
    let (server, _home) = fixture::server();
    let client = server.shared.clients.connect();
    let hello: InitializeParams =
        serde_json::from_value(json!({ "clientInfo": { "name": "test", "version": "1" } })).unwrap();
    assert!(client.initialize(ClientSession::new(hello, ProtocolGeneration::V118)));
    Cx::new(client, server.shared.clone())
}

async fn call(router: &Router, method: &str, params: Value) -> Value {
    let params = serde_json::value::to_raw_value(&params).unwrap();
    let response = match router.call(cx(), RequestId::Integer(1), method, Some(&params)) {
        PendingResponse::Ready(response) => response,
        PendingResponse::Pending(work) => work.await,
    };
    serde_json::from_slice(response.frame.unwrap().bytes()).unwrap()
}

async fn panics_at_once(_: Cx, _: ThreadLoadedListParams) -> Result<ThreadLoadedListResponse, RpcError> {
    panic!("a handler's bug");
}

async fn panics_later(_: Cx, _: ThreadReadParams) -> Result<ThreadReadResponse, RpcError> {
    tokio::task::yield_now().await;
    panic!("a handler's bug");
}

async fn works(_: Cx, _: ThreadListParams) -> Result<ThreadListResponse, RpcError> {
    Ok(ThreadListResponse { data: Vec::new(), next_cursor: None, backwards_cursor: None, read_states: None })
}

#[tokio::test]
async fn a_panic_is_an_internal_error_of_its_own_request_only() {
    let router = Router::new()
        .on::<ThreadLoadedList>(panics_at_once)
        .on::<ThreadRead>(panics_later)
        .on::<ThreadList>(works);
    let error = json!({ "error": { "code": -32603, "message": "internal error" }, "id": 1 });
    assert_eq!(call(&router, ThreadLoadedList::NAME, json!({})).await, error);
    assert_eq!(call(&router, ThreadRead::NAME, json!({ "threadId": "t" })).await, error);
    let works = call(&router, ThreadList::NAME, json!({})).await;
    assert_eq!(
        works,
        json!({ "id": 1, "result": { "data": [], "nextCursor": null, "backwardsCursor": null } })
    );
}

/// A path that is not UTF-8 has no JSON form, so serde fails when the response is encoded.
#[tokio::test]
async fn a_response_that_cannot_be_encoded_is_an_internal_error() {
    use std::os::unix::ffi::OsStringExt;

    async fn respond(_: Cx, _: InitializeParams) -> Result<codicil_protocol::InitializeResponse, RpcError> {
        let odd = std::ffi::OsString::from_vec(b"/home/\xff".to_vec());
        Ok(codicil_protocol::InitializeResponse {
            codicil: None,
            extensions: None,
            user_agent: String::new(),
            codex_home: codicil_protocol::AbsolutePathBuf::new(odd).unwrap(),
            platform_family: String::new(),
            platform_os: String::new(),
        })
    }
    let router = Router::new().on::<Initialize>(respond);
    let params = json!({ "clientInfo": { "name": "test", "version": "1" } });
    let response = call(&router, Initialize::NAME, params).await;
    assert_eq!(response["error"]["code"], -32603, "{response}");
}

#[tokio::test]
async fn an_error_does_not_quote_a_huge_value() {
    let router = Router::new().on::<ThreadList>(works).on::<ThreadRead>(panics_later);
    let huge = "\"".repeat(1 << 20);
    for (method, params) in [
        (ThreadList::NAME, json!({ "limit": huge })),
        (ThreadList::NAME, json!({ "sortKey": huge })),
        (ThreadRead::NAME, json!({ "threadId": [huge] })),
        (huge.as_str(), json!({})),
    ] {
        let response = call(&router, method, params).await;
        assert_eq!(response["error"]["code"], -32600);
        let message = response["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("Invalid request: "), "{message:.100}");
        assert!(message.len() < 16 << 10, "{} bytes", message.len());
    }
}
