//! A forked or resumed thread keeps its permissions.

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
                    // The thread is unloaded when its last subscriber leaves.
                    stage.server.call("thread/unsubscribe", json!({ "threadId": thread.id })).await;
                    stage.server.notification("thread/closed", |_| true).await;
                    stage.server.result("thread/resume", params).await
                }
            };
            check(stage, name, way, &run, &opened).await;
        }
    }
}

/// Checks the reported settings, and what a command can do.
async fn check(stage: &mut Stage<'_>, name: &str, way: &str, run: &Run<'_>, opened: &Value) {
    let is_reported = opened["sandbox"]["type"] == "readOnly" && opened["approvalPolicy"] == "never";
    let reported = format!("{} {}", opened["sandbox"], opened["approvalPolicy"]);
    stage.report.attempt(&format!("{name}-as-reported"), way, !is_reported, reported);
    let line = format!("touch {}", run.work("made"));
    stage.server.turn(&mut Thread::opened(opened), vec![exec(&line, None, json!({}))]).await;
    stage.report.attempt(name, way, run.work.join("made").exists(), "");
}
