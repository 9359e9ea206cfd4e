//! A writable root is replaced by a link; the next command or patch must not follow it.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use super::{Stage, is_wanted, make_directory};
use crate::escapes::{
    lines::unconfined,
    patches::{apply, patch_text},
    scene::Run,
    server::ToolCall,
    ways::{client_policy, exec},
};

struct Replacement {
    name: &'static str,
    /// A root besides the workspace, created before the thread starts.
    root: Option<ExtraRoot>,
    /// The command that replaces `$WORK`, `$ROOT` or `$TMPDIR` by a link to `$OUTSIDE`.
    line: &'static str,
    /// The directory that is a link afterwards.
    target: &'static str,
}

#[derive(Clone, Copy)]
enum ExtraRoot {
    InWorkspace,
    BesideWorkspace,
    /// Named by the policy and not created.
    Missing,
    /// Granted with `request_permissions`, at the path of [`Self::InWorkspace`].
    Granted,
}

const REPLACEMENTS: &[Replacement] = &[
    Replacement {
        name: "workspace-moved",
        root: None,
        line: "mv $WORK $WORK.old && ln -s $OUTSIDE $WORK",
        target: "$WORK",
    },
    Replacement {
        name: "workspace-moved-with-its-folder",
        root: None,
        line: "p=$(dirname $WORK); cd / && mv $p $p.old && mkdir $p && ln -s $OUTSIDE $p/work",
        target: "$WORK",
    },
    Replacement {
        name: "workspace-exchanged",
        root: None,
        line: "ln -s $OUTSIDE $WORK.new && python3 -I -S -c 'import ctypes, sys, os; l = ctypes.CDLL(None); sys.exit(l.renameat2(-100, sys.argv[1].encode(), -100, sys.argv[2].encode(), 2) != 0)' $WORK $WORK.new",
        target: "$WORK",
    },
    Replacement {
        name: "empty-root-removed",
        root: Some(ExtraRoot::BesideWorkspace),
        line: "rmdir $ROOT && ln -s $OUTSIDE $ROOT",
        target: "$ROOT",
    },
    Replacement {
        name: "root-beside-moved",
        root: Some(ExtraRoot::BesideWorkspace),
        line: "mv $ROOT $ROOT.old && ln -s $OUTSIDE $ROOT",
        target: "$ROOT",
    },
    Replacement {
        name: "nested-root-moved",
        root: Some(ExtraRoot::InWorkspace),
        line: "mv $ROOT $ROOT.old && ln -s $OUTSIDE $ROOT",
        target: "$ROOT",
    },
    Replacement {
        name: "nested-root-removed",
        root: Some(ExtraRoot::InWorkspace),
        line: "rmdir $ROOT && ln -s $OUTSIDE $ROOT",
        target: "$ROOT",
    },
    Replacement {
        name: "missing-root-linked",
        root: Some(ExtraRoot::Missing),
        line: "ln -s $OUTSIDE $ROOT",
        target: "$ROOT",
    },
    Replacement {
        name: "granted-folder-replaced",
        root: Some(ExtraRoot::Granted),
        line: "rmdir $ROOT && ln -s $OUTSIDE $ROOT",
        target: "$ROOT",
    },
    Replacement {
        name: "tmpdir-moved",
        root: None,
        line: "mv $TMPDIR $TMPDIR.old && ln -s $OUTSIDE $TMPDIR",
        target: "$TMPDIR",
    },
];

/// The write after the link exists.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Patch,
    PatchInNextTurn,
    PatchInCommand,
    Command,
    CommandInNextTurn,
    /// `command/exec` under the same policy.
    ClientCommand,
}

const THENS: [Then; 6] = [
    Then::Patch,
    Then::PatchInNextTurn,
    Then::PatchInCommand,
    Then::Command,
    Then::CommandInNextTurn,
    Then::ClientCommand,
];

impl Then {
    fn name(self) -> &'static str {
        match self {
            Self::Patch => "apply_patch",
            Self::PatchInNextTurn => "apply_patch in the next turn",
            Self::PatchInCommand => "apply_patch in exec_command",
            Self::Command => "exec_command",
            Self::CommandInNextTurn => "exec_command in the next turn",
            Self::ClientCommand => "command/exec",
        }
    }

    /// Returns the call that writes `pwned` below the target.
    fn call(self, run: &Run<'_>, target: &str) -> ToolCall {
        let patch = patch_text(run, &format!("*** Add File: {target}/pwned\n+x"));
        match self {
            Self::Patch | Self::PatchInNextTurn => apply(&patch),
            Self::PatchInCommand => exec(&format!("apply_patch <<'EOF'\n{patch}\nEOF\n"), None, json!({})),
            Self::Command | Self::CommandInNextTurn | Self::ClientCommand => {
                exec(&format!("echo x > {target}/pwned"), Some("/".to_owned()), json!({}))
            }
        }
    }
}

pub async fn make_all(stage: &mut Stage<'_>) {
    for replacement in REPLACEMENTS.iter().filter(|replacement| is_wanted(replacement.name)) {
        let works = got_out(stage, replacement, Then::Patch, Some(unconfined())).await;
        if !works {
            stage.report.skip(replacement.name, "changes nothing without a sandbox either");
            continue;
        }
        for then in THENS {
            let open = got_out(stage, replacement, then, None).await;
            stage.report.attempt(replacement.name, then.name(), open, "");
        }
    }
}

/// Replaces the root and writes below it. Returns whether the file is outside.
async fn got_out(
    stage: &mut Stage<'_>,
    replacement: &Replacement,
    then: Then,
    policy: Option<Value>,
) -> bool {
    let scene = stage.scene;
    let run = scene.nested_run();
    let root = extra_root(&run, replacement.root);
    if matches!(
        replacement.root,
        Some(ExtraRoot::InWorkspace | ExtraRoot::BesideWorkspace | ExtraRoot::Granted)
    ) {
        make_directory(scene, &root);
    }
    let is_granted = matches!(replacement.root, Some(ExtraRoot::Granted));
    let roots = if replacement.root.is_some() && !is_granted { vec![root.clone()] } else { vec![] };
    let policy = policy.unwrap_or_else(|| json!({ "type": "workspaceWrite", "writableRoots": roots }));
    let fill = |text: &str| {
        let text = text.replace("$TMPDIR", scene.tmpdir().to_str().unwrap());
        let text =
            text.replace("$ROOT", root.to_str().unwrap()).replace("$OUTSIDE", run.outside.to_str().unwrap());
        text.replace("$WORK", run.work.to_str().unwrap())
    };
    let more = if is_granted {
        json!({ "approvalPolicy": "on-request", "config": { "features.request_permissions_tool": true } })
    } else {
        json!({})
    };
    let write = json!({ "fileSystem": { "write": [root] } });
    stage
        .server
        .answers
        .insert("item/permissions/requestApproval", json!({ "permissions": write, "scope": "session" }));
    let mut calls = Vec::new();
    if is_granted {
        let wanted = json!({ "permissions": { "file_system": { "write": [root] } }, "reason": "to write" });
        calls.push(ToolCall::Function("request_permissions", wanted));
    }
    calls.push(exec(&fill(replacement.line), Some("/".to_owned()), json!({})));
    let mut thread = stage.server.start_thread(&run.work, policy.clone(), more).await;
    let call = then.call(&run, &fill(replacement.target));
    match then {
        Then::Patch | Then::PatchInCommand | Then::Command => {
            calls.push(call);
            stage.server.turn(&mut thread, calls).await;
        }
        Then::PatchInNextTurn | Then::CommandInNextTurn => {
            stage.server.turn(&mut thread, calls).await;
            stage.server.turn(&mut thread, vec![call]).await;
        }
        Then::ClientCommand => {
            stage.server.turn(&mut thread, calls).await;
            let line = format!("echo x > {}/pwned", fill(replacement.target));
            let policy = client_policy(policy, &run.work);
            let params = json!({ "command": ["bash", "-c", line], "cwd": "/", "sandboxPolicy": policy });
            stage.server.call("command/exec", params).await;
        }
    }
    stage.server.answers.clear();
    scene.restore_tmpdir();
    let open = run.outside.join("pwned").exists();
    for path in [run.work.parent().unwrap().to_owned(), root] {
        let _ = fs::remove_dir_all(&path);
        let old = PathBuf::from(format!("{}.old", path.display()));
        let _ = fs::remove_dir_all(old);
    }
    open
}

fn extra_root(run: &Run<'_>, root: Option<ExtraRoot>) -> PathBuf {
    match root {
        Some(ExtraRoot::BesideWorkspace) => run.work.parent().unwrap().join("root"),
        _ => run.work.join("root"),
    }
}
