//! The generation of the protocol that a connection uses: how it is chosen, and what differs.

use codicil_protocol::{
    CODICIL_VERSION, CommandExecutionApproval, CommandExecutionApprovalDecision,
    CommandExecutionRequestApprovalResponse, Initialize, ItemCompleted, ThreadFork, ThreadGoalSet,
    ThreadItem, ThreadList, ThreadListParams, ThreadMetadataUpdate, ThreadRead, ThreadResume,
    ThreadSettingsUpdate, ThreadStart, ThreadStartParams, ThreadTokenUsageUpdated, ThreadTurnsList,
    ThreadUnsubscribe, ThreadUnsubscribeParams, ThreadUnsubscribeStatus, TurnCompleted, TurnItemsView,
    TurnStart, TurnStartParams, TurnStatus,
};
use codicil_testkit::{App, Reply, Script};
use serde_json::{Value, from_value, json};

const LATER: &str = "0.166.0";
const EARLIER: &str = "0.118.0";

/// Starts a server with one client, the terminal interface of this version.
async fn app_of(version: &str, script: Script) -> App {
    app_with(version, json!({ "experimentalApi": true }), script).await
}

async fn app_with(version: &str, capabilities: Value, script: Script) -> App {
    let mut app = App::builder().uninitialized().script(script).start().await;
    let client = json!({ "name": "codex-tui", "version": version });
    let hello = json!({ "clientInfo": client, "capabilities": capabilities });
    app.call::<Initialize>(from_value(hello).unwrap()).await;
    app
}

fn prompt(thread: &codicil_protocol::Thread) -> TurnStartParams {
    from_value(json!({ "threadId": thread.id, "input": [{ "type": "text", "text": "Go" }] })).unwrap()
}

#[tokio::test]
async fn the_user_agent_announces_the_generation() {
    let check = async |hello: Value, version: &str| {
        let mut app = App::builder().uninitialized().start().await;
        let answer = app.call::<Initialize>(from_value(hello.clone()).unwrap()).await;
        let name = hello["clientInfo"]["name"].as_str().unwrap();
        assert!(answer.user_agent.starts_with(&format!("{name}/{version} ")), "{}", answer.user_agent);
    };
    check(json!({ "clientInfo": { "name": "codex-tui", "version": LATER } }), LATER).await;
    check(json!({ "clientInfo": { "name": "codex-tui", "version": EARLIER } }), EARLIER).await;
    let client = json!({ "name": "editor", "version": "3" });
    let capabilities = json!({ "requestAttestation": true });
    check(json!({ "clientInfo": client, "capabilities": capabilities }), LATER).await;
}

#[tokio::test]
async fn a_client_that_asks_for_a_generation_is_answered() {
    let mut app = App::builder().uninitialized().start().await;
    let extensions = json!({ "codicil/protocol": { "protocolVersion": "0.166" } });
    let client = json!({ "name": "editor", "version": "3" });
    let hello = json!({ "clientInfo": client, "capabilities": { "extensions": extensions } });
    let answer = app.call::<Initialize>(from_value(hello).unwrap()).await;
    let protocol = answer.extensions.unwrap().protocol;
    assert_eq!(protocol.protocol_version, LATER);
    let capability = |method: &str| serde_json::to_value(&protocol.capabilities[method]).unwrap();
    assert_eq!(capability("thread/revert"), "stable");
    assert!(!protocol.capabilities.contains_key("thread/start"));
}

#[tokio::test]
async fn the_end_of_a_turn_has_the_last_message_in_the_later_generation_only() {
    for (version, view) in [(LATER, TurnItemsView::Summary), (EARLIER, TurnItemsView::NotLoaded)] {
        let mut app = app_of(version, Script::new().say("Hello")).await;
        let thread = app.call::<ThreadStart>(ThreadStartParams::default()).await.thread;
        app.call::<TurnStart>(prompt(&thread)).await;
        let turn = app.until::<TurnCompleted>().await.turn;
        assert_eq!(turn.items_view, view, "{version}");
        let texts = turn.items.iter().map(|item| match item {
            ThreadItem::AgentMessage { text, .. } => text.as_str(),
            other => panic!("{other:?}"),
        });
        let expected: &[&str] = if version == LATER { &["Hello"] } else { &[] };
        assert_eq!(texts.collect::<Vec<_>>(), expected, "{version}");
        app.ignore_rest();
    }
}

#[tokio::test]
async fn the_first_later_request_changes_the_generation_of_a_connection() {
    let mut app = App::builder().script(Script::new().say("One").then().say("Two")).start().await;
    let thread = app.start_thread().await;
    app.call::<TurnStart>(prompt(&thread)).await;
    assert!(app.until::<TurnCompleted>().await.turn.items.is_empty());
    let page = from_value(json!({ "threadId": thread.id })).unwrap();
    let turns = app.call::<ThreadTurnsList>(page).await.data;
    assert_eq!(turns[0].items_view, TurnItemsView::Summary);
    app.call::<TurnStart>(prompt(&thread)).await;
    assert_eq!(app.until::<TurnCompleted>().await.turn.items.len(), 1);
    app.ignore_rest();
}

#[tokio::test]
async fn a_later_member_changes_the_generation_of_a_connection() {
    let mut app = App::builder().script(Script::new().say("One")).start().await;
    let thread = app.start_thread().await;
    app.call::<TurnStart>(TurnStartParams {
        client_user_message_id: Some("mine".to_owned()),
        ..prompt(&thread)
    })
    .await;
    assert_eq!(app.until::<TurnCompleted>().await.turn.items.len(), 1);
    app.ignore_rest();
}

#[tokio::test]
async fn a_turn_goes_on_when_the_last_later_subscriber_leaves() {
    let mut app = app_of(LATER, Script::new().gate("go").say("Hello").usage(100, 0, 10, 0)).await;
    let thread = app.call::<ThreadStart>(ThreadStartParams::default()).await.thread;
    let turn = app.call::<TurnStart>(prompt(&thread)).await.turn;
    let left = ThreadUnsubscribeParams { thread_id: thread.id.clone() };
    assert_eq!(
        app.call::<ThreadUnsubscribe>(left.clone()).await.status,
        ThreadUnsubscribeStatus::Unsubscribed
    );
    assert_eq!(app.call::<ThreadUnsubscribe>(left).await.status, ThreadUnsubscribeStatus::NotSubscribed);
    app.model().release("go");
    loop {
        let page = from_value(json!({ "threadId": thread.id })).unwrap();
        let turns = app.call::<ThreadTurnsList>(page).await.data;
        assert_eq!(turns[0].id, turn.id);
        if turns[0].status != TurnStatus::InProgress {
            assert_eq!(turns[0].status, TurnStatus::Completed);
            break;
        }
        tokio::task::yield_now().await;
    }
    // The client has missed the usage. It gets it with the new subscription.
    app.call::<ThreadResume>(from_value(json!({ "threadId": thread.id })).unwrap()).await;
    let updated = app.until::<ThreadTokenUsageUpdated>().await;
    assert_eq!((updated.turn_id, updated.token_usage.total.total_tokens), (turn.id, 110));
    app.ignore_rest();
}

/// The test clients check each message against the schema of their own generation.
#[tokio::test]
async fn clients_of_both_generations_watch_one_thread_in_their_own_terms() {
    let script = Script::new()
        .say("Heard")
        .then()
        .call("exec_command", json!({ "cmd": "echo hi" }))
        .then()
        .call("update_goal", json!({ "status": "complete" }))
        .then()
        .say("Done");
    let mut app = App::builder().experimental().script(script).start().await;
    let thread = app.start_thread().await;
    let mut later = app.another_client().await;
    later
        .call::<ThreadResume>(from_value(json!({ "threadId": thread.id, "excludeTurns": true })).unwrap())
        .await;
    let audio = json!([{ "type": "audio", "url": "data:audio/wav;base64,UklGRg==" }]);
    let spoken = json!({ "threadId": thread.id, "input": audio, "clientUserMessageId": "mine" });
    later.call::<TurnStart>(from_value(spoken).unwrap()).await;
    later.until::<TurnCompleted>().await;
    later
        .call::<ThreadGoalSet>(
            from_value(json!({ "threadId": thread.id, "objective": "x", "status": "paused" })).unwrap(),
        )
        .await;
    let output = json!({ "name": "tool", "output": "RESULT" });
    let turn = json!({ "threadId": thread.id, "input": [], "toolOutput": output, "effort": "max" });
    later.call::<TurnStart>(from_value(turn).unwrap()).await;
    let seen = |item: &ThreadItem| matches!(item, ThreadItem::FunctionCallOutput { .. });
    later.until_where::<ItemCompleted>(|completed| seen(&completed.item)).await;
    later.until::<TurnCompleted>().await;

    let (mut heard, mut ends) = (String::new(), 0);
    while ends < 2 {
        let message = app.next_message().await;
        ends += usize::from(message["method"] == "turn/completed");
        heard.push_str(&message.to_string());
    }
    assert!(heard.contains("commandExecution") && heard.contains("[audio]"), "{heard}");
    for unknown in ["functionCallOutput", "readState", "\"audio\"", "settings/updated"] {
        assert!(!heard.contains(unknown), "{unknown}: {heard}");
    }
    let items = |turns: &[codicil_protocol::Turn]| serde_json::to_string(turns).unwrap();
    let earlier_turns = app.read(&thread).await.turns;
    let text = items(&earlier_turns);
    assert!(!text.contains("functionCallOutput") && text.contains("[audio]"), "{text}");
    assert!(text.contains("commandExecution"), "{text}");
    let whole = json!({ "threadId": thread.id, "includeTurns": true });
    let later_turns = later.call::<ThreadRead>(from_value(whole).unwrap()).await.thread.turns;
    let text = items(&later_turns);
    assert!(text.contains("functionCallOutput") && text.contains(r#""type":"audio""#), "{text}");
    let forked = json!({ "threadId": thread.id });
    let forked = app.call::<ThreadFork>(from_value(forked).unwrap()).await.thread;
    assert!(!items(&forked.turns).contains("functionCallOutput"));
    app.ignore_rest();
    later.ignore_rest();
}

#[tokio::test]
async fn on_failure_is_refused_in_the_later_generation() {
    let start = json!({ "id": 9, "method": "thread/start", "params": { "approvalPolicy": "on-failure" } });
    let mut app = app_of(LATER, Script::new()).await;
    let message = app.exchange(start.clone()).await["error"]["message"].clone();
    assert!(message.as_str().unwrap().contains("unknown variant `on-failure`"), "{message}");
    let mut app = app_of(EARLIER, Script::new()).await;
    assert_eq!(app.exchange(start).await["result"]["approvalPolicy"], "on-failure");
    app.ignore_rest();
}

#[tokio::test]
async fn the_kind_of_a_providers_refusal_depends_on_the_generation() {
    let later = json!({ "httpConnectionFailed": { "httpStatusCode": 401 } });
    for (version, expected) in [(EARLIER, json!("unauthorized")), (LATER, later)] {
        let reply = Reply::status(401).body(json!({ "error": { "message": "no" } }));
        let mut app = app_of(version, reply.into()).await;
        let thread = app.call::<ThreadStart>(ThreadStartParams::default()).await.thread;
        app.call::<TurnStart>(prompt(&thread)).await;
        let failed = app.until::<TurnCompleted>().await.turn.error.unwrap();
        assert_eq!(json!(failed.codex_error_info), expected, "{version}");
        let whole = json!({ "threadId": thread.id, "includeTurns": true });
        let read = app.call::<ThreadRead>(from_value(whole).unwrap()).await.thread;
        assert_eq!(read.turns[0].error.as_ref(), Some(&failed), "{version}");
        app.ignore_rest();
    }
}

#[tokio::test]
async fn declined_commands_are_left_out_of_the_history_in_the_later_generation() {
    let command =
        json!({ "cmd": "touch made", "sandbox_permissions": "require_escalated", "justification": "May I?" });
    let plain = json!({ "experimentalApi": true });
    let extended = json!({ "experimentalApi": true, "codicil": { "version": CODICIL_VERSION } });
    for (version, capabilities, is_listed) in
        [(EARLIER, &plain, true), (LATER, &plain, false), (LATER, &extended, true)]
    {
        let script = Script::new().call("exec_command", command.clone()).then().say("Done");
        let mut app = app_with(version, capabilities.clone(), script).await;
        let asking = from_value(json!({ "approvalPolicy": "on-request" })).unwrap();
        let thread = app.call::<ThreadStart>(asking).await.thread;
        app.call::<TurnStart>(prompt(&thread)).await;
        let question = app.expect_request::<CommandExecutionApproval>().await;
        let decision = CommandExecutionApprovalDecision::Decline;
        app.reply(&question, CommandExecutionRequestApprovalResponse { decision }).await;
        app.until::<TurnCompleted>().await;
        let whole = json!({ "threadId": thread.id, "includeTurns": true });
        let read = app.call::<ThreadRead>(from_value(whole).unwrap()).await.thread;
        let is_command = |item: &ThreadItem| matches!(item, ThreadItem::CommandExecution { .. });
        assert_eq!(read.turns[0].items.iter().any(is_command), is_listed, "{version} {capabilities}");
        app.ignore_rest();
    }
}

#[tokio::test]
async fn a_fork_is_listed_after_its_first_own_turn_in_the_later_generation() {
    let mut app = app_of(LATER, Script::new().say("One").then().say("Two")).await;
    let thread = app.call::<ThreadStart>(ThreadStartParams::default()).await.thread;
    app.run_turn(&thread, "Go").await;
    let fork = from_value(json!({ "threadId": thread.id })).unwrap();
    let fork = app.call::<ThreadFork>(fork).await.thread;
    assert_eq!(fork.forked_from_id.as_ref(), Some(&thread.id));
    let listed = app.call::<ThreadList>(ThreadListParams::default()).await;
    assert_eq!(listed.data.iter().map(|listed| &listed.id).collect::<Vec<_>>(), [&thread.id]);
    assert_eq!(listed.read_states.unwrap().len(), 1);
    app.run_turn(&fork, "Go on").await;
    let listed = app.call::<ThreadList>(ThreadListParams::default()).await.data;
    assert_eq!(listed.iter().map(|listed| &listed.id).collect::<Vec<_>>(), [&fork.id, &thread.id]);
    assert_eq!(listed[0].forked_from_id, None);
    app.ignore_rest();
}

#[tokio::test]
async fn only_settings_that_change_are_announced() {
    let mut app = app_of(LATER, Script::new()).await;
    let thread = app.call::<ThreadStart>(ThreadStartParams::default()).await.thread;
    app.rest().await;
    for effort in ["low", "low", "high"] {
        let change = json!({ "threadId": thread.id, "effort": effort });
        app.call::<ThreadSettingsUpdate>(from_value(change).unwrap()).await;
    }
    let rest = app.rest().await;
    assert_eq!(rest.matches("thread/settings/updated").count(), 2, "{rest}");
}

#[tokio::test]
async fn an_empty_change_of_metadata_is_refused_in_words_of_the_generation() {
    let whole = "thread metadata update must include at least one field";
    let git = "gitInfo must include at least one field";
    for (version, change, expected) in [
        (EARLIER, json!({}), git),
        (LATER, json!({}), whole),
        (LATER, json!({ "projectId": null }), whole),
        (LATER, json!({ "gitInfo": {} }), git),
    ] {
        let mut app = app_of(version, Script::new()).await;
        let thread = app.call::<ThreadStart>(ThreadStartParams::default()).await.thread;
        let mut params = change.clone();
        params["threadId"] = json!(thread.id);
        let refused = app.try_call::<ThreadMetadataUpdate>(from_value(params).unwrap()).await.unwrap_err();
        assert_eq!(refused.message, expected, "{version} {change}");
        app.ignore_rest();
    }
}
