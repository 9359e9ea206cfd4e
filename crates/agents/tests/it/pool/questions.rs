//! Requests of the server, surfaced as messages and answered.

use std::{collections::BTreeMap, time::Duration};

use codicil_agents::pool::{
    ApprovalSubject, Pool, PoolError, PoolSettings, QuestionId, ReplyStream, StreamMessage,
};
use codicil_client::ApprovalDecision;
use serde_json::{Value, json};

use super::{
    all, cold,
    fake::{Fake, Life},
    quick, soon, started,
};

/// A turn that is about to be asked something.
async fn asked_turn(pool: &Pool, life: &mut Life) -> (ReplyStream, String, String) {
    let reply = pool.agent().await.unwrap().ask("Go");
    let (thread, turn) = life.turn().await;
    (reply, thread, turn)
}

async fn ask(life: &Life, id: u64, method: &str, thread: &str, turn: &str, mut params: Value) {
    for (name, value) in [("threadId", thread), ("turnId", turn), ("itemId", "i")] {
        params[name] = value.into();
    }
    life.send(json!({ "id": id, "method": method, "params": params })).await;
}

async fn next_approval(reply: &mut ReplyStream) -> (QuestionId, ApprovalSubject) {
    match soon(reply.next()).await {
        Some(StreamMessage::ApprovalRequest { id, approval }) => (id, approval),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_approval_is_shown_after_its_tool_and_answered() {
    let mut fake = Fake::new();
    let (pool, mut life) = cold(&mut fake).await;
    let decisions = [
        (ApprovalDecision::Accept, "accept"),
        (ApprovalDecision::AcceptForSession, "acceptForSession"),
        (ApprovalDecision::Decline, "decline"),
        (ApprovalDecision::Cancel, "cancel"),
    ];
    let (mut reply, thread, turn) = asked_turn(&pool, &mut life).await;
    for (number, (decision, expected)) in decisions.into_iter().enumerate() {
        let item = json!({
            "type": "commandExecution", "id": number.to_string(), "command": "pnpm test", "cwd": "/",
            "status": "inProgress", "commandActions": [],
        });
        let started = json!({ "threadId": thread, "turnId": turn, "item": item });
        life.notify("item/started", started).await;
        let params = json!({ "command": "pnpm test" });
        ask(&life, 42, "item/commandExecution/requestApproval", &thread, &turn, params).await;
        assert!(matches!(soon(reply.next()).await, Some(StreamMessage::ToolUse { .. })));
        let (id, approval) = next_approval(&mut reply).await;
        let ApprovalSubject::Command(command) = &approval else { panic!("{approval:?}") };
        assert_eq!(command.command.as_deref(), Some("pnpm test"));
        assert_eq!(serde_json::to_value(&approval).unwrap()["kind"], "command", "for a dialog in a browser");
        pool.decide(id, decision).unwrap();
        assert_eq!(life.next().await, json!({ "id": 42, "result": { "decision": expected } }));
        assert_eq!(soon(reply.next()).await, Some(StreamMessage::Resolved { id }));
        assert!(matches!(pool.decide(id, decision), Err(PoolError::NotAsked(again)) if again == id));
    }
    let counts = pool.counts();
    assert_eq!((counts.questions_asked, counts.questions_answered), (4, 4));
    pool.close().await;
}

#[tokio::test]
async fn edits_permissions_and_mcp_servers_ask_too() {
    let mut fake = Fake::new();
    let (pool, mut life) = cold(&mut fake).await;
    let (mut reply, thread, turn) = asked_turn(&pool, &mut life).await;
    let mut accepted = async |method: &str, params: Value, is_kind: fn(&ApprovalSubject) -> bool| {
        ask(&life, 7, method, &thread, &turn, params).await;
        let (id, approval) = next_approval(&mut reply).await;
        assert!(is_kind(&approval), "{approval:?}");
        pool.decide(id, ApprovalDecision::Accept).unwrap();
        let answer = life.next().await["result"].clone();
        assert_eq!(soon(reply.next()).await, Some(StreamMessage::Resolved { id }));
        answer
    };
    let edits = json!({ "reason": null, "grantRoot": null });
    let is_edits = |asked: &ApprovalSubject| matches!(asked, ApprovalSubject::FileChange(_));
    assert_eq!(
        accepted("item/fileChange/requestApproval", edits, is_edits).await,
        json!({ "decision": "accept" })
    );
    let wanted = json!({ "permissions": { "network": { "enabled": true } }, "reason": null });
    let is_permissions = |asked: &ApprovalSubject| matches!(asked, ApprovalSubject::Permissions(_));
    let granted = accepted("item/permissions/requestApproval", wanted, is_permissions).await;
    assert_eq!(granted["permissions"], json!({ "network": { "enabled": true } }));
    let schema = json!({ "type": "object", "properties": {} });
    let form = json!({ "serverName": "s", "mode": "form", "message": "Run it?", "requestedSchema": schema });
    let is_form = |asked: &ApprovalSubject| matches!(asked, ApprovalSubject::Elicitation(_));
    assert_eq!(accepted("mcpServer/elicitation/request", form, is_form).await["action"], "accept");
    pool.close().await;
}

#[tokio::test]
async fn the_agent_may_ask_the_person() {
    let mut fake = Fake::new();
    let (pool, mut life) = cold(&mut fake).await;
    let (mut reply, thread, turn) = asked_turn(&pool, &mut life).await;
    let questions = json!([{ "id": "colour", "header": "", "question": "Which?", "options": null }]);
    ask(&life, 1, "item/tool/requestUserInput", &thread, &turn, json!({ "questions": questions })).await;
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
    assert_eq!(life.next().await, json!({ "id": 1, "result": { "answers": answers } }));
    pool.close().await;
}

#[tokio::test]
async fn older_servers_ask_in_their_dialect_and_without_ids() {
    let mut fake = Fake::new();
    let (pool, mut life) = cold(&mut fake).await;
    let mut reply = pool.agent().await.unwrap().ask("Go");
    life.bare_turn().await;
    life.send(json!({
        "id": 42, "method": "item/commandExecution/requestApproval", "params": { "command": "pnpm test" },
    }))
    .await;
    let (id, _) = next_approval(&mut reply).await;
    pool.decide(id, ApprovalDecision::Accept).unwrap();
    assert_eq!(life.next().await, json!({ "id": 42, "result": { "decision": "accept" } }));
    assert_eq!(soon(reply.next()).await, Some(StreamMessage::Resolved { id }));
    let older =
        json!({ "conversationId": "t1", "callId": "c", "command": ["ls"], "cwd": "/", "parsedCmd": [] });
    life.send(json!({ "id": "x", "method": "execCommandApproval", "params": older })).await;
    let (id, _) = next_approval(&mut reply).await;
    pool.decide(id, ApprovalDecision::Accept).unwrap();
    assert_eq!(life.next().await, json!({ "id": "x", "result": { "decision": "approved" } }));
    pool.close().await;
}

#[tokio::test]
async fn a_question_that_is_settled_elsewhere_is_void() {
    let mut fake = Fake::new();
    let (pool, mut life) = cold(&mut fake).await;
    let (mut reply, thread, turn) = asked_turn(&pool, &mut life).await;
    ask(&life, 5, "item/commandExecution/requestApproval", &thread, &turn, json!({ "command": "ls" })).await;
    let (id, _) = next_approval(&mut reply).await;
    life.notify("serverRequest/resolved", json!({ "threadId": thread, "requestId": 5 })).await;
    assert_eq!(soon(reply.next()).await, Some(StreamMessage::Resolved { id }));
    assert!(pool.decide(id, ApprovalDecision::Accept).is_err());
    pool.close().await;
}

#[tokio::test]
async fn what_nobody_answers_is_declined() {
    let mut fake = Fake::new();
    let settings = PoolSettings { warm: 0, answer_within: Duration::from_millis(5), ..quick(&fake) };
    let (pool, mut life) = started(settings, &mut fake).await;
    let (reply, thread, turn) = asked_turn(&pool, &mut life).await;
    let method = "item/commandExecution/requestApproval";
    ask(&life, 1, method, &thread, &turn, json!({ "command": "ls" })).await;
    assert_eq!(life.next().await, json!({ "id": 1, "result": { "decision": "decline" } }));
    // Nor does anybody follow another thread.
    ask(&life, 2, method, "somewhere else", &turn, json!({ "command": "ls" })).await;
    assert_eq!(life.next().await, json!({ "id": 2, "result": { "decision": "decline" } }));
    life.complete(&thread, &turn, "ok").await;
    let messages = all(reply).await;
    let questions = messages.iter().filter(|it| matches!(it, StreamMessage::ApprovalRequest { .. })).count();
    assert_eq!(questions, 1);
    pool.close().await;
}

#[tokio::test]
async fn a_question_of_a_turn_that_is_no_longer_wanted_is_declined() {
    let mut fake = Fake::new();
    let settings = PoolSettings { warm: 0, interrupt_grace: Duration::from_millis(1), ..quick(&fake) };
    let (pool, mut life) = started(settings, &mut fake).await;
    let (mut reply, thread, turn) = asked_turn(&pool, &mut life).await;
    let method = "item/commandExecution/requestApproval";
    ask(&life, 1, method, &thread, &turn, json!({ "command": "ls" })).await;
    next_approval(&mut reply).await;
    drop(reply);
    let mut answers = Vec::new();
    while answers.is_empty() {
        let message = life.next().await;
        if message.get("method").is_none() {
            answers.push(message);
        }
    }
    assert_eq!(answers, [json!({ "id": 1, "result": { "decision": "decline" } })]);
    pool.close().await;
}
