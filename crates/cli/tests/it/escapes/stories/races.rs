//! A background command swaps a directory for a link while patches are applied inside it.

use std::fs;
use std::os::{fd::AsRawFd, unix::fs::symlink};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Stage, file_appears, is_wanted};
use crate::escapes::{
    lines::workspace_write,
    patches::{apply, patch_text},
    server::ToolCall,
    ways::exec,
};

/// Duration of each race. If a patch were written by path, a moment would be enough.
const TIME: Duration = Duration::from_millis(1500);

/// A name, and the body of the patch, which is applied repeatedly.
const RACES: &[(&str, &str)] = &[
    ("race-add", "*** Add File: a/added-{n}\n+x"),
    ("race-add-in-new-directory", "*** Add File: a/new-{n}/added\n+x"),
    ("race-update", "*** Update File: a/file\n@@\n-kept\n+changed"),
    ("race-delete", "*** Delete File: a/file"),
    ("race-move", "*** Update File: mine-{n}\n*** Move to: a/moved-{n}\n@@\n-mine\n+x"),
];

pub async fn make_all(stage: &mut Stage<'_>) {
    for (name, body) in RACES.iter().filter(|(name, _)| is_wanted(name)) {
        let (open, patches) = is_won(stage, body).await;
        stage.report.attempt(name, "apply_patch", open, format!("{patches} patches"));
    }
}

/// Runs the race. Returns whether something outside changed, and after how many patches.
async fn is_won(stage: &mut Stage<'_>, body: &str) -> (bool, usize) {
    let scene = stage.scene;
    let run = scene.run();
    fs::create_dir(run.work.join("a")).unwrap();
    symlink(&run.outside, run.work.join("b")).unwrap();
    scene.write(&run.work.join("a/file"), "kept");
    let directory = fs::File::open(run.work.join("a")).unwrap();
    scene.give(&run.work);
    let before = run.untouchable();
    let started = run.work.join("started");
    let stop = run.work.join("stop");
    let flip = format!(
        "touch {}; python3 -I -S {} a b {}",
        started.display(),
        scene.tool("flip.py").display(),
        stop.display()
    );
    let mut thread = stage.server.start_thread(&run.work, workspace_write(), json!({})).await;
    let calls = vec![exec(&flip, None, json!({ "yield_time_ms": 250 }))];
    stage.server.turn(&mut thread, calls).await;
    assert!(file_appears(&started).await, "the command starts");
    let started_at = Instant::now();
    let mut patches = 0;
    let mut open = false;
    while started_at.elapsed() < TIME && !open {
        let calls: Vec<ToolCall> = (0..20)
            .map(|n| {
                let number = patches + n;
                let _ = fs::write(run.work.join(format!("mine-{number}")), "mine");
                apply(&patch_text(&run, &body.replace("{n}", &number.to_string())))
            })
            .collect();
        scene.give(&run.work);
        patches += calls.len();
        stage.server.turn(&mut thread, calls).await;
        open = run.untouchable() != before;
        // Restores the file of the workspace for the next round. Not by its path, which may be the link at
        // any moment.
        fs::write(format!("/proc/self/fd/{}/file", directory.as_raw_fd()), "kept").unwrap();
    }
    fs::write(&stop, "").unwrap();
    stage.server.call("thread/backgroundTerminals/clean", json!({ "threadId": thread.id })).await;
    (open, patches)
}
