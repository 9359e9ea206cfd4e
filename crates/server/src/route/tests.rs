use codicil_protocol::{
    InitializeParams, ThreadList, ThreadListParams, ThreadListResponse, ThreadLoadedList,
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
    assert!(client.initialize(ClientSession::new(hello)));
    Cx::new(client, server.shared.clone())
}

async fn ask(router: &Router, method: &str, params: Value) -> Value {
    let params = serde_json::value::to_raw_value(&params).unwrap();
    let answer = match router.call(cx(), RequestId::Integer(1), method, Some(&params)) {
        PendingResponse::Ready(answer) => answer,
        PendingResponse::Pending(work) => work.await,
    };
    serde_json::from_slice(answer.frame.bytes()).unwrap()
}

async fn panics_at_once(_: Cx, _: ThreadLoadedListParams) -> Result<ThreadLoadedListResponse, RpcError> {
    panic!("a handler's bug");
}

async fn panics_later(_: Cx, _: ThreadReadParams) -> Result<ThreadReadResponse, RpcError> {
    tokio::task::yield_now().await;
    panic!("a handler's bug");
}

async fn works(_: Cx, _: ThreadListParams) -> Result<ThreadListResponse, RpcError> {
    Ok(ThreadListResponse { data: Vec::new(), next_cursor: None })
}

#[tokio::test]
async fn a_panic_is_an_internal_error_of_its_request_and_of_no_other() {
    let router = Router::new()
        .on::<ThreadLoadedList>(panics_at_once)
        .on::<ThreadRead>(panics_later)
        .on::<ThreadList>(works);
    let error = json!({ "error": { "code": -32603, "message": "internal error" }, "id": 1 });
    assert_eq!(ask(&router, ThreadLoadedList::NAME, json!({})).await, error);
    assert_eq!(ask(&router, ThreadRead::NAME, json!({ "threadId": "t" })).await, error);
    let works = ask(&router, ThreadList::NAME, json!({})).await;
    assert_eq!(works, json!({ "id": 1, "result": { "data": [], "nextCursor": null } }));
}

/// A path that is not UTF-8 has no JSON form, and serde says so when the answer is written.
#[tokio::test]
async fn an_answer_that_cannot_be_written_is_an_internal_error_too() {
    use std::os::unix::ffi::OsStringExt;

    async fn answers(_: Cx, _: InitializeParams) -> Result<codicil_protocol::InitializeResponse, RpcError> {
        let odd = std::ffi::OsString::from_vec(b"/home/\xff".to_vec());
        Ok(codicil_protocol::InitializeResponse {
            user_agent: String::new(),
            codex_home: codicil_protocol::AbsolutePathBuf::new(odd).unwrap(),
            platform_family: String::new(),
            platform_os: String::new(),
        })
    }
    let router = Router::new().on::<Initialize>(answers);
    let params = json!({ "clientInfo": { "name": "test", "version": "1" } });
    let answer = ask(&router, Initialize::NAME, params).await;
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
}

#[tokio::test]
async fn a_huge_value_is_not_sent_back_in_the_error() {
    let router = Router::new().on::<ThreadList>(works).on::<ThreadRead>(panics_later);
    let huge = "\"".repeat(1 << 20);
    for (method, params) in [
        (ThreadList::NAME, json!({ "limit": huge })),
        (ThreadList::NAME, json!({ "sortKey": huge })),
        (ThreadRead::NAME, json!({ "threadId": [huge] })),
        (huge.as_str(), json!({})),
    ] {
        let answer = ask(&router, method, params).await;
        assert_eq!(answer["error"]["code"], -32600);
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("Invalid request: "), "{message:.100}");
        assert!(message.len() < 16 << 10, "{} bytes", message.len());
    }
}
