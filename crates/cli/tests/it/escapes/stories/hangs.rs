//! Named pipes and locks instead of files that the server reads: it must not hang.

use std::{fs, path::Path};

use rustix::fs::{Mode, OFlags, open};
use serde_json::json;

use super::{Stage, is_wanted, soon};
use crate::escapes::{
    lines::workspace_write,
    patches::apply,
    server::ToolCall,
    ways::{Way, Workdir, exec},
};

/// A name, and a line that creates a named pipe where the server reads when a thread starts.
const PIPES: &[(&str, &str)] = &[
    ("pipe-as-instructions", "mkfifo AGENTS.md"),
    ("pipe-as-git-head", "mkdir .git && mkfifo .git/HEAD"),
    ("pipe-as-git-file", "mkfifo .git"),
    ("pipe-as-configuration", "mkdir .codicil && mkfifo .codicil/config.toml"),
    ("pipe-as-skill", "mkdir -p .agents/skills/x && mkfifo .agents/skills/x/SKILL.md"),
];

pub async fn make_all(stage: &mut Stage<'_>) {
    for (name, line) in PIPES.iter().filter(|(name, _)| is_wanted(name)) {
        let run = stage.scene.run();
        let line = format!("cd {} && {line}", run.work.display());
        Way::Exec(Workdir::LeftOut).run(stage.server, &run, workspace_write(), &line).await;
        let hung = soon(async {
            let mut thread = stage.server.start_thread(&run.work, workspace_write(), json!({})).await;
            stage.server.turn(&mut thread, vec![]).await;
        });
        let hung = hung.await.is_none();
        open_pipes(&run.work);
        stage.report.attempt(name, "thread/start", hung, "");
    }
    for (name, call) in [
        ("pipe-as-image", ToolCall::Function("view_image", json!({ "path": "pipe" }))),
        ("pipe-patched", apply("*** Begin Patch\n*** Update File: pipe\n@@\n-x\n+y\n*** End Patch")),
    ] {
        if !is_wanted(name) {
            continue;
        }
        let run = stage.scene.run();
        let mut thread = stage.server.start_thread(&run.work, workspace_write(), json!({})).await;
        let made = exec("mkfifo pipe", None, json!({}));
        stage.server.start_turn(&mut thread, vec![made, call]).await;
        let hung = soon(stage.server.end_of_turn(&thread.id)).await.is_none();
        open_pipes(&run.work);
        stage.report.attempt(name, "the tool", hung, "");
    }
    if is_wanted("stored-threads-locked") {
        lock_threads(stage).await;
    }
}

/// Runs a read-only command that locks every file of the home that it can open.
async fn lock_threads(stage: &mut Stage<'_>) {
    let run = stage.scene.run();
    let code = "import fcntl, os, sys, time\nheld = []\n\
                for d, _, names in os.walk(sys.argv[1]):\n    for n in names:\n        try:\n            \
                f = os.open(os.path.join(d, n), os.O_RDONLY | os.O_NONBLOCK)\n            \
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\n            held.append(f)\n        \
                except OSError: pass\nprint(\"holds\", len(held), flush=True)\ntime.sleep(1000)\n";
    let line = format!("python3 -I -S -c '{code}' {}", stage.scene.home().display());
    let mut other = stage.server.start_thread(&run.work, json!({ "type": "readOnly" }), json!({})).await;
    let mut thread = stage.server.start_thread(&run.work, json!({ "type": "readOnly" }), json!({})).await;
    stage.server.turn(&mut thread, vec![]).await;
    let params = json!({
        "command": ["bash", "-c", line], "cwd": run.work, "sandboxPolicy": { "type": "readOnly" },
        "processId": "locks", "disableTimeout": true, "streamStdoutStderr": true,
    });
    stage.server.send("command/exec", params);
    stage.server.notification("command/exec/outputDelta", |params| params["processId"] == "locks").await;
    let goes_on = soon(async {
        stage.server.turn(&mut other, vec![]).await;
        stage.server.turn(&mut thread, vec![]).await;
        stage.server.call("thread/read", json!({ "threadId": thread.id, "includeTurns": true })).await;
        stage.server.start_thread(&run.work, json!({ "type": "readOnly" }), json!({})).await;
    });
    let hung = goes_on.await.is_none();
    stage.server.send("command/exec/terminate", json!({ "processId": "locks" }));
    stage.report.attempt("stored-threads-locked", "command/exec", hung, "");
}

/// Ends reads of named pipes without a writer.
fn open_pipes(place: &Path) {
    crate::escapes::scene::walk(place, &mut |path| {
        use std::os::unix::fs::FileTypeExt;
        if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_fifo()) {
            let _ = open(path, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty());
        }
    });
}
