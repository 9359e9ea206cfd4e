//! Server requests as messages of the reply, and their answers.

use std::{collections::BTreeMap, time::Duration};

use codicil_agents::pool::{
    EditState, Pool, PoolError, PoolSettings, QuestionId, ReplyStream, StreamMessage,
};
use codicil_client::{ApprovalDecision, ApprovalRequest, DecisionError};
use serde_json::{Value, json};

use super::{
    all, cold,
    fake::{Connection, Fake},
    quick, soon, started,
};

/// Starts a turn for the server to ask about.
async fn asked_turn(pool: &Pool, connection: &mut Connection) -> (ReplyStream, String, String) {
    let reply = pool.agent().await.unwrap().ask("Go");
    let (thread, turn) = connection.turn().await;
    (reply, thread, turn)
}

async fn ask(connection: &Connection, id: u64, method: &str, thread: &str, turn: &str, mut params: Value) {
    for (name, value) in [("threadId", thread), ("turnId", turn), ("itemId", "i")] {
        params[name] = value.into();
    }
    connection.send(json!({ "id": id, "method": method, "params": params })).await;
}

async fn next_approval(reply: &mut ReplyStream) -> (QuestionId, ApprovalRequest) {
    match soon(reply.next()).await {
        Some(StreamMessage::ApprovalRequest { id, approval }) => (id, approval),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_approval_is_shown_after_its_tool_and_answered() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let decisions = [
        json!("accept"),
        json!("acceptForSession"),
        json!({ "acceptWithExecpolicyAmendment": { "execpolicy_amendment": ["pnpm", "test"] } }),
        json!({ "applyNetworkPolicyAmendment": { "network_policy_amendment": { "host": "a.com", "action": "allow" } } }),
        json!("decline"),
        json!("cancel"),
    ];
    let (mut reply, thread, turn) = asked_turn(&pool, &mut connection).await;
    for (number, expected) in decisions.into_iter().enumerate() {
        // The form in which a browser sends it.
        let decision: ApprovalDecision = serde_json::from_value(expected.clone()).unwrap();
        let item = json!({
            "type": "commandExecution", "id": number.to_string(), "command": "pnpm test", "cwd": "/",
            "status": "inProgress", "commandActions": [],
        });
        let started = json!({ "threadId": thread, "turnId": turn, "item": item });
        connection.notify("item/started", started).await;
        let params = json!({ "command": "pnpm test" });
        ask(&connection, 42, "item/commandExecution/requestApproval", &thread, &turn, params).await;
        assert!(matches!(soon(reply.next()).await, Some(StreamMessage::ToolUse { .. })));
        let (id, approval) = next_approval(&mut reply).await;
        let ApprovalRequest::Command(command) = &approval else { panic!("{approval:?}") };
        assert_eq!(command.command.as_deref(), Some("pnpm test"));
        assert_eq!(serde_json::to_value(&approval).unwrap()["type"], "command", "for a dialog in a browser");
        pool.decide(id, decision.clone()).unwrap();
        assert_eq!(connection.next().await, json!({ "id": 42, "result": { "decision": expected } }));
        assert_eq!(soon(reply.next()).await, Some(StreamMessage::Resolved { id }));
        assert!(matches!(pool.decide(id, decision), Err(PoolError::NotAsked(again)) if again == id));
    }
    let counts = pool.counts();
    assert_eq!((counts.questions_asked, counts.questions_answered), (6, 6));
    pool.close().await;
}

#[tokio::test]
async fn edits_permissions_and_elicitations_need_approval() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let (mut reply, thread, turn) = asked_turn(&pool, &mut connection).await;
    let mut accepted = async |method: &str, params: Value, is_kind: fn(&ApprovalRequest) -> bool| {
        ask(&connection, 7, method, &thread, &turn, params).await;
        let (id, approval) = next_approval(&mut reply).await;
        assert!(is_kind(&approval), "{approval:?}");
        pool.decide(id, ApprovalDecision::Accept).unwrap();
        let answer = connection.next().await["result"].clone();
        assert_eq!(soon(reply.next()).await, Some(StreamMessage::Resolved { id }));
        answer
    };
    let edits = json!({ "reason": null, "grantRoot": null });
    let is_edits = |asked: &ApprovalRequest| matches!(asked, ApprovalRequest::FileChange(_));
    assert_eq!(
        accepted("item/fileChange/requestApproval", edits, is_edits).await,
        json!({ "decision": "accept" })
    );
    let wanted = json!({ "permissions": { "network": { "enabled": true } }, "reason": null });
    let is_permissions = |asked: &ApprovalRequest| matches!(asked, ApprovalRequest::Permissions(_));
    let granted = accepted("item/permissions/requestApproval", wanted, is_permissions).await;
    assert_eq!(granted["permissions"], json!({ "network": { "enabled": true } }));
    let schema = json!({ "type": "object", "properties": {} });
    let form = json!({ "serverName": "s", "mode": "form", "message": "Run it?", "requestedSchema": schema });
    let is_form = |asked: &ApprovalRequest| matches!(asked, ApprovalRequest::Elicitation(_));
    assert_eq!(accepted("mcpServer/elicitation/request", form, is_form).await["action"], "accept");
    pool.close().await;
}

#[tokio::test]
async fn edits_are_approved_seeing_them() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let (mut reply, thread, turn) = asked_turn(&pool, &mut connection).await;
    let change = json!({ "path": "a.md", "kind": { "type": "add" }, "diff": "one\n" });
    let item = |status: &str| {
        let item = json!({ "type": "fileChange", "id": "i", "changes": [change], "status": status });
        json!({ "threadId": thread, "turnId": turn, "item": item })
    };
    connection.notify("item/started", item("inProgress")).await;
    let edits = json!({ "reason": null, "grantRoot": null });
    ask(&connection, 7, "item/fileChange/requestApproval", &thread, &turn, edits).await;
    let Some(StreamMessage::Diff { state: EditState::Proposed, .. }) = soon(reply.next()).await else {
        panic!("the edits come first");
    };
    let (id, approval) = next_approval(&mut reply).await;
    let shown = serde_json::to_value(&approval).unwrap();
    assert_eq!(
        (&shown["type"], &shown["itemId"], &shown["changes"]),
        (&json!("file_change"), &json!("i"), &json!([change]))
    );
    let amendment = vec!["rm".to_owned()];
    let other = ApprovalDecision::AcceptWithExecpolicyAmendment { execpolicy_amendment: amendment };
    let refused = pool.decide(id, other).unwrap_err().to_string();
    assert_eq!(refused, "the decision `acceptWithExecpolicyAmendment` does not answer a request about edits");
    pool.decide(id, ApprovalDecision::Decline).unwrap();
    assert_eq!(connection.next().await, json!({ "id": 7, "result": { "decision": "decline" } }));
    connection.notify("item/completed", item("declined")).await;
    assert_eq!(soon(reply.next()).await, Some(StreamMessage::Resolved { id }));
    let Some(StreamMessage::Diff { state: EditState::Declined, .. }) = soon(reply.next()).await else {
        panic!("a declined edit is not shown as made");
    };
    pool.close().await;
}

#[tokio::test]
async fn a_part_of_the_permissions_is_granted() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let (mut reply, thread, turn) = asked_turn(&pool, &mut connection).await;
    let wanted = json!({
        "permissions": { "network": { "enabled": true }, "fileSystem": { "read": null, "write": ["/a", "/b"] } },
        "reason": null,
    });
    ask(&connection, 1, "item/permissions/requestApproval", &thread, &turn, wanted).await;
    let (id, _) = next_approval(&mut reply).await;
    let granted =
        json!({ "permissions": { "fileSystem": { "read": null, "write": ["/a"] } }, "scope": "session" });
    pool.decide(id, serde_json::from_value(json!({ "grant": granted })).unwrap()).unwrap();
    assert_eq!(connection.next().await, json!({ "id": 1, "result": granted }));
    pool.close().await;
}

#[tokio::test]
async fn a_form_with_required_fields_cannot_be_accepted_empty() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let (mut reply, thread, turn) = asked_turn(&pool, &mut connection).await;
    let fields = json!({ "name": { "type": "string" }, "mail": { "type": "string", "format": "email" } });
    let schema = json!({ "type": "object", "properties": fields, "required": ["name", "mail"] });
    let form = json!({ "serverName": "s", "mode": "form", "message": "Who?", "requestedSchema": schema });
    ask(&connection, 1, "mcpServer/elicitation/request", &thread, &turn, form).await;
    let (id, _) = next_approval(&mut reply).await;
    let missing = |result: Result<(), PoolError>| match result {
        Err(PoolError::Decision(DecisionError::MissingFields(fields))) => fields,
        other => panic!("{other:?}"),
    };
    assert_eq!(missing(pool.decide(id, ApprovalDecision::Accept)), ["name", "mail"]);
    assert_eq!(missing(pool.decide(id, ApprovalDecision::Submit(json!({ "name": "Ada" })))), ["mail"]);
    // The question is still open.
    let values = json!({ "name": "Ada", "mail": "ada@example.com" });
    pool.decide(id, ApprovalDecision::Submit(values.clone())).unwrap();
    let answer = json!({ "action": "accept", "content": values });
    assert_eq!(connection.next().await, json!({ "id": 1, "result": answer }));
    // A person who accepts a page has opened it.
    assert_eq!(soon(reply.next()).await, Some(StreamMessage::Resolved { id }));
    let page = json!({ "serverName": "s", "mode": "url", "message": "Sign in", "url": "https://a", "elicitationId": "e" });
    ask(&connection, 2, "mcpServer/elicitation/request", &thread, &turn, page).await;
    let (id, _) = next_approval(&mut reply).await;
    pool.decide(id, ApprovalDecision::Accept).unwrap();
    assert_eq!(connection.next().await, json!({ "id": 2, "result": { "action": "accept" } }));
    pool.close().await;
}

#[tokio::test]
async fn the_agent_may_ask_the_user() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let (mut reply, thread, turn) = asked_turn(&pool, &mut connection).await;
    let questions = json!([{ "id": "colour", "header": "", "question": "Which?", "options": null }]);
    ask(&connection, 1, "item/tool/requestUserInput", &thread, &turn, json!({ "questions": questions }))
        .await;
    let Some(StreamMessage::InputRequest { id, questions }) = soon(reply.next()).await else {
        panic!("an input request");
    };
    assert_eq!(questions[0].question, "Which?");
    assert!(
        pool.decide(QuestionId(id.0 + 1), ApprovalDecision::Accept).is_err(),
        "there is no such question"
    );
    pool.answer(id, BTreeMap::from([("colour".to_owned(), vec!["blue".to_owned()])])).unwrap();
    let answers = json!({ "colour": { "answers": ["blue"] } });
    assert_eq!(connection.next().await, json!({ "id": 1, "result": { "answers": answers } }));
    pool.close().await;
}

#[tokio::test]
async fn approvals_of_older_servers_without_ids_are_answered_in_their_format() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let mut reply = pool.agent().await.unwrap().ask("Go");
    connection.bare_turn().await;
    connection
        .send(json!({
            "id": 42, "method": "item/commandExecution/requestApproval", "params": { "command": "pnpm test" },
        }))
        .await;
    let (id, _) = next_approval(&mut reply).await;
    pool.decide(id, ApprovalDecision::Accept).unwrap();
    assert_eq!(connection.next().await, json!({ "id": 42, "result": { "decision": "accept" } }));
    assert_eq!(soon(reply.next()).await, Some(StreamMessage::Resolved { id }));
    let older =
        json!({ "conversationId": "t1", "callId": "c", "command": ["ls"], "cwd": "/", "parsedCmd": [] });
    connection.send(json!({ "id": "x", "method": "execCommandApproval", "params": older })).await;
    let (id, _) = next_approval(&mut reply).await;
    pool.decide(id, ApprovalDecision::Accept).unwrap();
    assert_eq!(connection.next().await, json!({ "id": "x", "result": { "decision": "approved" } }));
    pool.close().await;
}

#[tokio::test]
async fn a_question_that_is_resolved_elsewhere_is_closed() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let (mut reply, thread, turn) = asked_turn(&pool, &mut connection).await;
    ask(&connection, 5, "item/commandExecution/requestApproval", &thread, &turn, json!({ "command": "ls" }))
        .await;
    let (id, _) = next_approval(&mut reply).await;
    connection.notify("serverRequest/resolved", json!({ "threadId": thread, "requestId": 5 })).await;
    assert_eq!(soon(reply.next()).await, Some(StreamMessage::Resolved { id }));
    assert!(pool.decide(id, ApprovalDecision::Accept).is_err());
    pool.close().await;
}

#[tokio::test]
async fn unanswered_questions_are_declined() {
    let mut fake = Fake::new();
    let settings = PoolSettings { warm_threads: 0, answer_within: Duration::from_millis(5), ..quick(&fake) };
    let (pool, mut connection) = started(settings, &mut fake).await;
    let (reply, thread, turn) = asked_turn(&pool, &mut connection).await;
    let method = "item/commandExecution/requestApproval";
    ask(&connection, 1, method, &thread, &turn, json!({ "command": "ls" })).await;
    assert_eq!(connection.next().await, json!({ "id": 1, "result": { "decision": "decline" } }));
    // No turn of another thread is followed.
    ask(&connection, 2, method, "somewhere else", &turn, json!({ "command": "ls" })).await;
    assert_eq!(connection.next().await, json!({ "id": 2, "result": { "decision": "decline" } }));
    connection.complete(&thread, &turn, "ok").await;
    let messages = all(reply).await;
    let questions = messages.iter().filter(|it| matches!(it, StreamMessage::ApprovalRequest { .. })).count();
    assert_eq!(questions, 1);
    pool.close().await;
}

#[tokio::test]
async fn a_question_of_an_interrupted_turn_is_declined() {
    let mut fake = Fake::new();
    let settings =
        PoolSettings { warm_threads: 0, interrupt_grace: Duration::from_millis(1), ..quick(&fake) };
    let (pool, mut connection) = started(settings, &mut fake).await;
    let (mut reply, thread, turn) = asked_turn(&pool, &mut connection).await;
    let method = "item/commandExecution/requestApproval";
    ask(&connection, 1, method, &thread, &turn, json!({ "command": "ls" })).await;
    next_approval(&mut reply).await;
    drop(reply);
    let mut answers = Vec::new();
    while answers.is_empty() {
        let message = connection.next().await;
        if message.get("method").is_none() {
            answers.push(message);
        }
    }
    assert_eq!(answers, [json!({ "id": 1, "result": { "decision": "decline" } })]);
    pool.close().await;
}
