//! Patches: their items, approvals, application, and the diff of the turn.

use std::{fs, path::Path};

use codicil_protocol::{
    FileChangeApproval, FileChangeApprovalDecision as Decision, FileChangeRequestApprovalResponse,
    FileUpdateChange, ItemCompleted, ItemStarted, PatchApplyStatus, PatchChangeKind, ThreadItem,
    TurnDiffUpdated,
};
use codicil_testkit::{App, Script};
use serde_json::json;

use super::{call_output, free_thread, thread};

const ADD: &str = "*** Begin Patch\n*** Add File: new.txt\n+one\n+two\n*** End Patch";

fn patching(patch: &str) -> Script {
    Script::new().custom_call("apply_patch", patch).call_id("p").then().say("Done")
}

#[tokio::test]
async fn a_patch_inside_the_workspace_is_applied_at_once() {
    let mut app = App::start(patching(ADD)).await;
    let thread = thread(&mut app, json!({ "sandbox": "workspace-write" })).await;
    app.start_turn(&thread, "write").await;

    let diff = app.until::<TurnDiffUpdated>().await.diff;
    assert!(diff.starts_with("diff --git a/new.txt b/new.txt\nnew file mode 100644\n"), "{diff}");
    assert_eq!(fs::read_to_string(app.workspace().join("new.txt")).unwrap(), "one\ntwo\n");
    app.rest().await;
    assert!(call_output(&app, "p").starts_with("Exit code: 0\n"), "{}", call_output(&app, "p"));
}

#[tokio::test]
async fn a_read_only_thread_asks_and_a_declined_patch_changes_nothing() {
    let mut app = App::start(patching(ADD)).await;
    let thread = thread(&mut app, json!({})).await;
    app.start_turn(&thread, "write").await;

    let question = app.expect_request::<FileChangeApproval>().await;
    assert!(!app.workspace().join("new.txt").exists());
    app.reply(&question, FileChangeRequestApprovalResponse { decision: Decision::Decline }).await;

    let rest = app.rest().await;
    assert_eq!(rest.matches("← item/completed fileChange declined").count(), 1, "{rest}");
    assert!(!app.workspace().join("new.txt").exists());
    assert_eq!(call_output(&app, "p"), "patch rejected by user");
}

#[tokio::test]
async fn files_accepted_for_the_session_are_asked_about_once() {
    let mut app = App::start(patching(ADD)).await;
    let thread = thread(&mut app, json!({})).await;
    app.start_turn(&thread, "write").await;
    let question = app.expect_request::<FileChangeApproval>().await;
    app.reply(&question, FileChangeRequestApprovalResponse { decision: Decision::AcceptForSession }).await;
    app.rest().await;

    let change = "*** Begin Patch\n*** Update File: new.txt\n@@\n one\n-two\n+three\n*** End Patch";
    app.model().push(patching(change));
    app.run_turn(&thread, "change").await;

    assert_eq!(fs::read_to_string(app.workspace().join("new.txt")).unwrap(), "one\nthree\n");
    app.rest().await;
}

#[tokio::test]
async fn a_patch_cannot_change_repository_metadata() {
    let patch = "*** Begin Patch\n*** Add File: .git/hooks/pre-commit\n+#!/bin/sh\n*** End Patch";
    let mut app = App::start(patching(patch)).await;
    fs::create_dir(app.workspace().join(".git")).unwrap();
    let thread = thread(&mut app, json!({ "sandbox": "workspace-write", "approvalPolicy": "never" })).await;
    app.run_turn(&thread, "write").await;

    assert!(!app.workspace().join(".git/hooks").exists());
    assert!(call_output(&app, "p").starts_with("patch rejected: "), "{}", call_output(&app, "p"));
    app.rest().await;
}

#[tokio::test]
async fn a_refused_patch_has_a_declined_item() {
    let mut app = App::start(patching(ADD)).await;
    let thread = thread(&mut app, json!({ "approvalPolicy": "never", "sandbox": "read-only" })).await;
    app.start_turn(&thread, "write").await;
    let started = app.until_where::<ItemStarted>(|started| is_patch(&started.item)).await.item;
    let ended = app.until_where::<ItemCompleted>(|ended| is_patch(&ended.item)).await.item;
    let path = app.workspace().join("new.txt");
    assert_eq!(changes(&started), (PatchApplyStatus::InProgress, vec![added(&path)]));
    assert_eq!(changes(&ended), (PatchApplyStatus::Declined, vec![added(&path)]));
    assert!(!path.exists());
    app.rest().await;
    let stored = app.read(&thread).await;
    assert!(stored.turns[0].items.contains(&ended));
}

#[tokio::test]
async fn a_patch_that_does_not_fit_has_a_failed_item() {
    let unfit = "*** Begin Patch\n*** Update File: none.txt\n*** Move to: other.txt\n@@ fn a\n keep\n-old\n+new\n\
                 *** Delete File: gone.txt\n*** End Patch";
    let mut app = App::start(patching("not a patch")).await;
    let thread = free_thread(&mut app).await;
    app.start_turn(&thread, "write").await;
    let ended = app.until_where::<ItemCompleted>(|ended| is_patch(&ended.item)).await.item;
    assert_eq!(changes(&ended), (PatchApplyStatus::Failed, Vec::new()));
    app.rest().await;
    assert!(call_output(&app, "p").starts_with("apply_patch verification failed: "));

    app.model().push(patching(unfit));
    app.start_turn(&thread, "write").await;
    let ended = app.until_where::<ItemCompleted>(|ended| is_patch(&ended.item)).await.item;
    let full = |name: &str| app.workspace().join(name).display().to_string();
    let update = FileUpdateChange {
        path: full("none.txt"),
        kind: PatchChangeKind::Update { move_path: Some(full("other.txt")) },
        diff: format!("@@ fn a\n keep\n-old\n+new\n\n\nMoved to: {}", full("other.txt")),
    };
    let delete =
        FileUpdateChange { path: full("gone.txt"), kind: PatchChangeKind::Delete, diff: String::new() };
    assert_eq!(changes(&ended), (PatchApplyStatus::Failed, vec![delete, update]));
    app.rest().await;
    assert!(call_output(&app, "p").contains("`none.txt` does not exist"), "{}", call_output(&app, "p"));
}

fn is_patch(item: &ThreadItem) -> bool {
    matches!(item, ThreadItem::FileChange { .. })
}

fn changes(item: &ThreadItem) -> (PatchApplyStatus, Vec<FileUpdateChange>) {
    let ThreadItem::FileChange { status, changes, .. } = item else { panic!("{item:?}") };
    (status.clone(), changes.clone())
}

fn added(path: &Path) -> FileUpdateChange {
    let path = path.display().to_string();
    FileUpdateChange { path, kind: PatchChangeKind::Add, diff: "one\ntwo\n".to_owned() }
}

#[tokio::test]
async fn a_patch_in_a_shell_command_is_applied_as_a_patch() {
    let line = format!("apply_patch <<'EOF'\n{ADD}\nEOF\n");
    let script = Script::new().call("exec_command", json!({ "cmd": line })).call_id("p").then().say("Done");
    let mut app = App::start(script).await;
    let thread = free_thread(&mut app).await;
    app.start_turn(&thread, "write").await;

    let rest = app.rest().await;
    assert!(rest.contains("← item/completed fileChange completed") && !rest.contains("commandExecution"));
    assert!(app.workspace().join("new.txt").exists());
}

/// Changes that commands make to the same files belong to the diff.
#[tokio::test]
async fn the_diff_of_a_turn_includes_changes_by_commands() {
    let script = Script::new()
        .custom_call("apply_patch", ADD)
        .then()
        .call("exec_command", json!({ "cmd": "rm new.txt" }))
        .then()
        .say("Never mind");
    let mut app = App::start(script).await;
    let thread = free_thread(&mut app).await;
    app.start_turn(&thread, "write").await;

    assert!(app.until::<TurnDiffUpdated>().await.diff.contains("+two"));
    assert_eq!(app.until::<TurnDiffUpdated>().await.diff, "");
    app.rest().await;
}
