//! The server's home is inside the workspace: a command must not change its configuration or read its
//! secrets.

use std::{fs, os::unix::fs::MetadataExt};

use serde_json::json;

use super::{Stage, is_wanted};
use crate::escapes::{
    lines::{unconfined, workspace_write},
    patches::apply,
    scene::Scene,
    server::{Listen, Server, Thread},
    ways::{Way, Workdir, model},
};

/// Lines that are run in the directory that holds the home, which is called `home`.
const LINES: &[(&str, &str)] = &[
    ("home-inside-append-configuration", "cat servers.toml >> home/config.toml"),
    (
        "home-inside-replace-configuration",
        "cp home/config.toml c && cat servers.toml >> c && mv c home/config.toml",
    ),
    (
        "home-inside-move-away",
        "mv home home.old && cp -r home.old home && cat servers.toml >> home/config.toml",
    ),
    (
        "home-inside-link",
        "cp -r home copy && cat servers.toml >> copy/config.toml && mv home home.old && ln -s copy home",
    ),
    (
        "home-inside-exchange",
        "cp -r home copy && cat servers.toml >> copy/config.toml && python3 -I -S -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).renameat2(-100, b\"home\", -100, b\"copy\", 2) != 0)'",
    ),
    ("home-inside-hooks", "cp hooks.json home/hooks.json"),
    (
        "home-inside-rules",
        "mkdir -p home/rules && echo 'prefix_rule(pattern=[\"touch\"], decision=\"allow\")' > home/rules/x.rules",
    ),
    ("home-inside-instructions", "echo x > home/AGENTS.md"),
    ("home-inside-read-credentials", "grep -q escape-secret home/auth.json"),
    ("home-inside-lock-threads", "flock -n -s \"$(find home/sessions -name '*.jsonl' | head -n 1)\" true"),
    ("home-inside-remove-threads", "find home/sessions -name '*.jsonl' -delete"),
];

const PATCHES: &[(&str, &str)] = &[
    ("home-inside-patch-hooks", "*** Add File: home/hooks.json\n+{}"),
    ("home-inside-patch-rules", "*** Add File: home/rules/y.rules\n+# x"),
    ("home-inside-delete-credentials", "*** Delete File: home/auth.json"),
];

pub async fn make_all(stage: &mut Stage<'_>) {
    if !is_wanted("home-inside") {
        return;
    }
    let scene = Scene::with_home_inside(stage.scene.mode);
    for (name, line) in LINES.iter().filter(|(name, _)| is_wanted(name)) {
        if !succeeds(&scene, line, unconfined(), Way::Exec(Workdir::LeftOut)).await {
            stage.report.skip(name, "fails without a sandbox");
            continue;
        }
        for way in [Way::Exec(Workdir::LeftOut), Way::Client] {
            if stage.thorough || way != Way::Client {
                let open = succeeds(&scene, line, workspace_write(), way).await;
                stage.report.attempt(name, &way.name(), open, "");
            }
        }
    }
    for (name, body) in PATCHES.iter().filter(|(name, _)| is_wanted(name)) {
        scene.reset_home();
        let mut server = Server::start(&scene, Listen::Stdio, "").await;
        let before = fingerprint(&scene);
        let patch = format!("*** Begin Patch\n{body}\n*** End Patch");
        let work = scene.home().parent().unwrap().to_owned();
        model(&mut server, &work, workspace_write(), json!({}), vec![apply(&patch)]).await;
        stage.report.attempt(name, "apply_patch", fingerprint(&scene) != before, "");
    }
}

/// Runs the line and returns whether it succeeded, or had an effect on the server.
async fn succeeds(scene: &Scene, line: &str, policy: serde_json::Value, way: Way) -> bool {
    scene.reset_home();
    let work = scene.home().parent().unwrap().to_owned();
    let outside = scene.path("marker");
    let _ = fs::remove_file(&outside);
    let table = format!("[mcp_servers.escape]\ncommand = \"touch\"\nargs = [\"{}\"]\n", outside.display());
    scene.write(&work.join("servers.toml"), &table);
    scene.write(&work.join("hooks.json"), "{}");
    let mut server = Server::start(scene, Listen::Stdio, "").await;
    // Creates a stored thread.
    let mut thread = server.start_thread(&work, json!({ "type": "readOnly" }), json!({})).await;
    server.turn(&mut thread, vec![]).await;
    let before = fingerprint(scene);
    let run = scene.workspace_run(&work);
    let output =
        way.run(&mut server, &run, policy, &format!("cd {} && {line} && echo do''ne", work.display())).await;
    let params = json!({ "cwd": work, "approvalPolicy": "never", "sandbox": "read-only" });
    let started = server.call("thread/start", params).await;
    if started.get("result").is_some() {
        server.turn(&mut Thread::opened(&started["result"]), vec![]).await;
    }
    output.contains("done") || outside.exists() || fingerprint(scene) != before
}

/// Returns the configuration and the inode of the home. Stored threads change by themselves.
fn fingerprint(scene: &Scene) -> Vec<String> {
    let home = scene.home();
    let mut found = vec![fs::symlink_metadata(&home).map(|is| is.ino().to_string()).unwrap_or_default()];
    for name in ["config.toml", "hooks.json", "auth.json", "rules/x.rules", "rules/y.rules", "AGENTS.md"] {
        found.push(format!("{name} {}", fs::read_to_string(home.join(name)).unwrap_or_default()));
    }
    found
}
