//! A thread that is forked or resumed keeps the permissions it had.

use serde_json::{Value, json};

use super::{Stage, is_wanted};
use crate::escapes::{scene::Run, server::Thread, ways::exec};

pub async fn make_all(stage: &mut Stage<'_>) {
    for (name, project) in [("widened-by-fork", "settings"), ("widened-by-resume", "settings-loaded")] {
        if !is_wanted(name) {
            continue;
        }
        for (way, members) in [
            ("null settings", json!({ "sandbox": null, "approvalPolicy": null, "approvalsReviewer": null })),
            ("no settings", json!({})),
            ("only a model", json!({ "model": "mock-model" })),
        ] {
            let run = stage.scene.project_run(project);
            let mut thread =
                stage.server.start_thread(&run.work, json!({ "type": "readOnly" }), json!({})).await;
            stage.server.turn(&mut thread, vec![]).await;
            let mut params = json!({ "threadId": thread.id });
            params.as_object_mut().unwrap().extend(members.as_object().cloned().unwrap());
            let opened = match name {
                "widened-by-fork" => stage.server.result("thread/fork", params).await,
                _ => {
                    // The last subscriber's leaving unloads the thread.
                    stage.server.call("thread/unsubscribe", json!({ "threadId": thread.id })).await;
                    stage.server.notification("thread/closed", |_| true).await;
                    stage.server.result("thread/resume", params).await
                }
            };
            check(stage, name, way, &run, &opened).await;
        }
    }
}

/// Looks at the settings that are told, and at what a command can do.
async fn check(stage: &mut Stage<'_>, name: &str, way: &str, run: &Run<'_>, opened: &Value) {
    let is_told = opened["sandbox"]["type"] == "readOnly" && opened["approvalPolicy"] == "never";
    let told = format!("{} {}", opened["sandbox"], opened["approvalPolicy"]);
    stage.report.attempt(&format!("{name}-as-told"), way, !is_told, told);
    let line = format!("touch {}", run.work("made"));
    stage.server.turn(&mut Thread::opened(opened), vec![exec(&line, None, json!({}))]).await;
    stage.report.attempt(name, way, run.work.join("made").exists(), "");
}
