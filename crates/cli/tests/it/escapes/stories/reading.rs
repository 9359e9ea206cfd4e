//! The server must not read for the model what the model's commands may not read.

use std::{fs, os::unix::fs::symlink};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;

use super::{Stage, is_wanted};
use crate::escapes::{lines::restricted, lines::unconfined, scene::SECRET, server::ToolCall};

/// One pixel.
const IMAGE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

pub async fn make_all(stage: &mut Stage<'_>) {
    for (name, path) in [
        ("image-outside", "{out}/image.png"),
        ("image-through-link", "link/image.png"),
        ("image-by-dots", "../outside/image.png"),
        ("image-through-root", "/proc/self/root{out}/image.png"),
    ] {
        if !is_wanted(name) {
            continue;
        }
        if !is_image_shown(stage, path, true).await {
            stage.report.skip(name, "is not shown without a sandbox either");
            continue;
        }
        let open = is_image_shown(stage, path, false).await;
        stage.report.attempt(name, "view_image", open, "");
    }
    for name in ["AGENTS.md", "AGENTS.override.md", ".codex/AGENTS.md"] {
        let attempt = format!("instructions-linked-{}", name.replace('/', "-"));
        if !is_wanted(&attempt) {
            continue;
        }
        let run = stage.scene.run();
        fs::create_dir_all(run.work.join(name).parent().unwrap()).unwrap();
        symlink(run.outside("secret"), run.work.join(name)).unwrap();
        stage.scene.give(&run.work);
        let mut thread = stage.server.start_thread(&run.work, restricted(&run), json!({})).await;
        let prompt = stage.server.start_turn(&mut thread, vec![]).await;
        stage.server.end_of_turn(&thread.id).await;
        stage.report.attempt(&attempt, "turn/start", stage.server.model_saw(&prompt, SECRET), "");
    }
}

/// Returns whether the model receives an image that it may not read.
async fn is_image_shown(stage: &mut Stage<'_>, path: &str, is_proof: bool) -> bool {
    let run = stage.scene.run();
    fs::write(run.outside.join("image.png"), BASE64_STANDARD.decode(IMAGE).unwrap()).unwrap();
    stage.scene.give(&run.outside);
    let path = path.replace("{out}", run.outside.to_str().unwrap());
    let policy = if is_proof { unconfined() } else { restricted(&run) };
    let mut thread = stage.server.start_thread(&run.work, policy, json!({})).await;
    let calls = vec![ToolCall::Function("view_image", json!({ "path": path }))];
    let prompt = stage.server.start_turn(&mut thread, calls).await;
    stage.server.end_of_turn(&thread.id).await;
    stage.server.model_saw(&prompt, "input_image")
}
