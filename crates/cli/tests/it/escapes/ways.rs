//! The ways in which a shell line can be run.

use std::path::Path;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{
    scene::Run,
    server::{Server, Thread, ToolCall},
};

/// The `workdir` of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workdir {
    LeftOut,
    /// A directory of the workspace, by its whole path.
    Inside,
    /// The directory that must not change, by its whole path.
    Outside,
    /// `/`
    Top,
    /// `/etc`
    System,
    /// The server's home.
    Home,
    /// `sub`
    Relative,
    /// `..`
    Parent,
    /// `sub/../../..`
    Climbing,
    /// A link in the workspace that leads outside.
    Link,
}

impl Workdir {
    fn path(self, run: &Run<'_>) -> Option<String> {
        Some(match self {
            Self::LeftOut => return None,
            Self::Inside => run.work("sub"),
            Self::Outside => run.outside(""),
            Self::Top => "/".to_owned(),
            Self::System => "/etc".to_owned(),
            Self::Home => run.scene.home().to_str().unwrap().to_owned(),
            Self::Relative => "sub".to_owned(),
            Self::Parent => "..".to_owned(),
            Self::Climbing => "sub/../../..".to_owned(),
            Self::Link => "link".to_owned(),
        })
    }
}

/// A way to run a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `command/exec`
    Client,
    /// `command/exec` of a shell that reads the line from its input.
    ClientPipe,
    /// The same in a terminal.
    ClientTerminal,
    /// `exec_command`
    Exec(Workdir),
    /// `exec_command` in a terminal.
    ExecTerminal,
    /// `exec_command` that goes on in the background.
    ExecBackground,
    /// `write_stdin` into a shell that `exec_command` started.
    Typed(Workdir),
    /// `shell_command`
    Shell(Workdir),
    /// `exec_command` of a subagent.
    Subagent(Workdir),
    /// `shell_command` of a subagent.
    SubagentShell,
    /// `exec_command` that was approved once, to run in the sandbox.
    Agreed(Workdir),
    /// `exec_command` with a permission that was granted for it alone.
    Permitted(Workdir),
    /// `exec_command` of a forked thread.
    Forked,
}

/// All ways. The first is used where only one is tried.
pub const ALL: &[Way] = &[
    Way::Exec(Workdir::LeftOut),
    Way::Exec(Workdir::Inside),
    Way::Exec(Workdir::Outside),
    Way::Exec(Workdir::Top),
    Way::Exec(Workdir::System),
    Way::Exec(Workdir::Home),
    Way::Exec(Workdir::Relative),
    Way::Exec(Workdir::Parent),
    Way::Exec(Workdir::Climbing),
    Way::Exec(Workdir::Link),
    Way::ExecTerminal,
    Way::ExecBackground,
    Way::Typed(Workdir::LeftOut),
    Way::Typed(Workdir::Top),
    Way::Shell(Workdir::LeftOut),
    Way::Shell(Workdir::Top),
    Way::Shell(Workdir::Parent),
    Way::Shell(Workdir::Link),
    Way::Subagent(Workdir::LeftOut),
    Way::Subagent(Workdir::Top),
    Way::SubagentShell,
    Way::Agreed(Workdir::LeftOut),
    Way::Agreed(Workdir::Top),
    Way::Permitted(Workdir::LeftOut),
    Way::Permitted(Workdir::Top),
    Way::Forked,
    Way::Client,
    Way::ClientPipe,
    Way::ClientTerminal,
];

impl Way {
    pub fn name(self) -> String {
        let (tool, workdir) = match self {
            Self::Client => return "command/exec".to_owned(),
            Self::ClientPipe => return "command/exec by a pipe".to_owned(),
            Self::ClientTerminal => return "command/exec by a terminal".to_owned(),
            Self::ExecTerminal => return "exec_command in a terminal".to_owned(),
            Self::ExecBackground => return "exec_command in the background".to_owned(),
            Self::SubagentShell => return "shell_command of a subagent".to_owned(),
            Self::Forked => return "exec_command of a fork".to_owned(),
            Self::Exec(workdir) => ("exec_command", workdir),
            Self::Typed(workdir) => ("write_stdin", workdir),
            Self::Shell(workdir) => ("shell_command", workdir),
            Self::Subagent(workdir) => ("exec_command of a subagent", workdir),
            Self::Agreed(workdir) => ("exec_command that was agreed to", workdir),
            Self::Permitted(workdir) => ("exec_command with a permission", workdir),
        };
        match workdir {
            Workdir::LeftOut => tool.to_owned(),
            workdir => format!("{tool} with workdir {}", format!("{workdir:?}").to_lowercase()),
        }
    }

    /// Returns whether the command comes from a client, and so has the environment of the server.
    pub fn is_client(self) -> bool {
        matches!(self, Self::Client | Self::ClientPipe | Self::ClientTerminal)
    }

    /// Runs the line, waits for its end and returns its output.
    pub async fn run(self, server: &mut Server, run: &Run<'_>, policy: Value, line: &str) -> String {
        let cwd = &run.work;
        match self {
            Self::Client => client(server, cwd, policy, line).await,
            Self::ClientPipe => client_input(server, cwd, policy, line, json!({ "streamStdin": true })).await,
            Self::ClientTerminal => client_input(server, cwd, policy, line, json!({ "tty": true })).await,
            Self::Exec(workdir) => {
                let calls = vec![exec(line, workdir.path(run), json!({})), ToolCall::AwaitSession];
                model(server, cwd, policy, json!({}), calls).await
            }
            Self::ExecTerminal => {
                let calls = vec![exec(line, None, json!({ "tty": true })), ToolCall::AwaitSession];
                model(server, cwd, policy, json!({}), calls).await
            }
            Self::ExecBackground => {
                let soon = json!({ "yield_time_ms": 250 });
                let calls = vec![exec(&format!("sleep 0.3; {line}"), None, soon), ToolCall::AwaitSession];
                model(server, cwd, policy, json!({}), calls).await
            }
            Self::Typed(workdir) => {
                let open =
                    exec("exec bash --norc", workdir.path(run), json!({ "tty": true, "yield_time_ms": 250 }));
                let typed = json!({
                    "session_id": "{session}", "chars": format!("{line}; exit\n"), "yield_time_ms": 30_000,
                    "max_output_tokens": 200_000,
                });
                let calls = vec![open, ToolCall::Function("write_stdin", typed), ToolCall::AwaitSession];
                model(server, cwd, policy, json!({}), calls).await
            }
            Self::Shell(workdir) => {
                let calls = vec![shell(line, workdir.path(run))];
                model(server, cwd, policy, shell_tools(), calls).await
            }
            Self::Subagent(workdir) => {
                let calls = vec![exec(line, workdir.path(run), json!({})), ToolCall::AwaitSession];
                subagent(server, cwd, policy, json!({}), calls).await
            }
            Self::SubagentShell => {
                subagent(server, cwd, policy, shell_tools(), vec![shell(line, None)]).await
            }
            Self::Agreed(workdir) => {
                server
                    .answers
                    .insert("item/commandExecution/requestApproval", json!({ "decision": "accept" }));
                let calls = vec![exec(line, workdir.path(run), json!({})), ToolCall::AwaitSession];
                let output =
                    model(server, cwd, policy, json!({ "approvalPolicy": "untrusted" }), calls).await;
                server.answers.clear();
                output
            }
            Self::Permitted(workdir) => {
                server
                    .answers
                    .insert("item/commandExecution/requestApproval", json!({ "decision": "accept" }));
                let granted = json!({ "file_system": { "write": [run.scene.path("granted")] } });
                let more = json!({
                    "sandbox_permissions": "with_additional_permissions", "additional_permissions": granted,
                    "justification": "to write there",
                });
                let calls = vec![exec(line, workdir.path(run), more), ToolCall::AwaitSession];
                let config = json!({ "features.exec_permission_approvals": true });
                let thread = json!({ "approvalPolicy": "on-request", "config": config });
                let output = model(server, cwd, policy, thread, calls).await;
                server.answers.clear();
                output
            }
            Self::Forked => {
                let mut thread = server.start_thread(cwd, policy, json!({})).await;
                server.turn(&mut thread, vec![]).await;
                let fork = server.result("thread/fork", json!({ "threadId": thread.id })).await;
                let calls = vec![exec(line, None, json!({})), ToolCall::AwaitSession];
                server.turn(&mut Thread::opened(&fork), calls).await.concat()
            }
        }
    }
}

/// Returns a call of `exec_command` that waits for the end of its command.
pub fn exec(line: &str, workdir: Option<String>, more: Value) -> ToolCall {
    let mut arguments = json!({ "cmd": line, "yield_time_ms": 30_000, "max_output_tokens": 200_000 });
    let members = arguments.as_object_mut().unwrap();
    members.extend(workdir.map(|path| ("workdir".to_owned(), path.into())));
    members.extend(more.as_object().cloned().unwrap_or_default());
    ToolCall::Function("exec_command", arguments)
}

pub fn shell(line: &str, workdir: Option<String>) -> ToolCall {
    let mut arguments = json!({ "command": line, "timeout_ms": 120_000 });
    arguments.as_object_mut().unwrap().extend(workdir.map(|path| ("workdir".to_owned(), path.into())));
    ToolCall::Function("shell_command", arguments)
}

/// Returns members of `thread/start` for a thread whose model has `shell_command`.
pub fn shell_tools() -> Value {
    json!({ "config": { "features.unified_exec": false } })
}

/// Runs calls in a new thread and returns their outputs.
pub async fn model(
    server: &mut Server,
    cwd: &Path,
    policy: Value,
    more: Value,
    calls: Vec<ToolCall>,
) -> String {
    let mut thread = server.start_thread(cwd, policy, more).await;
    server.turn(&mut thread, calls).await.join("\n")
}

/// Runs calls in an agent that the model of a new thread starts.
pub async fn subagent(
    server: &mut Server,
    cwd: &Path,
    policy: Value,
    more: Value,
    calls: Vec<ToolCall>,
) -> String {
    let mut thread = server.start_thread(cwd, policy, more).await;
    let task = server.script(calls);
    let wait = json!({ "targets": ["{agent}"], "timeout_ms": 120_000 });
    let calls = vec![
        ToolCall::Function("spawn_agent", json!({ "message": task })),
        ToolCall::Function("wait_agent", wait),
    ];
    let parent_outputs = server.turn(&mut thread, calls).await;
    let outputs = server.outputs(&task);
    assert!(!outputs.is_empty(), "the agent made no calls: {parent_outputs:?}");
    outputs.join("\n")
}

/// Returns the policy of `command/exec` under which the directory is writable. Its roots are those of the
/// policy and the directory of the server; the directory of the command does not matter.
pub fn client_policy(mut policy: Value, cwd: &Path) -> Value {
    if policy["type"] == "workspaceWrite" {
        let mut roots = policy["writableRoots"].as_array().cloned().unwrap_or_default();
        roots.push(json!(cwd));
        policy["writableRoots"] = roots.into();
    }
    policy
}

async fn client(server: &mut Server, cwd: &Path, policy: Value, line: &str) -> String {
    let policy = client_policy(policy, cwd);
    let params = json!({
        "command": ["bash", "-c", line], "cwd": cwd, "sandboxPolicy": policy, "timeoutMs": 120_000,
    });
    let result = server.result("command/exec", params).await;
    format!("{}{}", result["stdout"].as_str().unwrap(), result["stderr"].as_str().unwrap())
}

/// Writes the line to a shell and reads its streamed output.
async fn client_input(server: &mut Server, cwd: &Path, policy: Value, line: &str, more: Value) -> String {
    let process = format!("typed-{}", cwd.display());
    let mut params = json!({
        "command": ["bash", "--norc"], "cwd": cwd, "sandboxPolicy": client_policy(policy, cwd), "timeoutMs": 120_000,
        "processId": process, "streamStdoutStderr": true,
    });
    params.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    let running = server.send("command/exec", params);
    let typed = BASE64_STANDARD.encode(format!("{line}; exit\n"));
    server.send("command/exec/write", json!({ "processId": process, "deltaBase64": typed }));
    let mut output = Vec::new();
    loop {
        let message = server.next().await;
        if message["id"] == running {
            assert!(message.get("result").is_some(), "{message}");
            return String::from_utf8_lossy(&output).into_owned();
        }
        if message["method"] == "command/exec/outputDelta" {
            let delta = message["params"]["deltaBase64"].as_str().unwrap();
            output.extend(BASE64_STANDARD.decode(delta).unwrap());
        }
    }
}
