//! Long sessions of mixed requests, one per generation. The test client checks each message of the server against the schema
//! of its connection, so these tests fail for the first message that the published schema does not allow.

use codicil_protocol::*;
use codicil_testkit::{App, Script};
use serde_json::{Value, from_value, json};

const PATCH: &str = "*** Begin Patch\n*** Add File: made.txt\n+made\n*** End Patch";

/// Calls a method with params as they are written.
async fn call<M: Method>(app: &mut App, params: Value) -> M::Response {
    app.call::<M>(from_value(params).unwrap()).await
}

/// The model's part of [`work`].
fn script() -> Script {
    let escalated = json!({
        "cmd": "touch outside",
        "sandbox_permissions": "require_escalated",
        "justification": "May I?",
    });
    Script::new()
        .think("Thinking")
        .say("Let me look")
        .call("exec_command", json!({ "cmd": "echo inside" }))
        .then()
        .call("exec_command", escalated)
        .then()
        .custom_call("apply_patch", PATCH)
        .then()
        .say_deltas(["All ", "done"])
        .then()
        .fail("server_error", "no")
        .then()
        .say("A second answer")
}

/// Has the agent work: commands with and without approval, a patch, a turn that fails, a fork.
async fn work(app: &mut App) -> Thread {
    let settings = json!({ "approvalPolicy": "on-request", "sandbox": "workspace-write" });
    let thread = app.start_thread_with(from_value(settings).unwrap()).await;
    app.start_turn(&thread, "Work").await;
    let question = app.expect_request::<CommandExecutionApproval>().await;
    let decision = CommandExecutionApprovalDecision::Accept;
    app.reply(&question, CommandExecutionRequestApprovalResponse { decision }).await;
    let end = app.until::<TurnCompleted>().await;
    assert_eq!(end.turn.status, TurnStatus::Completed);
    assert!(app.workspace().join("made.txt").exists());
    assert_eq!(app.run_turn(&thread, "Fail").await.status, TurnStatus::Failed);
    assert_eq!(app.run_turn(&thread, "Go on").await.status, TurnStatus::Completed);
    thread
}

/// Reads and changes what every client can.
async fn manage(app: &mut App, thread: &Thread) {
    let id = &thread.id;
    call::<ThreadNameSet>(app, json!({ "threadId": id, "name": "Session" })).await;
    assert_eq!(
        call::<ThreadRead>(app, json!({ "threadId": id, "includeTurns": true })).await.thread.turns.len(),
        3
    );
    assert_eq!(call::<ThreadList>(app, json!({})).await.data.len(), 1);
    call::<ThreadLoadedList>(app, json!({})).await;
    call::<ThreadMetadataUpdate>(app, json!({ "threadId": id, "gitInfo": { "branch": "b" } })).await;
    let fork = call::<ThreadFork>(app, json!({ "threadId": id })).await.thread;
    call::<ThreadArchive>(app, json!({ "threadId": fork.id })).await;
    call::<ThreadUnarchive>(app, json!({ "threadId": fork.id })).await;
    call::<ThreadResume>(app, json!({ "threadId": fork.id })).await;
    call::<ThreadShellCommand>(app, json!({ "threadId": fork.id, "command": "echo typed" })).await;
    app.until::<TurnCompleted>().await;
    call::<AccountRead>(app, json!({})).await;
    call::<ModelList>(app, json!({})).await;
    call::<ConfigRead>(app, json!({ "includeLayers": true })).await;
    call::<ConfigRequirementsRead>(app, json!(null)).await;
    call::<ExperimentalFeatureList>(app, json!({})).await;
    call::<CollaborationModeList>(app, json!({})).await;
    call::<SkillsList>(app, json!({})).await;
    call::<PluginList>(app, json!({})).await;
    call::<AppList>(app, json!({})).await;
    call::<McpServerStatusList>(app, json!({})).await;
    call::<CommandExec>(app, json!({ "command": ["echo", "hi"] })).await;
    let file = app.workspace().join("made.txt");
    call::<FsReadFile>(app, json!({ "path": file })).await;
    call::<FsGetMetadata>(app, json!({ "path": file })).await;
    call::<FsReadDirectory>(app, json!({ "path": app.workspace() })).await;
    call::<FuzzyFileSearch>(app, json!({ "query": "made", "roots": [app.workspace()] })).await;
    call::<FeedbackUpload>(app, json!({ "classification": "bug", "includeLogs": false })).await;
}

/// Uses what only 0.166 has.
async fn use_later_methods(app: &mut App, thread: &Thread) {
    let id = &thread.id;
    let page = call::<ThreadTurnsList>(app, json!({ "threadId": id })).await;
    assert_eq!(page.data.len(), 3);
    call::<ThreadItemsList>(app, json!({ "threadId": id })).await;
    call::<ThreadTimelineList>(app, json!({ "threadId": id })).await;
    call::<ThreadSearch>(app, json!({ "searchTerm": "answer" })).await;
    let goal = json!({ "threadId": id, "objective": "Rest", "status": "paused" });
    call::<ThreadGoalSet>(app, goal).await;
    call::<ThreadGoalGet>(app, json!({ "threadId": id })).await;
    call::<ThreadGoalClear>(app, json!({ "threadId": id })).await;
    let key = json!({ "idempotencyKey": "k", "name": "Project", "roots": [] });
    let project = call::<ProjectCreate>(app, key).await.project;
    let moved = json!({ "threadId": id, "projectId": project.id });
    let thread = call::<ThreadMetadataUpdate>(app, moved).await.thread;
    assert_eq!(thread.project_id, Some(project.id.clone()));
    call::<ProjectList>(app, json!({})).await;
    let section = call::<ThreadSectionCreate>(app, json!({ "name": "Section" })).await.section;
    call::<ThreadSectionMove>(app, json!({ "threadId": id, "sectionId": section.id })).await;
    call::<ThreadSectionList>(app, json!({})).await;
    call::<ThreadSettingsUpdate>(app, json!({ "threadId": id, "effort": "high" })).await;
    call::<HooksList>(app, json!({})).await;
    call::<PermissionProfileList>(app, json!({})).await;
    call::<ModelProviderCapabilitiesRead>(app, json!({})).await;
    call::<ServerDiagnostics>(app, json!({})).await;
    call::<PluginInstalled>(app, json!({})).await;
    let last = page.data.first().unwrap();
    call::<ThreadRevert>(app, json!({ "threadId": id, "beforeTurnId": last.id })).await;
    let deleted = json!({ "threadId": id });
    call::<ThreadDelete>(app, deleted).await;
}

#[tokio::test]
async fn a_long_session_keeps_to_the_schema_of_0_118() {
    let mut app = App::builder().experimental().script(script()).start().await;
    let thread = work(&mut app).await;
    manage(&mut app, &thread).await;
    call::<ThreadRollback>(&mut app, json!({ "threadId": thread.id, "numTurns": 1 })).await;
    assert!(app.checked_messages() > 80, "{}", app.checked_messages());
    app.ignore_rest();
}

#[tokio::test]
async fn a_long_session_keeps_to_the_schema_of_0_166() {
    let mut app = App::builder().experimental().later_client().script(script()).start().await;
    let thread = work(&mut app).await;
    manage(&mut app, &thread).await;
    use_later_methods(&mut app, &thread).await;
    assert!(app.checked_messages() > 120, "{}", app.checked_messages());
    app.ignore_rest();
}
