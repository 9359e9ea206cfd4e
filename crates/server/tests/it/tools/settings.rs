//! The configuration and the policy of a turn, applied to commands.

use codicil_protocol::{
    CommandExecutionApproval, CommandExecutionApprovalDecision, CommandExecutionRequestApprovalResponse,
    TurnCompleted, TurnDiffUpdated, TurnStart,
};
use codicil_testkit::{App, Script};
use serde_json::{Value, json};

use super::{call_output, command_end, free_thread, thread};

fn runs(line: &str) -> Script {
    Script::new().call("exec_command", json!({ "cmd": line })).call_id("c").then().say("Done")
}

/// Returns the output of a command in a thread without a sandbox.
async fn output(config: &str, line: &str) -> String {
    let mut app = App::builder().config(config).script(runs(line)).start().await;
    let thread = free_thread(&mut app).await;
    app.run_turn(&thread, "go").await;
    app.rest().await;
    call_output(&app, "c")
}

#[tokio::test]
async fn the_environment_policy_filters_variables() {
    let policy = "[shell_environment_policy]\ninherit = \"none\"\n\
                  set = { KEPT = \"1\", DROPPED = \"2\", SET_KEY = \"3\" }\nexclude = [\"DROP*\"]\n\
                  include_only = [\"KEPT\", \"SET_*\", \"HOME\"]";
    let env = output(policy, "/usr/bin/env").await;
    assert!(env.contains("\nKEPT=1\n") && env.contains("\nSET_KEY=3\n"), "{env}");
    assert!(!env.contains("DROPPED=") && !env.contains("\nHOME="), "{env}");

    let core = "shell_environment_policy.inherit = \"core\"";
    let env = output(core, "/usr/bin/env").await;
    assert!(env.contains("\nPATH=") && !env.contains("\nCARGO_MANIFEST_DIR="), "{env}");

    let all = "shell_environment_policy.exclude = [\"cargo_manifest_*\"]";
    let env = output(all, "/usr/bin/env").await;
    // Cargo sets both variables; without cargo neither is set.
    let has_name = std::env::var_os("CARGO_PKG_NAME").is_some();
    assert!(env.contains("\nCARGO_PKG_NAME=") == has_name && !env.contains("\nCARGO_MANIFEST_DIR="), "{env}");
}

#[tokio::test]
async fn resource_limits_apply_with_and_without_a_sandbox() {
    let config = "[sandbox_limits]\nfile_size_bytes = 1000";
    let line = "head -c 5000 /dev/zero > large; wc -c < large";
    assert!(output(config, line).await.contains("\n1000\n"));
    let mut app = App::builder().config(config).script(runs(line)).start().await;
    let thread = thread(&mut app, json!({ "approvalPolicy": "never", "sandbox": "workspace-write" })).await;
    app.run_turn(&thread, "go").await;
    app.rest().await;
    assert!(call_output(&app, "c").contains("\n1000\n"), "{}", call_output(&app, "c"));
}

async fn under(app: &mut App, policy: Value) -> String {
    let thread = thread(app, json!({ "approvalPolicy": "never" })).await;
    let params = json!({
        "threadId": thread.id, "sandboxPolicy": policy, "input": [{ "type": "text", "text": "go" }],
    });
    app.call::<TurnStart>(serde_json::from_value(params).unwrap()).await;
    let output = command_end(app).await.2.unwrap_or_default();
    app.rest().await;
    output
}

#[tokio::test]
async fn temporary_directories_are_writable_unless_excluded() {
    let line = "f=$(mktemp /tmp/codicil-test-XXXXXX) && rm $f && echo written";
    let mut app = App::builder().script(runs(line)).start().await;
    assert_eq!(under(&mut app, json!({ "type": "workspaceWrite" })).await, "written\n");
    app.model().push(runs(line));
    // Even if the workspace is below the excluded directory.
    let excluded = json!({ "type": "workspaceWrite", "excludeSlashTmp": true, "excludeTmpdirEnvVar": true });
    let output = under(&mut app, excluded).await;
    assert!(!output.contains("written"), "{output}");
}

#[tokio::test]
async fn repository_metadata_is_read_only_in_all_its_forms() {
    let places = [".git/config", "sub/.git/config", "tree/.git", "elsewhere/config", ".codex/x", ".agents/x"];
    let tries: Vec<_> =
        places.iter().map(|place| format!("(echo y > {place}) 2>/dev/null || echo no")).collect();
    let mut app = App::builder().script(runs(&tries.join("; "))).start().await;
    for folder in [".git", "sub/.git", "tree", "elsewhere", ".codex", ".agents"] {
        std::fs::create_dir_all(app.workspace().join(folder)).unwrap();
    }
    for place in places.iter().filter(|place| **place != "tree/.git") {
        std::fs::write(app.workspace().join(place), "x").unwrap();
    }
    // The `.git` of a work tree is a file with the path of its repository.
    std::fs::write(app.workspace().join("tree/.git"), "gitdir: ../elsewhere\n").unwrap();
    let output = under(&mut app, json!({ "type": "workspaceWrite" })).await;
    assert_eq!(output, "no\n".repeat(places.len()));
}

#[tokio::test]
async fn the_diff_of_a_turn_shows_renames_and_deletions_and_names_binary_files() {
    let patch = "*** Begin Patch\n*** Update File: old.txt\n*** Move to: new.txt\n@@\n one\n-two\n+2\n\
                 *** Delete File: gone.txt\n*** Add File: data\n+text\n*** End Patch";
    let script = Script::new()
        .custom_call("apply_patch", patch)
        .then()
        .call("exec_command", json!({ "cmd": "printf '\\000\\001' > data" }))
        .then()
        .say("Done");
    let mut app = App::start(script).await;
    std::fs::write(app.workspace().join("old.txt"), "one\ntwo\nthree\nfour\nfive\n").unwrap();
    std::fs::write(app.workspace().join("gone.txt"), "bye\n").unwrap();
    let thread = free_thread(&mut app).await;
    app.start_turn(&thread, "write").await;
    let diff = app.until::<TurnDiffUpdated>().await.diff;
    assert!(diff.contains("diff --git a/old.txt b/new.txt\n") && diff.contains("-two\n+2\n"), "{diff}");
    assert!(diff.contains("deleted file mode 100644\n") && diff.contains("-bye\n"), "{diff}");
    let diff = app.until::<TurnDiffUpdated>().await.diff;
    assert!(diff.contains("Binary files /dev/null and b/data differ"), "{diff}");
    app.rest().await;
}

#[tokio::test]
async fn granular_approval_asks_only_about_what_it_lists() {
    let arguments = json!({ "cmd": "touch made", "sandbox_permissions": "require_escalated" });
    let script = Script::new().call("exec_command", arguments).call_id("c").then().say("Ok");
    let mut app = App::builder().experimental().script(script).start().await;
    let granular = json!({ "granular": {
        "sandbox_approval": false, "rules": true, "skill_approval": true, "request_permissions": true,
        "mcp_elicitations": true,
    } });
    let thread = thread(&mut app, json!({ "approvalPolicy": granular })).await;
    app.run_turn(&thread, "go").await;
    app.rest().await;
    assert!(call_output(&app, "c").contains("does not allow to ask about it"), "{}", call_output(&app, "c"));
    assert!(!app.workspace().join("made").exists());
}

#[tokio::test]
async fn granular_approval_has_a_switch_for_programs_of_skills() {
    let arguments = json!({
        "cmd": "sh .agents/skills/mine/run.sh", "sandbox_permissions": "require_escalated",
    });
    for (skill_approval, is_asked) in [(true, true), (false, false)] {
        let script = Script::new().call("exec_command", arguments.clone()).call_id("c").then().say("Ok");
        let mut app = App::builder().experimental().script(script).start().await;
        let folder = app.workspace().join(".agents/skills/mine");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("SKILL.md"), "---\nname: mine\ndescription: d\n---\nBody\n").unwrap();
        std::fs::write(folder.join("run.sh"), "echo ran").unwrap();
        let granular = json!({ "granular": {
            "sandbox_approval": !skill_approval, "rules": true, "skill_approval": skill_approval,
            "request_permissions": true, "mcp_elicitations": true,
        } });
        let thread = thread(&mut app, json!({ "approvalPolicy": granular })).await;
        app.start_turn(&thread, "go").await;
        if is_asked {
            let question = app.expect_request::<CommandExecutionApproval>().await;
            let decision = CommandExecutionApprovalDecision::Accept;
            app.reply(&question, CommandExecutionRequestApprovalResponse { decision }).await;
        }
        app.until::<TurnCompleted>().await;
        let output = call_output(&app, "c");
        let expected = if is_asked { "\nran" } else { "does not allow to ask about it" };
        assert!(output.contains(expected), "{output}");
        app.ignore_rest();
    }
}
