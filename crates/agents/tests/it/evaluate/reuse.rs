//! Reuse of a session's thread, and its conditions.

use codicil_agents::{
    evaluate::{ClientConfig, Evaluator, Prompt, SandboxMode, Session, ThreadState, Tool, ToolContext},
    workspace::{HostMount, Workspace},
};
use serde_json::json;

use super::{
    fake::{Servers, evaluator},
    soon,
};

fn config() -> ClientConfig {
    ClientConfig { reuse_thread: true, cwd: Some("/work".into()), ..ClientConfig::default() }
}

/// Returns which of `thread/start` and `thread/resume` the next evaluation sends first.
async fn round(
    evaluator: &Evaluator,
    servers: &mut Servers,
    session: &Session,
    prompt: &Prompt,
) -> &'static str {
    let evaluating = evaluator.evaluate(prompt).session(session).text();
    let (answer, sent) = soon(async { tokio::join!(evaluating, serve(servers)) }).await;
    answer.unwrap();
    sent
}

async fn serve(servers: &mut Servers) -> &'static str {
    let mut fake = servers.accept().await;
    let request = fake.next().await.unwrap();
    fake.reply(&request, json!({ "thread": { "id": "t" } })).await;
    fake.start_turn().await;
    fake.say("Yes.").await;
    fake.complete().await;
    if request["method"] == "thread/resume" { "resume" } else { "start" }
}

/// Unit test: thread resume with session state.
#[tokio::test]
async fn thread_resume_with_session_state() {
    let (evaluator, mut servers) =
        evaluator(ClientConfig { sandbox_mode: Some(SandboxMode::ReadOnly), ..config() });
    let session = Session::new();
    let prompt = Prompt::text("Hi");
    assert_eq!(round(&evaluator, &mut servers, &session, &prompt).await, "start");
    let state = session.get::<ThreadState>().unwrap();
    assert_eq!(
        (&*state.thread_id, state.cwd.to_str(), &state.workspace_fingerprint),
        ("t", Some("/work"), &None)
    );

    let evaluating = evaluator.evaluate(&prompt).session(&session).text();
    let serving = async {
        let mut fake = servers.accept().await;
        let request = fake.expect("thread/resume").await;
        assert_eq!(request["params"]["threadId"], "t");
        assert_eq!(request["params"]["sandbox"], "read-only", "today's settings hold");
        fake.reply(&request, json!({ "thread": { "id": "t" } })).await;
        assert_eq!(fake.start_turn().await["threadId"], "t");
        fake.complete().await;
    };
    let (answer, ()) = soon(async { tokio::join!(evaluating, serving) }).await;
    assert_eq!(&*answer.unwrap().thread_id, "t");

    // Stored and restored.
    let stored = serde_json::to_string(&state).unwrap();
    let later = Session::new();
    later.set(serde_json::from_str::<ThreadState>(&stored).unwrap());
    assert_eq!(round(&evaluator, &mut servers, &later, &prompt).await, "resume");
    assert_eq!(round(&evaluator, &mut servers, &Session::new(), &prompt).await, "start");
}

#[tokio::test]
async fn a_thread_that_cannot_be_resumed_is_replaced() {
    let (evaluator, mut servers) = evaluator(config());
    let session = Session::new();
    let prompt = Prompt::text("Hi");
    round(&evaluator, &mut servers, &session, &prompt).await;
    let evaluating = evaluator.evaluate(&prompt).session(&session).text();
    let serving = async {
        let mut fake = servers.accept().await;
        let request = fake.expect("thread/resume").await;
        fake.refuse(&request, "no rollout found for thread id t").await;
        let request = fake.expect("thread/start").await;
        fake.reply(&request, json!({ "thread": { "id": "t2" } })).await;
        let request = fake.expect("turn/start").await;
        fake.reply(&request, json!({ "turn": { "id": "u", "items": [], "status": "inProgress" } })).await;
        let turn = json!({ "id": "u", "items": [], "status": "completed" });
        fake.notify("turn/completed", json!({ "threadId": "t2", "turn": turn })).await;
    };
    let (answer, ()) = soon(async { tokio::join!(evaluating, serving) }).await;
    assert_eq!(&*answer.unwrap().thread_id, "t2");
    assert_eq!(&*session.get::<ThreadState>().unwrap().thread_id, "t2");
}

#[tokio::test]
async fn another_directory_other_tools_or_no_reuse_start_a_new_thread() {
    let (here, mut servers) = evaluator(config());
    let session = Session::new();
    let prompt = Prompt::text("Hi");
    assert_eq!(round(&here, &mut servers, &session, &prompt).await, "start");
    let with_tool = Prompt::text("Hi").tool(Tool::new("t", "", |_: (), _: ToolContext| async { Ok("") }));
    assert_eq!(round(&here, &mut servers, &session, &with_tool).await, "start");
    assert_eq!(round(&here, &mut servers, &session, &with_tool).await, "resume");

    let (elsewhere, mut servers) = evaluator(ClientConfig { cwd: Some("/other".into()), ..config() });
    assert_eq!(round(&elsewhere, &mut servers, &session, &with_tool).await, "start");
    let (fresh, mut servers) =
        evaluator(ClientConfig { reuse_thread: false, cwd: Some("/other".into()), ..config() });
    assert_eq!(round(&fresh, &mut servers, &session, &with_tool).await, "start");

    let ephemeral = ClientConfig { ephemeral: true, ..config() };
    let (without_storage, mut servers) = evaluator(ephemeral);
    let session = Session::new();
    assert_eq!(round(&without_storage, &mut servers, &session, &prompt).await, "start");
    assert_eq!(session.get::<ThreadState>(), None, "it will not be there");
    assert_eq!(round(&without_storage, &mut servers, &session, &prompt).await, "start");
}

#[tokio::test]
async fn a_thread_is_reused_only_for_the_same_workspace() {
    let host = tempfile::tempdir().unwrap();
    std::fs::write(host.path().join("a"), "one").unwrap();
    let make = || {
        Workspace::builder().allow_root(host.path()).mount(HostMount::new(host.path()).at("host")).create()
    };
    let workspace = make().await.unwrap();
    let (evaluator, mut servers) = evaluator(config());
    let session = Session::new();
    let prompt = Prompt::text("Hi");
    let mut round = async |workspace: &Workspace| {
        let evaluating = evaluator.evaluate(&prompt).session(&session).workspace(workspace).text();
        let (answer, sent) = soon(async { tokio::join!(evaluating, serve(&mut servers)) }).await;
        answer.unwrap();
        sent
    };
    assert_eq!(round(&workspace).await, "start");
    assert_eq!(round(&workspace).await, "resume");
    let state = session.get::<ThreadState>().unwrap();
    assert_eq!(state.workspace_fingerprint.as_ref(), Some(workspace.fingerprint()));
    assert_eq!(state.cwd, workspace.path());
    // The same content in another directory, and different content.
    assert_eq!(round(&make().await.unwrap()).await, "start");
    std::fs::write(host.path().join("a"), "two").unwrap();
    let changed = make().await.unwrap();
    assert_ne!(changed.fingerprint(), workspace.fingerprint());
    session.set(ThreadState { cwd: changed.path().to_owned(), ..state });
    assert_eq!(round(&changed).await, "start");
}

#[tokio::test]
async fn a_thread_is_continued_without_sending_the_prompt_again() {
    let (evaluator, mut servers) =
        evaluator(ClientConfig { cwd: Some("/work".into()), ..ClientConfig::default() });
    let prompt = Prompt::text("Send the letters.");
    let evaluating = evaluator.evaluate(&prompt).continue_thread(&"t".into()).text();
    let serving = async {
        let mut fake = servers.accept().await;
        let request = fake.expect("thread/resume").await;
        assert_eq!(request["params"]["threadId"], "t");
        fake.reply(&request, json!({ "thread": { "id": "t" } })).await;
        let text = fake.start_turn().await["input"][0]["text"].as_str().unwrap().to_owned();
        assert!(text.contains("Continue from where it stopped") && !text.contains("letters"), "{text}");
        fake.say("All sent.").await;
        fake.complete().await;
    };
    let (answer, ()) = soon(async { tokio::join!(evaluating, serving) }).await;
    assert_eq!(answer.unwrap().text, "All sent.");

    // It is not started over if the thread is gone.
    let evaluating = evaluator.evaluate(&prompt).continue_thread(&"t".into()).text();
    let serving = async {
        let mut fake = servers.accept().await;
        let request = fake.expect("thread/resume").await;
        fake.refuse(&request, "no rollout found for thread id t").await;
        assert!(fake.next().await.is_none(), "nothing else is sent");
    };
    let (answer, ()) = soon(async { tokio::join!(evaluating, serving) }).await;
    assert!(answer.unwrap_err().to_string().contains("no rollout found"));
}
