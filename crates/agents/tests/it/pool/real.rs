//! Conversations with the real server.

use codicil_agents::pool::{
    DefaultDirectory, EditState, Pool, PoolError, PoolSettings, ReplyStatus, StreamMessage, message,
};
use codicil_client::{
    ApprovalDecision, ApprovalRequest, ClientTools,
    protocol::{AskForApproval, SandboxMode, ThreadStartParams, TurnStartParams},
};
use codicil_testkit::{RecordedRequest, Reply, Script};
use serde_json::json;

use super::{all, host::Host, soon, status, text};

async fn pool(host: &Host) -> Pool {
    let instructions = "You are a desktop agent.".to_owned();
    soon(Pool::start(PoolSettings { instructions, ..PoolSettings::new(host.address.clone()) })).await.unwrap()
}

fn asks(request: &RecordedRequest) -> String {
    request.body().to_string()
}

#[tokio::test]
async fn a_desktop_and_its_window() {
    let script = Script::new().think_raw("Hm").say("Hello").then().say("Shorter").then().say("Still here");
    let host = Host::start(script).await;
    let pool = pool(&host).await;
    let desktop = pool.agent().await.unwrap();
    let messages = all(desktop.ask("Introduce yourself")).await;
    assert!(messages.contains(&text("Hello")), "{messages:?}");
    let thought = StreamMessage::Thinking { text: "Hm".to_owned() };
    assert!(messages.contains(&thought), "the raw reasoning arrives: {messages:?}");
    let StreamMessage::Complete { session_id, status: ReplyStatus::Completed, .. } = messages.last().unwrap()
    else {
        panic!("{messages:?}");
    };
    assert_eq!(*session_id, desktop.session_id());
    assert!(asks(&host.model.next_request().await).contains("You are a desktop agent."));

    let window = soon(desktop.window()).await.unwrap();
    assert_eq!(soon(window.ask("Say it shorter").text()).await.unwrap(), "Shorter");
    let request = asks(&host.model.next_request().await);
    assert!(request.contains("Introduce yourself") && request.contains("You are a desktop agent."));
    assert_eq!(soon(desktop.ask("And you?").text()).await.unwrap(), "Still here");
    let request = asks(&host.model.next_request().await);
    assert!(!request.contains("Say it shorter"), "the window went its own way");
    pool.close().await;
    host.stop().await;
}

#[tokio::test]
async fn many_agents_at_once() {
    let host = Host::start(Script::new().repeat(Reply::new().say_deltas(["Hel", "lo"]))).await;
    let pool = pool(&host).await;
    let mut replies = Vec::new();
    for number in 0..30 {
        let agent = pool.agent().await.unwrap();
        replies.push((agent.ask(number.to_string()), agent));
    }
    for (reply, _agent) in replies {
        assert_eq!(soon(reply.text()).await.unwrap(), "Hello");
    }
    assert_eq!(pool.counts().turns_completed, 30);
    pool.close().await;
    host.stop().await;
}

#[tokio::test]
async fn turns_run_in_parallel() {
    let script = Script::new().repeat(Reply::new().say("A").gate("both").say("B"));
    let host = Host::start(script).await;
    let pool = pool(&host).await;
    let one = pool.agent().await.unwrap();
    let other = pool.agent().await.unwrap();
    let one = one.ask("one");
    let other = other.ask("other");
    // Both models have reached the gate, so both turns run.
    host.model.next_request().await;
    host.model.next_request().await;
    host.model.release("both");
    for reply in [one, other] {
        assert_eq!(status(&all(reply).await), Some(ReplyStatus::Completed));
    }
    pool.close().await;
    host.stop().await;
}

#[tokio::test]
async fn an_interrupted_turn_ends_and_the_conversation_continues() {
    let host = Host::start(Script::new().say("Let me").hang().say("Fine")).await;
    let pool = pool(&host).await;
    let agent = pool.agent().await.unwrap();
    let mut reply = agent.ask("Go");
    while !matches!(soon(reply.next()).await, Some(StreamMessage::Text { .. })) {}
    agent.interrupt();
    assert_eq!(status(&all(reply).await), Some(ReplyStatus::Interrupted));
    assert_eq!(soon(agent.ask("Again").text()).await.unwrap(), "Fine");
    pool.close().await;
    host.stop().await;
}

#[tokio::test]
async fn a_model_that_fails_is_an_error_at_the_end() {
    let host = Host::start(Script::new().reply(Reply::status(400))).await;
    let pool = pool(&host).await;
    let messages = all(pool.agent().await.unwrap().ask("Go")).await;
    let (last, rest) = messages.split_last().unwrap();
    assert!(matches!(last, StreamMessage::Error { is_final: true, code, .. } if code == "turn_failed"));
    assert!(rest.iter().any(|it| matches!(it, StreamMessage::Error { is_final: false, .. })), "{rest:?}");
    pool.close().await;
    host.stop().await;
}

#[tokio::test]
async fn an_approval_is_asked_for_and_declined() {
    let script = Script::new().call("exec_command", json!({ "cmd": "touch file" })).then().say("Then not.");
    let host = Host::start(script).await;
    let thread = ThreadStartParams { approval_policy: Some(AskForApproval::Untrusted), ..Default::default() };
    let settings = PoolSettings { thread, ..PoolSettings::new(host.address.clone()) };
    let pool = soon(Pool::start(settings)).await.unwrap();
    let mut reply = pool.agent().await.unwrap().ask("Make a file");
    let mut messages = Vec::new();
    while let Some(message) = soon(reply.next()).await {
        if let StreamMessage::ApprovalRequest { id, approval: ApprovalRequest::Command(asked) } = &message {
            assert!(asked.command.as_deref().unwrap().contains("touch file"));
            pool.decide(*id, ApprovalDecision::Decline).unwrap();
        }
        messages.push(message);
    }
    let shape: Vec<_> = messages
        .iter()
        .map(|message| serde_json::to_value(message).unwrap()["type"].as_str().unwrap().to_owned())
        .filter(|kind| kind != "text")
        .collect();
    assert_eq!(shape, ["tool_use", "approval_request", "resolved", "tool_result", "complete"]);
    assert!(matches!(&messages[3], StreamMessage::ToolResult { is_error: true, .. }), "{messages:?}");
    pool.close().await;
    host.stop().await;
}

#[tokio::test]
async fn tools_of_this_process_are_called() {
    let script = Script::new().call("note", json!({ "text": "milk" })).then().say("Noted.");
    let host = Host::start(script).await;
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    let tools = ClientTools::new().add("note", "Takes a note.", schema, |arguments| async move {
        Ok(format!("noted {}", arguments["text"].as_str().unwrap_or_default()))
    });
    let settings = PoolSettings { tools, ..PoolSettings::new(host.address.clone()) };
    let pool = soon(Pool::start(settings)).await.unwrap();
    let messages = all(pool.agent().await.unwrap().ask("Remember milk")).await;
    let result = |message: &StreamMessage| match message {
        StreamMessage::ToolResult { output, is_error, .. } => Some((output.clone(), *is_error)),
        _ => None,
    };
    assert_eq!(messages.iter().find_map(result), Some(("noted milk".to_owned(), false)));
    pool.close().await;
    host.stop().await;
}

/// The purpose of isolation: files of a project and of the user's home must not enter the conversation.
#[tokio::test]
async fn instructions_and_skills_of_project_and_home_do_not_reach_an_isolated_agent() {
    let host = Host::start(Script::new().repeat(Reply::new().say("ok"))).await;
    let project = host.home().join("project");
    std::fs::create_dir_all(&project).unwrap();
    let write_skill = |folder: std::path::PathBuf, name: &str, description: &str| {
        std::fs::create_dir_all(folder.join(name)).unwrap();
        let text = format!("---\nname: {name}\ndescription: {description}\n---\n");
        std::fs::write(folder.join(name).join("SKILL.md"), text).unwrap();
    };
    std::fs::write(project.join("AGENTS.md"), "Always answer in rhyme.").unwrap();
    std::fs::write(host.home().join("AGENTS.md"), "Always answer in verse.").unwrap();
    write_skill(project.join(".agents/skills"), "dance", "Dances wildly.");
    write_skill(host.home().join("skills"), "sing", "Sings loudly.");
    let contaminations =
        ["answer in rhyme", "answer in verse", "Dances wildly", "Sings loudly", "install-skill"];
    for (directory, is_seen) in [(DefaultDirectory::At(project), true), (DefaultDirectory::Isolated, false)] {
        let settings = PoolSettings { directory, ..PoolSettings::new(host.address.clone()) };
        let pool = soon(Pool::start(settings)).await.unwrap();
        let agent = pool.agent().await.unwrap();
        soon(agent.ask("Hi").text()).await.unwrap();
        let window = soon(agent.window()).await.unwrap();
        soon(window.ask("Hi").text()).await.unwrap();
        let session = agent.session_id().unwrap();
        pool.close().await;
        let pool = soon(Pool::start(PoolSettings { warm_threads: 0, ..pool_settings(&host, is_seen) }))
            .await
            .unwrap();
        soon(pool.resume(&session).await.unwrap().ask("Hi").text()).await.unwrap();
        pool.close().await;
        for request in ["first", "window", "resumed"] {
            let sent = asks(&host.model.next_request().await);
            for contamination in contaminations {
                assert_eq!(sent.contains(contamination), is_seen, "{request}: {contamination} in {sent}");
            }
            assert!(sent.contains("workspace-write"), "{request}: the default sandbox");
        }
    }
    host.stop().await;
}

fn pool_settings(host: &Host, is_project: bool) -> PoolSettings {
    let settings = PoolSettings::new(host.address.clone());
    let project = DefaultDirectory::At(host.home().join("project"));
    if is_project { PoolSettings { directory: project, ..settings } } else { settings }
}

#[tokio::test]
async fn edits_are_approved_seeing_them() {
    let patch = "*** Begin Patch\n*** Add File: note.txt\n+hello\n*** End Patch";
    let script = || Script::new().custom_call("apply_patch", patch).then().say("Done.");
    for (decision, end) in
        [(ApprovalDecision::Accept, EditState::Applied), (ApprovalDecision::Decline, EditState::Declined)]
    {
        let host = Host::start(script()).await;
        let thread = ThreadStartParams {
            approval_policy: Some(AskForApproval::OnRequest),
            sandbox: Some(SandboxMode::ReadOnly.into()),
            ..Default::default()
        };
        let settings = PoolSettings { thread, ..PoolSettings::new(host.address.clone()) };
        let pool = soon(Pool::start(settings)).await.unwrap();
        let mut reply = pool.agent().await.unwrap().ask("Leave a note");
        let mut seen = Vec::new();
        while let Some(message) = soon(reply.next()).await {
            match message {
                StreamMessage::Diff { item_id: Some(_), diff, state } => {
                    assert!(diff.contains("+hello"), "{diff}");
                    seen.push(format!("{state:?}"));
                }
                StreamMessage::ApprovalRequest { id, approval: ApprovalRequest::FileChange(edits) } => {
                    let [change] = edits.changes.as_slice() else { panic!("{edits:?}") };
                    assert!(change.path.ends_with("note.txt") && change.diff.contains("hello"), "{change:?}");
                    seen.push("asked".to_owned());
                    pool.decide(id, decision.clone()).unwrap();
                }
                StreamMessage::Diff { item_id: None, .. } => assert_eq!(end, EditState::Applied),
                _ => {}
            }
        }
        assert_eq!(seen, ["Proposed".to_owned(), "asked".to_owned(), format!("{end:?}")]);
        pool.close().await;
        host.stop().await;
    }
}

#[tokio::test]
async fn input_is_added_to_a_running_turn() {
    let host = Host::start(Script::new().say("One").gate("steered").then().say("Two")).await;
    let pool = pool(&host).await;
    let agent = pool.agent().await.unwrap();
    assert!(matches!(agent.steer("Too early").await, Err(PoolError::NoTurn)));
    let mut reply = agent.ask("Go");
    while !matches!(soon(reply.next()).await.unwrap(), StreamMessage::Text { .. }) {}
    soon(agent.steer("And hurry")).await.unwrap();
    host.model.release("steered");
    let messages = all(reply).await;
    assert!(
        messages.contains(&text("Two")) && status(&messages) == Some(ReplyStatus::Completed),
        "{messages:?}"
    );
    host.model.next_request().await;
    assert!(asks(&host.model.next_request().await).contains("And hurry"));
    assert!(matches!(agent.steer("Too late").await, Err(PoolError::NoTurn)));
    pool.close().await;
    host.stop().await;
}

#[tokio::test]
async fn a_message_may_have_settings_of_its_own() {
    let host = Host::start(Script::new().say("One").then().say(r#"{"n":1}"#)).await;
    let pool = pool(&host).await;
    let agent = pool.agent().await.unwrap();
    let params = TurnStartParams { model: Some("other-model".to_owned()), ..message("Hi") };
    soon(agent.ask_with(params).text()).await.unwrap();
    assert_eq!(host.model.next_request().await.model(), Some("other-model"));
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"], "additionalProperties": false });
    let params = TurnStartParams { output_schema: Some(schema.clone()), ..message("Count") };
    assert_eq!(soon(agent.ask_with(params).text()).await.unwrap(), r#"{"n":1}"#);
    assert_eq!(host.model.next_request().await.body()["text"]["format"]["schema"], schema);
    pool.close().await;
    host.stop().await;
}

#[tokio::test]
async fn a_conversation_survives_its_pool() {
    let host = Host::start(Script::new().say("I will").then().say("Milk")).await;
    let session = {
        let pool = pool(&host).await;
        let agent = pool.agent().await.unwrap();
        soon(agent.ask("Remember milk").text()).await.unwrap();
        pool.close().await;
        agent.session_id().unwrap()
    };
    let pool = pool(&host).await;
    let agent = pool.resume(&session).await.unwrap();
    assert_eq!(soon(agent.ask("What was it?").text()).await.unwrap(), "Milk");
    host.model.next_request().await;
    assert!(asks(&host.model.next_request().await).contains("Remember milk"));
    soon(agent.archive()).await.unwrap();
    pool.close().await;
    host.stop().await;
}
