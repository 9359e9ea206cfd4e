//! Tools that a model calls.

mod approvals;
mod commands;
mod guardian;
mod mcp;
mod network;
mod other_tools;
mod patches;
mod settings;
mod terminals;
mod tool_search;

use codicil_protocol::{CommandExecutionStatus, ItemCompleted, Thread, ThreadItem, ThreadStartParams};
use codicil_testkit::App;
use serde_json::{Value, json};

/// Starts a thread without sandbox and approvals.
pub(crate) async fn free_thread(app: &mut App) -> Thread {
    thread(app, json!({ "approvalPolicy": "never", "sandbox": "danger-full-access" })).await
}

pub(crate) async fn thread(app: &mut App, params: Value) -> Thread {
    let params: ThreadStartParams = serde_json::from_value(params).unwrap();
    app.start_thread_with(params).await
}

/// Returns the output of a call in the latest request that has it.
fn call_output(app: &App, call: &str) -> String {
    let requests = app.model().requests();
    let output = requests.iter().rev().find_map(|request| request.tool_output(call));
    output.unwrap_or_else(|| panic!("no request has an output of {call}"))
}

/// Waits for the next completed command and returns its status, exit code and output.
pub(crate) async fn command_end(app: &mut App) -> (CommandExecutionStatus, Option<i32>, Option<String>) {
    let is_command = |item: &ThreadItem| matches!(item, ThreadItem::CommandExecution { .. });
    let completed = app.until_where::<ItemCompleted>(|completed| is_command(&completed.item)).await;
    let ThreadItem::CommandExecution { status, exit_code, aggregated_output, .. } = completed.item else {
        unreachable!("the item is a command")
    };
    (status, exit_code, aggregated_output)
}
