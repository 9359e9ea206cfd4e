//! A new agent: its thread, its model, its questions, and the notifications to its parent.

use codicil_protocol::{
    CollabAgentStatus, CollabAgentTool, CollabAgentToolCallStatus, CommandExecutionApproval,
    CommandExecutionApprovalDecision, CommandExecutionRequestApprovalResponse, Initialize, SessionSource,
    SubAgentSource, Thread, ThreadId, ThreadItem, ThreadList, ThreadLoadedList, ThreadRead, ThreadSourceKind,
    ThreadStarted, ThreadStatus, ThreadStatusChanged, ThreadTurnsList, TurnStatus,
};
use codicil_testkit::{App, Reply, Script};
use serde_json::{from_value, json};

use super::{
    agent_done, is_agent, is_main, listed, main_done, next_call, notifications, output, requests, spawn,
    spawned, texts,
};

fn delegated() -> Script {
    Script::new()
        .reply(spawn("do the sub task").when(is_main))
        .reply(Reply::new().gate("main").say("delegated").when(is_main))
        .reply(Reply::new().say("noted").when(is_main))
        .reply(Reply::new().gate("agent").say("sub answer").when(is_agent))
}

/// Runs that script. The agent ends while its parent is in the middle of a response.
async fn delegate(app: &mut App) -> (Thread, ThreadId) {
    let main = app.start_thread().await;
    app.start_turn(&main, "delegate").await;
    app.model().reached("main").await;
    app.model().release("agent");
    let (agent, _) = agent_done(app, &main).await;
    app.model().release("main");
    app.rest().await;
    (main, agent)
}

/// Clients with a cursor learn of subagents by `thread/started`; others do not expect it.
#[tokio::test]
async fn clients_with_a_cursor_see_the_thread_of_an_agent_start() {
    let mut app = App::builder().uninitialized().script(delegated()).start().await;
    let later = json!({ "clientInfo": { "name": "codex-tui", "version": "0.166.0" },
        "capabilities": { "experimentalApi": true, "codicil": { "version": 1, "cursor": true } } });
    app.call::<Initialize>(from_value(later.clone()).unwrap()).await;
    let mut older = app.another_client().await;
    let info = json!({ "clientInfo": { "name": "codex-tui", "version": "0.166.0" } });
    older.call::<Initialize>(from_value(info).unwrap()).await;
    let main = app.start_thread().await;
    let turn = app.start_turn(&main, "delegate").await;
    let started = app.until::<ThreadStarted>().await.thread;
    assert_eq!(started.parent_thread_id.as_ref(), Some(&main.id));
    app.model().reached("main").await;
    app.model().release("agent");
    let (agent, _) = agent_done(&mut app, &main).await;
    app.model().release("main");
    app.rest().await;
    assert_eq!(started.id, agent);
    let seen = older.rest().await;
    assert_eq!(seen.matches("thread/started").count(), 1, "only that of the main thread: {seen}");

    for filter in ["parentThreadId", "ancestorThreadId"] {
        let params = from_value(json!({ filter: main.id })).unwrap();
        let below = app.call::<ThreadList>(params).await.data;
        assert_eq!(below.iter().map(|thread| &thread.id).collect::<Vec<_>>(), [&agent], "{filter}");
        assert_eq!(below[0].parent_thread_id.as_ref(), Some(&main.id));
        assert_eq!((&below[0].originator, below[0].can_accept_direct_input), (&main.originator, Some(true)));
    }
    let read = app.call::<ThreadRead>(from_value(json!({ "threadId": agent })).unwrap()).await;
    assert_eq!((read.thread.session_id, read.read_state), (Some(main.id.clone()), None));
    assert_eq!(read.thread.thread_source.as_deref(), Some("subagent"));
    let turns = || from_value(json!({ "threadId": agent })).unwrap();
    let listed = app.call::<ThreadTurnsList>(turns()).await.data;
    assert_eq!(listed[0].root_turn_id, Some(turn.id.clone()));
    app.ignore_rest();
    app.restart().await.call::<Initialize>(from_value(later).unwrap()).await;
    let stored = app.call::<ThreadTurnsList>(turns()).await.data;
    assert_eq!(stored[0].root_turn_id, Some(turn.id));
}

#[tokio::test]
async fn an_agent_has_its_own_thread_and_its_parent_is_notified_of_its_end() {
    let mut app = App::start(delegated()).await;
    let main = app.start_thread().await;
    app.start_turn(&main, "delegate").await;

    let first = app.until_where::<ThreadStatusChanged>(|changed| changed.thread_id != main.id).await;
    let call = next_call(&mut app).await;
    app.model().reached("main").await;
    app.model().release("agent");
    let (agent, status) = agent_done(&mut app, &main).await;
    app.model().release("main");
    main_done(&mut app, &main).await;

    assert_eq!((first.thread_id, first.status), (agent.clone(), ThreadStatus::Idle));
    assert_eq!(status, TurnStatus::Completed);
    assert_eq!((call.tool, call.status), (CollabAgentTool::SpawnAgent, CollabAgentToolCallStatus::Completed));
    assert_eq!(
        (call.receivers, call.states),
        (vec![agent.clone()], vec![(CollabAgentStatus::Running, None)])
    );
    let ThreadItem::CollabAgentToolCall { sender_thread_id, prompt, model, .. } = call.item else { panic!() };
    assert_eq!((sender_thread_id, prompt.as_deref()), (main.id.clone(), Some("do the sub task")));
    assert_eq!(model.as_deref(), Some("mock-model"));

    let asked = requests(&app, is_main);
    assert_eq!(asked.len(), 3, "the notification causes one more request, and only one");
    assert_eq!(spawned(&asked[1]), agent.to_string());
    assert!(output(&asked[1], "spawn")["nickname"].is_string());
    let notices = notifications(&asked[2]);
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0]["agent_id"], json!(agent));
    assert_eq!((&notices[0]["status"], &notices[0]["message"]), (&json!("completed"), &json!("sub answer")));
    assert!(notifications(&asked[1]).is_empty());
    app.rest().await;
}

#[tokio::test]
async fn agents_are_listed_if_the_source_kind_is_requested() {
    let mut app = App::start(delegated()).await;
    let (main, agent) = delegate(&mut app).await;

    let loaded = app.call::<ThreadLoadedList>(Default::default()).await.data;
    let people = listed(&mut app, None).await;
    let agents = listed(&mut app, Some(vec![ThreadSourceKind::SubAgentThreadSpawn])).await;

    assert_eq!(loaded, [main.id.clone(), agent.clone()]);
    assert_eq!(people.iter().map(|thread| &thread.id).collect::<Vec<_>>(), [&main.id]);
    assert_eq!(agents.iter().map(|thread| &thread.id).collect::<Vec<_>>(), [&agent]);
    let found = &agents[0];
    assert_eq!((found.preview.as_str(), &found.status), ("do the sub task", &ThreadStatus::Idle));
    let SessionSource::SubAgent(SubAgentSource::ThreadSpawn {
        parent_thread_id,
        depth,
        agent_path,
        agent_nickname,
        agent_role,
    }) = &found.source
    else {
        panic!("{:?}", found.source);
    };
    assert_eq!((parent_thread_id, *depth, agent_path, agent_role), (&main.id, 1, &None, &None));
    assert!(agent_nickname.is_some());
    assert_eq!((&found.agent_nickname, &found.agent_role), (agent_nickname, &None));
    assert_eq!(found.session_id.as_ref(), Some(&main.id));
}

#[tokio::test]
async fn an_agent_has_fewer_tools_and_its_own_history() {
    let mut app = App::start(delegated()).await;
    let (_, agent) = delegate(&mut app).await;

    let of_main = requests(&app, is_main).remove(0);
    let of_agent = requests(&app, is_agent).remove(0);
    let tools = of_main.tools();
    let ours = ["spawn_agent", "send_input", "resume_agent", "wait_agent", "close_agent"];
    assert!(tools.ends_with(&ours), "{tools:?}");
    assert_eq!(of_agent.tools(), ["exec_command", "write_stdin", "update_plan", "web_search", "view_image"]);
    assert_eq!(of_agent.body()["prompt_cache_key"], json!(agent));
    assert_eq!(
        (of_agent.header("session_id"), of_agent.header("originator")),
        (Some(&agent[..]), Some("testkit"))
    );
    assert!(!texts(&of_agent).iter().any(|text| text == "delegate"), "{:?}", texts(&of_agent));
}

#[tokio::test]
async fn an_agent_that_ends_between_turns_is_reported_in_the_next_turn() {
    let script = Script::new()
        .reply(spawn("slowly").when(is_main))
        .reply(Reply::new().say("delegated").when(is_main))
        .reply(Reply::new().gate("agent").say("at last").when(is_agent))
        .reply(Reply::new().say("good").when(is_main));
    let mut app = App::start(script).await;
    let main = app.start_thread().await;
    app.run_turn(&main, "delegate").await;
    app.model().release("agent");
    agent_done(&mut app, &main).await;
    app.rest().await;

    app.restart().await;
    app.resume(&main).await;
    app.run_turn(&main, "and?").await;

    let asked = requests(&app, is_main);
    assert_eq!(asked.len(), 3, "no request is sent between turns");
    let notices = notifications(&asked[2]);
    assert_eq!((notices.len(), &notices[0]["message"]), (1, &json!("at last")));
    assert_eq!(texts(&asked[2]).last().map(String::as_str), Some("and?"));
    app.rest().await;
}

#[tokio::test]
async fn questions_of_an_agent_reach_the_subscribers_of_its_parent() {
    let touch =
        json!({ "cmd": "touch it", "sandbox_permissions": "require_escalated", "justification": "May I?" });
    let script = Script::new()
        .reply(spawn("touch it").when(is_main))
        .reply(Reply::new().say("delegated").when(is_main))
        .reply(Reply::new().call("exec_command", touch).when(is_agent))
        .reply(Reply::new().say("not allowed").when(is_agent))
        .repeat(Reply::new().say("noted"));
    let mut app = App::start(script).await;
    let main = app.start_thread().await;
    app.start_turn(&main, "delegate").await;
    let asked = app.expect_request::<CommandExecutionApproval>().await;
    let mut other = app.another_client().await;
    other.resume(&main).await;

    let replayed = other.expect_request::<CommandExecutionApproval>().await;
    let decision = CommandExecutionApprovalDecision::Decline;
    other.reply(&replayed, CommandExecutionRequestApprovalResponse { decision }).await;
    let (agent, status) = agent_done(&mut other, &main).await;

    assert_ne!(asked.params.thread_id, main.id);
    assert_eq!((&asked.params.thread_id, &replayed.params.thread_id), (&agent, &agent));
    assert_eq!(status, TurnStatus::Completed);
    assert!(!app.workspace().join("it").exists());
    other.ignore_rest();
    app.rest().await;
}

#[tokio::test]
async fn an_agent_may_start_with_the_history_of_its_parent() {
    let fork = json!({ "message": "go on from here", "fork_context": true });
    let script = Script::new()
        .say("the answer is 42")
        .then()
        .reply(Reply::new().think("hm").call("spawn_agent", fork).call_id("spawn").when(is_main))
        .reply(Reply::new().gate("main").say("delegated").when(is_main))
        .reply(Reply::new().gate("agent").say("I know").when(is_agent))
        .reply(Reply::new().say("noted").when(is_main));
    let mut app = App::start(script).await;
    let main = app.start_thread().await;
    app.run_turn(&main, "what is the answer?").await;
    app.start_turn(&main, "delegate").await;
    app.model().reached("main").await;
    app.model().release("agent");
    let (agent, _) = agent_done(&mut app, &main).await;
    app.model().release("main");
    app.rest().await;

    let its = requests(&app, is_agent).remove(0);
    let said = texts(&its);
    let at = |text: &str| said.iter().position(|said| said == text).unwrap_or_else(|| panic!("{said:?}"));
    assert!(at("what is the answer?") < at("the answer is 42"));
    assert!(at("the answer is 42") < at("delegate"));
    assert_eq!(at("go on from here"), said.len() - 1);
    assert_eq!(said.iter().filter(|text| text.starts_with("<environment_context>")).count(), 1);
    let calls = its.input().iter().filter(|item| item["type"] == "function_call").count();
    let outputs = its.input().iter().filter(|item| item["type"] == "function_call_output").count();
    assert_eq!((calls, outputs), (1, 1), "a call without an output would be refused");
    let stored = listed(&mut app, Some(vec![ThreadSourceKind::SubAgentThreadSpawn])).await;
    assert_eq!((&stored[0].id, stored[0].preview.as_str()), (&agent, "go on from here"));
}

#[tokio::test]
async fn an_agent_uses_the_settings_of_its_call() {
    let role = "[agents.scout]\ndescription = \"Looks ahead.\"\nconfig_file = \"scout.toml\"\n\
                nickname_candidates = [\"Kim\"]\n";
    let wish =
        json!({ "message": "look", "agent_type": "scout", "model": "gpt-5", "reasoning_effort": "low" });
    let other = json!({ "message": "look", "agent_type": "worker", "model": "gpt-5.1-codex",
        "reasoning_effort": "high" });
    let script = Script::new()
        .reply(Reply::new().call("spawn_agent", wish).call_id("spawn").when(is_main))
        .reply(Reply::new().call("spawn_agent", other).call_id("other").when(is_main))
        .reply(Reply::new().say("delegated").when(is_main))
        .reply(Reply::new().gate("agents").say("seen").when(is_agent))
        .reply(Reply::new().gate("agents").say("seen").when(is_agent));
    let mut app = App::builder().script(script).config(role).start().await;
    let file = "model = \"gpt-5.2-codex\"\ndeveloper_instructions = \"Look far.\"\n";
    std::fs::write(app.home().join("scout.toml"), file).unwrap();
    let main = app.start_thread().await;
    app.run_turn(&main, "delegate").await;
    app.model().release("agents");
    app.rest().await;

    let asked = requests(&app, is_main);
    assert_eq!(output(&asked[2], "spawn")["nickname"], json!("Kim"));
    let about = asked[0].body()["tools"].to_string();
    assert!(about.contains("Looks ahead.") && about.contains("explorer"), "{about}");
    let mut its = requests(&app, is_agent);
    its.sort_by_key(|request| request.model().map(str::to_owned));
    let shown: Vec<_> =
        its.iter().map(|request| (request.model(), &request.body()["reasoning"]["effort"])).collect();
    assert_eq!(shown, [(Some("gpt-5.1-codex"), &json!("high")), (Some("gpt-5.2-codex"), &json!("low"))]);
    assert!(texts(&its[1]).iter().any(|text| text == "Look far."));
    let roles = listed(&mut app, Some(vec![ThreadSourceKind::SubAgent])).await;
    let mut roles: Vec<_> = roles.into_iter().filter_map(|thread| thread.agent_role).collect();
    roles.sort();
    assert_eq!(roles, ["scout", "worker"]);
}
