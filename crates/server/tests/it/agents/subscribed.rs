//! `codicil/subscribe` for a thread and its agents.

use codicil_protocol::{
    CodicilSubscribe, CodicilSubscribeParams, CodicilSubscribeResponse, CommandExecutionApproval,
    CommandExecutionApprovalDecision, CommandExecutionRequestApprovalResponse, MessageSeq, SubagentPosition,
    SubscriptionScope, Thread, ThreadId,
};
use codicil_testkit::{App, FoldedThread, ReceivedMessage, Reply, Script, TestClient};
use serde_json::json;

use super::{agent_done, is_agent, is_main, main_done, spawn};
use crate::cursor::{replayed, start_thread};

async fn subscribe(
    client: &mut TestClient,
    thread: &ThreadId,
    after: Option<MessageSeq>,
    scope: SubscriptionScope,
) -> (CodicilSubscribeResponse, Option<Vec<SubagentPosition>>) {
    let params = CodicilSubscribeParams { after, scope, ..CodicilSubscribeParams::new(thread.clone()) };
    let answer = client.call::<CodicilSubscribe>(params).await;
    let subagents = match &answer {
        CodicilSubscribeResponse::Replay { subagents, .. }
        | CodicilSubscribeResponse::Snapshot { subagents, .. } => subagents.clone(),
    };
    (answer, subagents)
}

/// Reads the messages up to the end of the main thread's turn.
async fn until_main_end(client: &mut TestClient, main: &Thread) -> Vec<ReceivedMessage> {
    let mut messages = Vec::new();
    loop {
        let message = client.next_received().await.unwrap();
        let is_end = message.method == "turn/completed" && message.params["threadId"] == *main.id;
        messages.push(message);
        if is_end {
            return messages;
        }
    }
}

fn of_thread<'m>(
    messages: &'m [ReceivedMessage],
    thread: &ThreadId,
) -> impl Iterator<Item = &'m ReceivedMessage> {
    let thread = thread.clone();
    messages.iter().filter(move |message| message.params["threadId"] == *thread)
}

fn turns_of(messages: &[ReceivedMessage], thread: &ThreadId) -> usize {
    of_thread(messages, thread).filter(|message| message.method == "turn/started").count()
}

#[tokio::test]
async fn a_tree_includes_agents_that_start_later_and_a_thread_does_not() {
    let script = Script::new()
        .reply(Reply::new().gate("start").call("spawn_agent", json!({ "message": "sub task" })).when(is_main))
        .reply(Reply::new().gate("main").say("delegated").when(is_main))
        .reply(Reply::new().say("sub answer").when(is_agent))
        .repeat(Reply::new().say("noted"));
    let mut app = App::builder().script(script).cursor().start().await;
    let (main, begin) = start_thread(&mut app).await;
    app.start_turn(&main, "delegate").await;
    app.model().reached("start").await;
    let mut tree = app.another_client().await;
    let (answer, subagents) = subscribe(&mut tree, &main.id, begin.after(), SubscriptionScope::Tree).await;
    assert_eq!(subagents, Some(Vec::new()), "there is none yet");
    let mut known = begin.clone();
    replayed(&mut tree, &answer).await.iter().for_each(|message| known.add(message));
    let mut alone = app.another_client().await;
    let (_, subagents) = subscribe(&mut alone, &main.id, begin.after(), SubscriptionScope::Thread).await;
    assert_eq!(subagents, None);

    app.model().release("start");
    app.model().reached("main").await;
    let (agent, _) = agent_done(&mut app, &main).await;
    app.model().release("main");
    main_done(&mut app, &main).await;
    let of_tree = until_main_end(&mut tree, &main).await;
    let of_alone = until_main_end(&mut alone, &main).await;

    assert_eq!((turns_of(&of_tree, &agent), turns_of(&of_alone, &agent)), (1, 0));
    of_thread(&of_tree, &main.id).for_each(|message| known.add(message));
    known.check(&app.read(&main).await);
    let mut agent_known = FoldedThread::default();
    of_thread(&of_tree, &agent).for_each(|message| agent_known.add(message));
    let read = json!({ "threadId": agent, "includeTurns": true });
    let stored = app.call::<codicil_protocol::ThreadRead>(serde_json::from_value(read).unwrap()).await;
    agent_known.check(&stored.thread);
    for client in [&mut *app, &mut tree, &mut alone] {
        client.ignore_rest();
    }
    app.ignore_rest();
}

#[tokio::test]
async fn a_tree_lists_existing_agents_with_their_positions_and_open_requests() {
    let touch =
        json!({ "cmd": "touch it", "sandbox_permissions": "require_escalated", "justification": "May I?" });
    let script = Script::new()
        .reply(spawn("touch it").when(is_main))
        .reply(Reply::new().gate("main").say("delegated").when(is_main))
        .reply(Reply::new().call("exec_command", touch).when(is_agent))
        .reply(Reply::new().say("not allowed").when(is_agent))
        .repeat(Reply::new().say("noted"));
    let mut app = App::builder().script(script).cursor().start().await;
    let (main, begin) = start_thread(&mut app).await;
    app.start_turn(&main, "delegate").await;
    let asked = app.expect_request::<CommandExecutionApproval>().await;
    app.model().reached("main").await;

    let mut other = app.another_client().await;
    let (_, subagents) = subscribe(&mut other, &main.id, begin.after(), SubscriptionScope::Tree).await;
    let [SubagentPosition { thread_id: agent, at }] = subagents.as_deref().unwrap() else {
        panic!("{subagents:?}")
    };
    assert_eq!(*agent, asked.params.thread_id);
    // The request of the agent follows, and what the agent sends from there on.
    let again = other.expect_request::<CommandExecutionApproval>().await;
    assert_eq!(again.params, asked.params);
    let (answer, _) = subscribe(&mut other, agent, Some(*at), SubscriptionScope::Thread).await;
    let missed = replayed(&mut other, &answer).await;
    assert!(of_thread(&missed, agent).all(|message| !message.is_replay), "nothing is missed: {missed:?}");
    let decision = CommandExecutionApprovalDecision::Decline;
    other.reply(&again, CommandExecutionRequestApprovalResponse { decision }).await;
    let (done, _) = agent_done(&mut other, &main).await;
    assert_eq!(done, *agent);
    app.model().release("main");
    main_done(&mut other, &main).await;
    other.ignore_rest();
    app.ignore_rest();
}
