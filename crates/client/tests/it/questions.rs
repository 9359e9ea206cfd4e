//! Server requests: safe defaults, and handlers that are slow, panic or are cancelled.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use codicil_client::{
    ApprovalDecision, ApprovalRequest, ApproveAll, Client, ClientTimeouts, FileChangeApproval, HandlerAnswer,
    NoAnswer, RequestHandler, ask, protocol::*, turn,
};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use crate::{fake::connected, soon};

fn with_ids(mut params: Value) -> Value {
    for (name, value) in [("threadId", "t"), ("turnId", "u"), ("itemId", "i")] {
        params[name] = value.into();
    }
    params
}

#[tokio::test]
async fn by_default_nothing_is_approved() {
    let (mut fake, _client) = connected(Client::builder()).await;
    let mut result =
        async |method: &str, params: Value| fake.ask(1, method, with_ids(params)).await["result"].clone();
    let command = json!({ "command": "ls" });
    assert_eq!(
        result("item/commandExecution/requestApproval", command).await,
        json!({ "decision": "decline" })
    );
    let change = json!({ "reason": null, "grantRoot": null });
    assert_eq!(result("item/fileChange/requestApproval", change).await, json!({ "decision": "decline" }));
    let wanted = json!({ "permissions": { "network": { "enabled": true } }, "reason": null });
    let granted = result("item/permissions/requestApproval", wanted).await;
    assert_eq!(granted, json!({ "permissions": {}, "scope": "turn" }));
    let form = json!({
        "serverName": "s", "mode": "form", "message": "?", "requestedSchema": { "type": "object", "properties": {} },
    });
    assert_eq!(result("mcpServer/elicitation/request", form).await, json!({ "action": "decline" }));
    let older = json!({ "conversationId": "t", "callId": "c", "fileChanges": {} });
    assert_eq!(result("applyPatchApproval", older).await, json!({ "decision": "denied" }));
    let refresh = json!({ "reason": "unauthorized", "previousAccountId": null });
    let answer = fake.ask(2, "account/chatgptAuthTokens/refresh", refresh).await;
    assert_eq!(answer["error"]["message"], "this client does not manage tokens");
}

#[tokio::test]
async fn everything_can_be_approved() {
    let (mut fake, _client) = connected(Client::builder().handler(ApproveAll::once())).await;
    let mut result =
        async |method: &str, params: Value| fake.ask(1, method, with_ids(params)).await["result"].clone();
    let command = json!({ "command": "ls" });
    assert_eq!(
        result("item/commandExecution/requestApproval", command).await,
        json!({ "decision": "accept" })
    );
    let wanted =
        json!({ "permissions": { "network": { "enabled": true }, "fileSystem": null }, "reason": null });
    let granted = result("item/permissions/requestApproval", wanted).await;
    assert_eq!(granted, json!({ "permissions": { "network": { "enabled": true } }, "scope": "turn" }));
    let form = |required: Value| {
        let schema = json!({ "type": "object", "properties": {}, "required": required });
        json!({ "serverName": "s", "mode": "form", "message": "Run it?", "requestedSchema": schema })
    };
    let accepted = result("mcpServer/elicitation/request", form(json!([]))).await;
    assert_eq!(accepted, json!({ "action": "accept", "content": {} }));
    let declined = result("mcpServer/elicitation/request", form(json!(["name"]))).await;
    assert_eq!(declined, json!({ "action": "decline" }), "a form with required fields needs a user");
}

#[tokio::test]
async fn a_closure_decides_approvals() {
    let handler = ask(|approval| async move {
        match approval {
            ApprovalRequest::Command(asked) if asked.command.as_deref() == Some("ls 'a b'") => {
                ApprovalDecision::Accept
            }
            ApprovalRequest::Permissions(_) => ApprovalDecision::AcceptForSession,
            ApprovalRequest::FileChange(_) => ApprovalDecision::Cancel,
            ApprovalRequest::Command(_) | ApprovalRequest::Elicitation(_) => ApprovalDecision::Decline,
        }
    });
    let (mut fake, _client) = connected(Client::builder().handler(handler)).await;
    let older = json!({ "conversationId": "t", "callId": "c", "command": ["ls", "a b"], "cwd": "/", "parsedCmd": [] });
    assert_eq!(fake.ask(1, "execCommandApproval", older).await["result"], json!({ "decision": "approved" }));
    let command = with_ids(json!({ "command": "rm" }));
    let answer = fake.ask(2, "item/commandExecution/requestApproval", command).await;
    assert_eq!(answer["result"], json!({ "decision": "decline" }));
    let change = with_ids(json!({ "reason": null, "grantRoot": null }));
    let answer = fake.ask(3, "item/fileChange/requestApproval", change).await;
    assert_eq!(answer["result"], json!({ "decision": "cancel" }));
    let wanted = with_ids(json!({ "permissions": { "network": null, "fileSystem": null }, "reason": null }));
    let answer = fake.ask(4, "item/permissions/requestApproval", wanted).await;
    assert_eq!(answer["result"], json!({ "permissions": {}, "scope": "session" }));
}

/// Returns a handler that gives this decision, and the requests that it received.
fn deciding(decision: ApprovalDecision) -> (impl RequestHandler, mpsc::Receiver<ApprovalRequest>) {
    let (sender, requests) = mpsc::channel(8);
    let handler = ask(move |approval| {
        let sender = sender.clone();
        let decision = decision.clone();
        async move {
            sender.send(approval).await.unwrap();
            decision
        }
    });
    (handler, requests)
}

#[tokio::test]
async fn edits_are_approved_with_their_changes() {
    let (handler, mut requests) = deciding(ApprovalDecision::Accept);
    let (mut fake, _client) = connected(Client::builder().handler(handler)).await;
    let change = json!({ "path": "a.txt", "kind": { "type": "add" }, "diff": "hello\n" });
    let item = json!({ "type": "fileChange", "id": "i", "changes": [change], "status": "inProgress" });
    let started = json!({ "threadId": "t", "turnId": "u", "item": item });
    let request = with_ids(json!({ "reason": null, "grantRoot": null }));
    let method = "item/fileChange/requestApproval";
    fake.ask(1, method, request.clone()).await;
    assert_eq!(changes(&mut requests).await, json!([]), "the item is not known yet");
    fake.notify("item/started", started).await;
    fake.ask(2, method, request).await;
    assert_eq!(changes(&mut requests).await, json!([change]));
    let older = json!({
        "conversationId": "t", "callId": "c", "fileChanges": { "a.txt": { "type": "add", "content": "hello\n" } },
    });
    fake.ask(3, "applyPatchApproval", older).await;
    assert_eq!(changes(&mut requests).await, json!([change]));
}

async fn changes(requests: &mut mpsc::Receiver<ApprovalRequest>) -> Value {
    let Some(ApprovalRequest::FileChange(approval)) = soon(requests.recv()).await else { panic!("edits") };
    serde_json::to_value(approval).unwrap()["changes"].clone()
}

#[tokio::test]
async fn all_answers_of_the_protocol_can_be_given() {
    let allow = NetworkPolicyAmendment { host: "a.com".to_owned(), action: NetworkPolicyRuleAction::Allow };
    let prefix = vec!["git".to_owned(), "status".to_owned()];
    let amendment = json!({ "execpolicy_amendment": ["git", "status"] });
    let rule = json!({ "network_policy_amendment": { "host": "a.com", "action": "allow" } });
    for (decision, expected) in [
        (ApprovalDecision::Accept, json!("accept")),
        (ApprovalDecision::AcceptForSession, json!("acceptForSession")),
        (
            ApprovalDecision::AcceptWithExecpolicyAmendment { execpolicy_amendment: prefix },
            json!({ "acceptWithExecpolicyAmendment": amendment }),
        ),
        (
            ApprovalDecision::ApplyNetworkPolicyAmendment { network_policy_amendment: allow },
            json!({ "applyNetworkPolicyAmendment": rule }),
        ),
        (ApprovalDecision::Decline, json!("decline")),
        (ApprovalDecision::Cancel, json!("cancel")),
    ] {
        let (handler, _requests) = deciding(decision);
        let (mut fake, _client) = connected(Client::builder().handler(handler)).await;
        let command = with_ids(json!({ "command": "git status" }));
        let answer = fake.ask(1, "item/commandExecution/requestApproval", command).await;
        assert_eq!(answer["result"], json!({ "decision": expected }));
    }
}

#[tokio::test]
async fn a_part_of_the_permissions_can_be_granted() {
    let requested =
        json!({ "network": { "enabled": true }, "fileSystem": { "read": null, "write": ["/a", "/b"] } });
    let granted = json!({ "fileSystem": { "read": null, "write": ["/a"] } });
    let decision = serde_json::from_value(json!({ "grant": { "permissions": granted, "scope": "session" } }));
    let (handler, _requests) = deciding(decision.unwrap());
    let (mut fake, _client) = connected(Client::builder().handler(handler)).await;
    let wanted = with_ids(json!({ "permissions": requested, "reason": null }));
    let answer = fake.ask(1, "item/permissions/requestApproval", wanted).await;
    assert_eq!(answer["result"], json!({ "permissions": granted, "scope": "session" }));
    // The decision does not answer a request about a command.
    let command = with_ids(json!({ "command": "ls" }));
    let answer = fake.ask(2, "item/commandExecution/requestApproval", command).await;
    let expected = "the decision `grant` does not answer a request about a command";
    assert_eq!(answer["error"]["message"], expected);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_person_does_not_count_against_the_turn_timeout() {
    let (sender, mut requests) = mpsc::channel(8);
    let answered = Arc::new(Notify::new());
    let answer = answered.clone();
    let handler = ask(move |approval| {
        let sender = sender.clone();
        let answer = answer.clone();
        async move {
            sender.send(approval).await.unwrap();
            answer.notified().await;
            ApprovalDecision::Accept
        }
    });
    let timeouts = ClientTimeouts {
        turn: Some(Duration::from_secs(60)),
        turn_silence: Some(Duration::from_secs(50)),
        ..ClientTimeouts::default()
    };
    let (mut fake, client) = connected(Client::builder().handler(handler).timeouts(timeouts)).await;
    let running = tokio::spawn(async move { client.run_turn(turn(&"t".into(), "Hi")).await });
    fake.take_turn("t", "u").await;
    tokio::time::sleep(Duration::from_secs(40)).await;
    let params = with_ids(json!({ "command": "ls" }));
    fake.send(json!({ "id": 7, "method": "item/commandExecution/requestApproval", "params": params })).await;
    requests.recv().await.unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!running.is_finished(), "a person takes an hour");
    answered.notify_one();
    assert_eq!(fake.next().await.unwrap()["result"]["decision"], "accept");
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert!(!running.is_finished(), "55 s of 60 s are used");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(error.unfinished().unwrap().message, "no end within 60s");
    assert_eq!(fake.next().await.unwrap()["method"], "turn/interrupt");
}

/// Never answers commands, and panics on edits.
#[derive(Default)]
struct OddHandler {
    asked: Arc<Notify>,
    was_dropped: Arc<AtomicBool>,
}

struct OnDrop(Arc<AtomicBool>, Arc<Notify>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        self.1.notify_one();
    }
}

impl RequestHandler for OddHandler {
    async fn approve_command(
        &self,
        _: CommandExecutionRequestApprovalParams,
    ) -> HandlerAnswer<CommandExecutionApprovalDecision> {
        let _guard = OnDrop(self.was_dropped.clone(), self.asked.clone());
        self.asked.notify_one();
        std::future::pending().await
    }

    async fn approve_file_change(&self, _: FileChangeApproval) -> HandlerAnswer<FileChangeApprovalDecision> {
        panic!("on purpose")
    }

    async fn other(&self, asked: rpc::Notification) -> HandlerAnswer<Value> {
        match asked.method.as_str() {
            "future/question" => Ok(json!({ "echo": asked.params })),
            _ => Err(NoAnswer::error("not that")),
        }
    }
}

#[tokio::test]
async fn a_slow_handler_delays_nothing_and_is_dropped_once_the_request_is_resolved() {
    let odd = OddHandler::default();
    let asked = odd.asked.clone();
    let was_dropped = odd.was_dropped.clone();
    let (mut fake, client) = connected(Client::builder().handler(odd)).await;
    let params = with_ids(json!({ "command": "ls" }));
    fake.send(json!({ "id": 7, "method": "item/commandExecution/requestApproval", "params": params })).await;
    soon(asked.notified()).await;

    let call = tokio::spawn(client.call::<ModelList>(Default::default()));
    let request = fake.expect("model/list").await;
    fake.reply(&request, json!({ "data": [] })).await;
    soon(call).await.unwrap().unwrap();

    fake.notify("serverRequest/resolved", json!({ "threadId": "t", "requestId": 7 })).await;
    soon(asked.notified()).await;
    assert!(was_dropped.load(Ordering::SeqCst));
    let answer = fake.ask(8, "future/question", json!({ "a": 1 })).await;
    assert_eq!(answer["result"], json!({ "echo": { "a": 1 } }), "the resolved request got no response");
}

#[tokio::test]
async fn a_panicking_handler_is_an_error_response() {
    let (mut fake, client) = connected(Client::builder().handler(OddHandler::default())).await;
    let change = with_ids(json!({ "reason": null, "grantRoot": null }));
    let answer = fake.ask(1, "item/fileChange/requestApproval", change).await;
    assert_eq!(answer["error"], json!({ "code": -32603, "message": "the client failed to answer" }));
    let answer = fake.ask(2, "other/question", json!({})).await;
    assert_eq!(answer["error"]["message"], "not that");
    assert!(client.is_connected());
}
