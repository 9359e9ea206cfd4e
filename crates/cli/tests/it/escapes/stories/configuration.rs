//! A command or a patch writes configuration into a trusted project, which must not be executed.

use serde_json::json;

use super::{Stage, is_wanted};
use crate::escapes::{
    lines::{unconfined, workspace_write},
    patches::{apply, patch_text},
    scene::Run,
    server::Thread,
    ways::{Way, Workdir, exec, model},
};

/// A name, the line that writes the configuration, and the directory of the next thread below the workspace.
/// `$MCP` and `$HOOKS` stand for files with a server and a hook that make `$OUTSIDE/marker`.
const CONFIGURATIONS: &[(&str, &str, &str)] = &[
    ("codicil-config-created", "mkdir .codicil && cp $MCP .codicil/config.toml", ""),
    ("codex-config-created", "mkdir .codex && cp $MCP .codex/config.toml", ""),
    ("codex-hooks-created", "mkdir .codex && cp $HOOKS .codex/hooks.json", ""),
    ("codicil-config-renamed", "mkdir c && cp $MCP c/config.toml && mv c .codicil", ""),
    ("codicil-config-linked", "mkdir c && cp $MCP c/config.toml && ln -s c .codicil", ""),
    (
        "codicil-file-linked",
        "mkdir c && cp $MCP c/config.toml; mkdir .codicil && ln -s ../c/config.toml .codicil/",
        "",
    ),
    ("codicil-config-from-tmp", "d=$(mktemp -d) && cp $MCP $d/config.toml && mv $d .codicil", ""),
    ("codicil-config-below", "mkdir sub/.codicil && cp $MCP sub/.codicil/config.toml", "sub"),
    ("codex-config-below", "mkdir -p new/.codex && cp $MCP new/.codex/config.toml", "new"),
    (
        "codicil-config-in-moved-folder",
        "mkdir -p a/.codicil && cp $MCP a/.codicil/config.toml && rm -rf sub && mv a sub",
        "sub",
    ),
];

/// How the configuration is written.
const WRITERS: [&str; 6] = [
    "proof",
    "exec_command",
    "shell_command",
    "command/exec",
    "exec_command of a subagent",
    "exec_command and a reload",
];

/// The files of patches that write configuration.
const PATCHED: &[(&str, &str, &str)] = &[
    ("codicil-config-patched", ".codicil/config.toml", ""),
    ("codex-config-patched", ".codex/config.toml", ""),
    ("codicil-config-patched-below", "sub/.codicil/config.toml", "sub"),
];

fn project(name: &str, writer: &str) -> String {
    format!("{name}-{}", writer.replace([' ', '/'], "-"))
}

/// Returns tables of `config.toml` that trust the projects of all attempts.
pub fn trusted_projects(scene: &crate::escapes::scene::Scene) -> String {
    let made = CONFIGURATIONS.iter().flat_map(|(name, ..)| WRITERS.map(|writer| project(name, writer)));
    let patched =
        PATCHED.iter().flat_map(|(name, ..)| ["proof", "apply_patch"].map(|writer| project(name, writer)));
    let others = ["settings", "settings-loaded"].map(str::to_owned);
    let names = made.chain(patched).chain(others);
    let table = |name: String| {
        let path = scene.path("projects").join(name).join("work");
        format!("[projects.\"{}\"]\ntrust_level = \"trusted\"\n", path.display())
    };
    names.map(table).collect()
}

fn server_table(run: &Run<'_>) -> String {
    format!("[mcp_servers.escape]\ncommand = \"touch\"\nargs = [\"{}\"]\n", run.outside("marker"))
}

pub async fn make_all(stage: &mut Stage<'_>) {
    for (name, line, next) in CONFIGURATIONS.iter().filter(|(name, ..)| is_wanted(name)) {
        for writer in WRITERS {
            let is_one = matches!(writer, "proof" | "exec_command");
            if !stage.thorough && !is_one {
                continue;
            }
            let open = written_by_command(stage, name, line, next, writer).await;
            match writer {
                "proof" if !open => {
                    stage.report.skip(name, "is not used without a sandbox either");
                    break;
                }
                "proof" => {}
                writer => stage.report.attempt(name, writer, open, ""),
            }
        }
    }
    for (name, file, next) in PATCHED.iter().filter(|(name, ..)| is_wanted(name)) {
        if written_by_patch(stage, name, file, next, "proof").await {
            let open = written_by_patch(stage, name, file, next, "apply_patch").await;
            stage.report.attempt(name, "apply_patch", open, "");
        } else {
            stage.report.skip(name, "is not used without a sandbox either");
        }
    }
}

/// Returns whether configuration that a command wrote is executed when the next thread starts.
async fn written_by_command(stage: &mut Stage<'_>, name: &str, line: &str, next: &str, writer: &str) -> bool {
    let run = stage.scene.project_run(&project(name, writer));
    if !next.is_empty() {
        // The root of the project is that of its repository.
        stage.scene.write(&run.work.join(".git/HEAD"), "ref: refs/heads/main\n");
        stage.scene.give(&run.work);
    }
    let hook = json!({ "type": "command", "command": format!("touch {}", run.outside("marker")) });
    let hooks = json!({ "hooks": { "SessionStart": [{ "hooks": [hook] }] } });
    stage.scene.write(&run.outside.join("servers.toml"), &server_table(&run));
    stage.scene.write(&run.outside.join("hooks.json"), &hooks.to_string());
    let line =
        line.replace("$MCP", &run.outside("servers.toml")).replace("$HOOKS", &run.outside("hooks.json"));
    let line = format!("cd {} && {line}", run.work.display());
    let server = &mut *stage.server;
    match writer {
        "proof" => drop(Way::Exec(Workdir::LeftOut).run(server, &run, unconfined(), &line).await),
        "shell_command" => {
            drop(Way::Shell(Workdir::LeftOut).run(server, &run, workspace_write(), &line).await)
        }
        "command/exec" => drop(Way::Client.run(server, &run, workspace_write(), &line).await),
        "exec_command of a subagent" => {
            drop(Way::Subagent(Workdir::LeftOut).run(server, &run, workspace_write(), &line).await);
        }
        "exec_command and a reload" => {
            let mut thread =
                server.start_thread(&run.work.join(next_directory(next)), workspace_write(), json!({})).await;
            server.turn(&mut thread, vec![exec(&line, None, json!({}))]).await;
            server.call("config/mcpServer/reload", json!({})).await;
            server.turn(&mut thread, vec![]).await;
        }
        _ => drop(Way::Exec(Workdir::LeftOut).run(server, &run, workspace_write(), &line).await),
    }
    marker_appears(stage, &run, next).await
}

/// Returns the directory of a thread. One that does not exist yet cannot be used.
fn next_directory(next: &str) -> &str {
    if next == "new" { "" } else { next }
}

async fn written_by_patch(stage: &mut Stage<'_>, name: &str, file: &str, next: &str, writer: &str) -> bool {
    let run = stage.scene.project_run(&project(name, writer));
    if !next.is_empty() {
        stage.scene.write(&run.work.join(".git/HEAD"), "ref: refs/heads/main\n");
        stage.scene.give(&run.work);
    }
    let lines: String = server_table(&run).lines().map(|line| format!("+{line}\n")).collect();
    let patch = patch_text(&run, &format!("*** Add File: {file}\n{}", lines.trim_end()));
    let policy = if writer == "proof" { unconfined() } else { workspace_write() };
    model(stage.server, &run.work, policy, json!({}), vec![apply(&patch)]).await;
    marker_appears(stage, &run, next).await
}

/// Starts a thread and a turn, which waits for servers and hooks. Returns whether they created the marker.
async fn marker_appears(stage: &mut Stage<'_>, run: &Run<'_>, next: &str) -> bool {
    let params = json!({ "cwd": run.work.join(next), "approvalPolicy": "never", "sandbox": "read-only" });
    let started = stage.server.call("thread/start", params).await;
    if started.get("result").is_some() {
        stage.server.turn(&mut Thread::opened(&started["result"]), vec![]).await;
    }
    run.outside.join("marker").exists()
}
