//! Commands that only read: no approval, no item, no network, nothing that can be written. The guardian uses them.

use std::time::Duration;

use codicil_exec::{CaptureLimit, ChildPreparation, Process, ProcessExit, ProcessSpec};
use codicil_policy::AccessGrant;
use codicil_protocol::{ReadOnlyAccess, SandboxPolicy};

use super::{launch::command_environment, output::plain_text, shell_argv};
use crate::{confine, file_access::AccessSources, tools::TurnTools};

/// After this time a command is ended.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How much of each output stream is kept.
const OUTPUT_BYTES: usize = 64 << 10;

/// Runs a shell command under a sandbox in which nothing can be written. Returns its output and how it ended, or why
/// it did not run. Dropping the future kills the command.
pub(in crate::tools) async fn run_read_only(turn: &TurnTools, line: &str, workdir: Option<&str>) -> String {
    let preparation = match confine_read_only(turn).await {
        Ok(preparation) => preparation,
        Err(why) => return format!("the command could not be confined: {why}"),
    };
    let argv = shell_argv(turn, None, line, None).await;
    let cwd = turn.path(workdir.unwrap_or_default());
    let mut spec = ProcessSpec::new(&argv, &cwd, command_environment(turn));
    spec.timeout = Some(TIMEOUT);
    spec.preparation = Some(preparation);
    let process = match Process::spawn(spec).await {
        Ok(process) => process,
        Err(error) => return format!("the command could not be started: {error}"),
    };
    let captured = process.capture(CaptureLimit::HeadTail(OUTPUT_BYTES)).await;
    let end = match captured.exit {
        ProcessExit::TimedOut => format!("ended after {} seconds", TIMEOUT.as_secs()),
        exit => format!("exit code {}", exit.code()),
    };
    format!("{}{}[{end}]", plain_text(&captured.stdout), plain_text(&captured.stderr))
}

async fn confine_read_only(turn: &TurnTools) -> Result<ChildPreparation, String> {
    let mut settings = turn.settings.clone();
    settings.sandbox = read_only_policy(&settings.sandbox);
    let granted = turn.thread.grants().access();
    let readable = AccessGrant {
        read: granted.read.into_iter().chain(granted.write).collect(),
        ..AccessGrant::default()
    };
    let sources = AccessSources::new(&settings, &turn.thread, readable);
    let config = turn.config.clone();
    let engine = turn.thread.engine.clone();
    let confine = move || confine::confine_offline(&sources.request(), &config, &engine.config);
    match tokio::task::spawn_blocking(confine).await {
        Ok(confined) => confined.map_err(|error| error.to_string()),
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

/// Returns a policy that reads what `policy` lets commands read, and allows nothing else.
fn read_only_policy(policy: &SandboxPolicy) -> SandboxPolicy {
    let access = match policy {
        SandboxPolicy::ReadOnly { access, .. } => access.clone(),
        SandboxPolicy::WorkspaceWrite { read_only_access, .. } => read_only_access.clone(),
        _ => ReadOnlyAccess::FullAccess,
    };
    SandboxPolicy::ReadOnly { access, network_access: false }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_policy_becomes_one_that_only_reads() {
        let check = |policy: serde_json::Value, access: serde_json::Value| {
            let policy: SandboxPolicy = serde_json::from_value(policy).unwrap();
            let expected = json!({ "type": "readOnly", "access": access, "networkAccess": false });
            assert_eq!(json!(read_only_policy(&policy)), expected);
        };
        let full = json!({ "type": "fullAccess" });
        let restricted =
            json!({ "type": "restricted", "includePlatformDefaults": true, "readableRoots": ["/data"] });
        check(json!({ "type": "dangerFullAccess" }), full.clone());
        check(json!({ "type": "externalSandbox", "networkAccess": "enabled" }), full.clone());
        check(json!({ "type": "readOnly", "networkAccess": true }), full.clone());
        check(json!({ "type": "readOnly", "access": restricted.clone() }), restricted.clone());
        check(json!({ "type": "workspaceWrite", "networkAccess": true, "writableRoots": ["/w"] }), full);
        check(json!({ "type": "workspaceWrite", "readOnlyAccess": restricted.clone() }), restricted);
    }
}
