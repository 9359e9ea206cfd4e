//! Tools that a model calls, as a client sees them.

mod approvals;
mod commands;
mod crowd;
mod guardian;
mod networks;
mod others;
mod patches;
mod settings;
mod terminals;

use codicil_protocol::{CommandExecutionStatus, ItemCompleted, Thread, ThreadItem, ThreadStartParams};
use codicil_testkit::App;
use serde_json::{Value, json};

/// A thread without a sandbox, where nobody is asked.
pub(crate) async fn free_thread(app: &mut App) -> Thread {
    thread(app, json!({ "approvalPolicy": "never", "sandbox": "danger-full-access" })).await
}

pub(crate) async fn thread(app: &mut App, params: Value) -> Thread {
    let params: ThreadStartParams = serde_json::from_value(params).unwrap();
    app.start_thread_with(params).await
}

/// What the model was told about a call.
fn told(app: &App, call: &str) -> String {
    let requests = app.model().requests();
    let told = requests.iter().rev().find_map(|request| request.tool_output(call));
    told.unwrap_or_else(|| panic!("the model was told nothing about {call}"))
}

/// The next command that is complete.
pub(crate) async fn command_end(app: &mut App) -> (CommandExecutionStatus, Option<i32>, Option<String>) {
    let is_command = |item: &ThreadItem| matches!(item, ThreadItem::CommandExecution { .. });
    let completed = app.until_where::<ItemCompleted>(|completed| is_command(&completed.item)).await;
    let ThreadItem::CommandExecution { status, exit_code, aggregated_output, .. } = completed.item else {
        unreachable!("it was looked for")
    };
    (status, exit_code, aggregated_output)
}

/// Waits until a process is gone: killed is not yet ended.
async fn gone(pid: &str) {
    let stat = format!("/proc/{}/stat", pid.trim());
    let ended = async {
        loop {
            let stat = std::fs::read_to_string(&stat).unwrap_or_default();
            if stat.is_empty() || stat.contains(") Z ") || stat.contains(") X ") {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let in_time = tokio::time::timeout(std::time::Duration::from_secs(20), ended).await;
    assert!(in_time.is_ok(), "process {pid} is left");
}
