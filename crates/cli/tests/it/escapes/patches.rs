//! Attempts with patches, in every way in which a model can submit one.

use std::{fs, os::unix::fs::symlink};

use serde_json::{Value, json};

use super::{
    lines::{restricted, unconfined, workspace_write},
    report::Report,
    scene::{Run, SECRET, Scene},
    server::{Server, ToolCall},
    ways::{exec, model, shell, shell_tools, subagent},
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// Nothing outside changes.
    Denied,
    /// This file of the workspace has this content afterwards; `None` if it is removed.
    Done(&'static str, Option<&'static str>),
}
use Expected::{Denied, Done};

/// A name, the expected result, and the body of the patch. `{out}`, `{work}` and `{home}` stand for paths.
type PatchAttempt = (&'static str, Expected, &'static str);

const PATCHES: &[PatchAttempt] = &[
    ("patch-add-outside", Denied, "*** Add File: {out}/new\n+x"),
    ("patch-add-in-new-directory-outside", Denied, "*** Add File: {out}/deep/er/new\n+x"),
    ("patch-add-over-outside", Denied, "*** Add File: {out}/file\n+x"),
    ("patch-add-by-dots", Denied, "*** Add File: ../outside/new\n+x"),
    ("patch-add-by-inner-dots", Denied, "*** Add File: sub/../../outside/new\n+x"),
    ("patch-update-outside", Denied, "*** Update File: {out}/file\n@@\n-kept\n+x"),
    ("patch-delete-outside", Denied, "*** Delete File: {out}/file"),
    ("patch-move-to-outside", Denied, "*** Update File: mine\n*** Move to: {out}/new\n@@\n-mine\n+x"),
    ("patch-move-over-outside", Denied, "*** Update File: mine\n*** Move to: {out}/file\n@@\n-mine\n+x"),
    ("patch-move-from-outside", Denied, "*** Update File: {out}/file\n*** Move to: taken\n@@\n-kept\n+x"),
    ("patch-add-through-link", Denied, "*** Add File: link/new\n+x"),
    ("patch-update-through-link", Denied, "*** Update File: link/file\n@@\n-kept\n+x"),
    ("patch-delete-through-link", Denied, "*** Delete File: link/file"),
    ("patch-move-through-link", Denied, "*** Update File: mine\n*** Move to: link/new\n@@\n-mine\n+x"),
    ("patch-update-through-file-link", Denied, "*** Update File: file-link\n@@\n-kept\n+x"),
    ("patch-add-through-file-link", Denied, "*** Add File: file-link\n+x"),
    ("patch-add-through-dangling-link", Denied, "*** Add File: dangling\n+x"),
    ("patch-add-through-link-chain", Denied, "*** Add File: chain/new\n+x"),
    ("patch-move-onto-link", Denied, "*** Update File: mine\n*** Move to: file-link\n@@\n-mine\n+x"),
    ("patch-through-own-root", Denied, "*** Add File: /proc/self/root{out}/new\n+x"),
    ("patch-through-own-directory", Denied, "*** Add File: /proc/self/cwd/new\n+x"),
    ("patch-git-config", Denied, "*** Update File: .git/config\n@@\n-kept\n+x"),
    ("patch-git-hook", Denied, "*** Add File: .git/hooks/post-checkout\n+x"),
    ("patch-git-by-dots", Denied, "*** Add File: sub/../.git/hooks/post-checkout\n+x"),
    ("patch-git-through-link", Denied, "*** Add File: git-link/hooks/post-checkout\n+x"),
    ("patch-git-delete", Denied, "*** Delete File: .git/config"),
    ("patch-git-move", Denied, "*** Update File: mine\n*** Move to: .git/hooks/new\n@@\n-mine\n+x"),
    ("patch-nested-git-hook", Denied, "*** Add File: nested/.git/hooks/post-checkout\n+x"),
    ("patch-separate-git-config", Denied, "*** Update File: store/config\n@@\n-kept\n+x"),
    ("patch-separate-git-hook", Denied, "*** Add File: store/hooks/post-checkout\n+x"),
    ("patch-codex", Denied, "*** Update File: .codex/config\n@@\n-kept\n+x"),
    ("patch-codicil", Denied, "*** Update File: .codicil/config\n@@\n-kept\n+x"),
    ("patch-agents", Denied, "*** Update File: .agents/config\n@@\n-kept\n+x"),
    ("patch-codicil-new", Denied, "*** Add File: .codicil/config.toml\n+x"),
    ("patch-home-new", Denied, "*** Add File: {home}/patched\n+x"),
    ("patch-home-rules", Denied, "*** Add File: {home}/rules/patched.rules\n+x"),
    ("patch-one-inside-one-outside", Denied, "*** Add File: fine\n+x\n*** Add File: {out}/new\n+x"),
    ("patch-adds", Done("new", Some("x\n")), "*** Add File: new\n+x"),
    ("patch-adds-in-new-directory", Done("a/b/new", Some("x\n")), "*** Add File: a/b/new\n+x"),
    ("patch-adds-by-whole-path", Done("sub/new", Some("x\n")), "*** Add File: {work}/sub/new\n+x"),
    ("patch-updates", Done("mine", Some("x\n")), "*** Update File: mine\n@@\n-mine\n+x"),
    ("patch-updates-nested", Done("sub/mine", Some("x\n")), "*** Update File: sub/mine\n@@\n-mine\n+x"),
    ("patch-deletes", Done("mine", None), "*** Delete File: mine"),
    (
        "patch-moves",
        Done("sub/moved", Some("x\n")),
        "*** Update File: mine\n*** Move to: sub/moved\n@@\n-mine\n+x",
    ),
    (
        "patch-updates-through-inner-link",
        Done("sub/mine", Some("x\n")),
        "*** Update File: inner-link/mine\n@@\n-mine\n+x",
    ),
];

/// Under a policy that restricts reading, the secret must not be returned.
const READING_PATCHES: &[(&str, &str)] = &[
    ("patch-shows-by-moving", "*** Update File: {out}/secret\n*** Move to: taken\n@@\n+x"),
    ("patch-shows-by-updating", "*** Update File: {out}/secret\n@@\n-x\n+y"),
    ("patch-shows-by-adding", "*** Update File: {out}/secret\n@@\n+x"),
    ("patch-shows-by-deleting", "*** Delete File: {out}/secret"),
    ("patch-shows-through-link", "*** Update File: link/secret\n@@\n+x"),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum PatchWay {
    Function,
    Freeform,
    /// `apply_patch` as a here document of a command.
    ExecHereDocument,
    ShellHereDocument,
    /// The same, with `workdir` at the top of the file system and `cd` back.
    FromTheTop,
    Subagent,
}

const PATCH_WAYS: [PatchWay; 6] = [
    PatchWay::Function,
    PatchWay::Freeform,
    PatchWay::ExecHereDocument,
    PatchWay::ShellHereDocument,
    PatchWay::FromTheTop,
    PatchWay::Subagent,
];

impl PatchWay {
    fn name(self) -> &'static str {
        match self {
            Self::Function => "apply_patch as a function",
            Self::Freeform => "apply_patch as free text",
            Self::ExecHereDocument => "apply_patch in exec_command",
            Self::ShellHereDocument => "apply_patch in shell_command",
            Self::FromTheTop => "apply_patch in exec_command with workdir top",
            Self::Subagent => "apply_patch of a subagent",
        }
    }

    /// Submits the patch and returns the output.
    async fn run(self, server: &mut Server, run: &Run<'_>, policy: Value, patch: &str) -> String {
        let line = format!("apply_patch <<'EOF'\n{patch}\nEOF\n");
        let cwd = &run.work;
        match self {
            Self::Function => model(server, cwd, policy, json!({}), vec![apply(patch)]).await,
            Self::Freeform => {
                let calls = vec![ToolCall::Freeform("apply_patch", patch.to_owned())];
                model(server, cwd, policy, freeform_tools(), calls).await
            }
            Self::ExecHereDocument => {
                model(server, cwd, policy, json!({}), vec![exec(&line, None, json!({}))]).await
            }
            Self::ShellHereDocument => {
                model(server, cwd, policy, shell_tools(), vec![shell(&line, None)]).await
            }
            Self::FromTheTop => {
                let line = format!("cd {} && {line}", cwd.display());
                model(server, cwd, policy, json!({}), vec![exec(&line, Some("/".to_owned()), json!({}))])
                    .await
            }
            Self::Subagent => subagent(server, cwd, policy, json!({}), vec![apply(patch)]).await,
        }
    }
}

/// Returns a call of `apply_patch` as a function.
pub fn apply(patch: &str) -> ToolCall {
    ToolCall::Function("apply_patch", json!({ "input": patch }))
}

fn freeform_tools() -> Value {
    json!({ "config": { "features.apply_patch_freeform": true } })
}

/// Returns a patch with this body, with paths filled in.
pub fn patch_text(run: &Run<'_>, body: &str) -> String {
    let home = run.scene.home();
    let body = body.replace("{out}", run.outside("").trim_end_matches('/'));
    let body = body.replace("{work}", run.work("").trim_end_matches('/'));
    let body = body.replace("{home}", home.to_str().unwrap());
    format!("*** Begin Patch\n{body}\n*** End Patch")
}

/// Adds links and repositories to the run's workspace.
fn furnish(run: &Run<'_>) {
    for (target, link) in [
        (run.outside("file"), "file-link"),
        (run.outside("new"), "dangling"),
        (run.work("link"), "chain"),
        (run.work(".git"), "git-link"),
        (run.work("sub"), "inner-link"),
    ] {
        symlink(target, run.work.join(link)).unwrap();
    }
    for name in [".git/config", ".codex/config", ".codicil/config", ".agents/config", "nested/.git/config"] {
        run.scene.write(&run.work.join(name), "kept");
    }
    fs::create_dir(run.work.join(".git/hooks")).unwrap();
    fs::create_dir(run.work.join("nested/.git/hooks")).unwrap();
    run.scene.write(&run.work.join("tree/.git"), &format!("gitdir: {}\n", run.work("store")));
    for name in ["store/config", "store/HEAD", "store/objects/x", "store/refs/x", "store/hooks/x"] {
        run.scene.write(&run.work.join(name), "kept");
    }
    run.scene.give(&run.work);
}

/// Returns everything that patches must not change.
fn untouchable(run: &Run<'_>) -> (impl PartialEq + use<>, Vec<String>) {
    let mut others = Vec::new();
    for place in [run.work.join("store"), run.scene.home().join("rules"), run.scene.home().join("patched")] {
        super::scene::walk(&place, &mut |path| {
            let text = fs::read_to_string(path).unwrap_or_default();
            others.push(format!("{} {} {text}", path.display(), path.exists()));
        });
    }
    others.sort();
    (run.untouchable(), others)
}

/// Submits every patch, in every way or only in the first.
pub async fn make_all(server: &mut Server, scene: &Scene, every_way: bool, report: &mut Report) {
    let wanted = std::env::var("CODICIL_ESCAPES").unwrap_or_default();
    for (name, expected, body) in PATCHES.iter().filter(|(name, ..)| name.contains(&wanted)) {
        if every_way && *expected == Denied && !works_unconfined(server, scene, body).await {
            report.skip(name, "changes nothing without a sandbox either");
            continue;
        }
        for way in PATCH_WAYS.iter().filter(|way| every_way || **way == PatchWay::Function) {
            let run = scene.run();
            furnish(&run);
            let before = untouchable(&run);
            let output = way.run(server, &run, workspace_write(), &patch_text(&run, body)).await;
            match expected {
                Denied => report.attempt(name, way.name(), before != untouchable(&run), output),
                Done(file, content) => {
                    let found = fs::read_to_string(run.work.join(file)).ok();
                    report.control(name, way.name(), found.as_deref() == *content, output);
                }
            }
            forget_home_changes(scene);
        }
    }
    for (name, body) in READING_PATCHES.iter().filter(|(name, _)| name.contains(&wanted)) {
        for way in PATCH_WAYS.iter().filter(|way| every_way || **way == PatchWay::Function) {
            let run = scene.run();
            let output = way.run(server, &run, restricted(&run), &patch_text(&run, body)).await;
            let taken = fs::read_to_string(run.work.join("taken")).unwrap_or_default();
            report.attempt(name, way.name(), output.contains(SECRET) || taken.contains(SECRET), output);
        }
    }
    let run = scene.run();
    let policy = json!({ "type": "readOnly" });
    let patch = patch_text(&run, "*** Add File: new\n+x");
    for way in PATCH_WAYS {
        let output = way.run(server, &run, policy.clone(), &patch).await;
        report.attempt("patch-under-read-only", way.name(), run.work.join("new").exists(), output);
    }
}

async fn works_unconfined(server: &mut Server, scene: &Scene, body: &str) -> bool {
    let run = scene.run();
    furnish(&run);
    let before = untouchable(&run);
    PatchWay::Function.run(server, &run, unconfined(), &patch_text(&run, body)).await;
    let works = before != untouchable(&run);
    forget_home_changes(scene);
    works
}

fn forget_home_changes(scene: &Scene) {
    let _ = fs::remove_file(scene.home().join("patched"));
    let _ = fs::remove_file(scene.home().join("rules/patched.rules"));
}
