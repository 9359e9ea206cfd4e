//! Alternative spellings are read, and written as in the schema.

use std::fmt::Debug;

use codicil_protocol::{
    ApprovalsReviewer, AskForApproval, CommandExecutionApprovalDecision, FileChangeApprovalDecision, Inspect,
    InspectFindings, NetworkAccess, ReadOnlyAccess, SandboxMode, SandboxPolicy, ServiceTier, ThreadSandbox,
    ThreadSortKey,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Checks that each spelling is written as `written`.
fn check<T>(spellings: &[&str], written: &str)
where
    T: Serialize + DeserializeOwned + Inspect + Debug,
{
    for spelling in spellings {
        let value: T = serde_json::from_value(json!(spelling)).unwrap();
        assert_eq!(InspectFindings::of(&value).unknown_value(), None, "{spelling}");
        assert_eq!(serde_json::to_value(&value).unwrap(), json!(written), "{spelling}");
    }
}

#[test]
fn approval_policies() {
    check::<AskForApproval>(&["untrusted", "unlessTrusted", "unless-trusted", "always"], "untrusted");
    check::<AskForApproval>(&["on-failure", "onFailure"], "on-failure");
    check::<AskForApproval>(&["on-request", "onRequest"], "on-request");
    check::<AskForApproval>(&["never"], "never");
}

#[test]
fn sandbox_modes() {
    check::<SandboxMode>(&["read-only", "readOnly"], "read-only");
    check::<SandboxMode>(&["workspace-write", "workspaceWrite"], "workspace-write");
    check::<SandboxMode>(&["danger-full-access", "dangerFullAccess"], "danger-full-access");
}

#[test]
fn the_sandbox_of_a_thread_is_a_mode_or_a_policy() {
    let read = |value: Value| serde_json::from_value::<ThreadSandbox>(value).unwrap();
    assert_eq!(read(json!("workspaceWrite")), SandboxMode::WorkspaceWrite.into());
    assert_eq!(read(json!({ "type": "workspace-write" })), SandboxMode::WorkspaceWrite.into());
    let network = SandboxPolicy::ReadOnly { access: ReadOnlyAccess::FullAccess, network_access: true };
    assert_eq!(read(json!({ "type": "readOnly", "networkAccess": true })), network.into());
    let external = SandboxPolicy::ExternalSandbox { network_access: NetworkAccess::Restricted };
    assert_eq!(read(json!({ "type": "externalSandbox" })), external.into());
    let refused = |value: Value| serde_json::from_value::<ThreadSandbox>(value).unwrap_err().to_string();
    assert_eq!(refused(json!({})), "missing field `type`");
    let relative = refused(json!({ "type": "workspaceWrite", "writableRoots": ["here"] }));
    assert!(relative.contains("AbsolutePathBuf"), "{relative}");
}

#[test]
fn decisions() {
    let accept = ["accept", "approved", "approve", "allow"];
    check::<CommandExecutionApprovalDecision>(&accept, "accept");
    check::<FileChangeApprovalDecision>(&accept, "accept");
    let for_session = ["acceptForSession", "approved_for_session"];
    check::<CommandExecutionApprovalDecision>(&for_session, "acceptForSession");
    check::<FileChangeApprovalDecision>(&for_session, "acceptForSession");
    let decline = ["decline", "denied", "deny"];
    check::<CommandExecutionApprovalDecision>(&decline, "decline");
    check::<FileChangeApprovalDecision>(&decline, "decline");
    check::<CommandExecutionApprovalDecision>(&["cancel", "abort"], "cancel");
    check::<FileChangeApprovalDecision>(&["cancel", "abort"], "cancel");
}

#[test]
fn values_of_the_newer_generation() {
    check::<ApprovalsReviewer>(&["guardian_subagent", "auto_review"], "guardian_subagent");
    check::<ApprovalsReviewer>(&["user"], "user");
    check::<ThreadSortKey>(&["recency_at"], "recency_at");
    check::<ServiceTier>(&["default"], "default");
}

#[test]
fn sandbox_policies() {
    let full = json!({ "type": "fullAccess" });
    let workspace = json!({
        "type": "workspaceWrite", "writableRoots": [], "readOnlyAccess": full, "networkAccess": false,
        "excludeTmpdirEnvVar": false, "excludeSlashTmp": false,
    });
    let read_only = json!({ "type": "readOnly", "access": full, "networkAccess": false });
    let with = |mut policy: Value, name: &str, value: Value| {
        policy[name] = value;
        policy
    };
    let restricted =
        json!({ "type": "restricted", "includePlatformDefaults": true, "readableRoots": ["/src"] });
    let external = |access: &str| json!({ "type": "externalSandbox", "networkAccess": access });
    for (sent, written) in [
        (json!({ "type": "dangerFullAccess" }), json!({ "type": "dangerFullAccess" })),
        (json!({ "type": "danger-full-access" }), json!({ "type": "dangerFullAccess" })),
        (json!({ "type": "readOnly" }), read_only.clone()),
        (json!({ "type": "read-only" }), read_only.clone()),
        (
            json!({ "type": "readOnly", "access": { "type": "restricted", "readableRoots": ["/src"] } }),
            with(read_only, "access", restricted),
        ),
        (json!({ "type": "workspaceWrite" }), workspace.clone()),
        (json!({ "type": "workspace-write" }), workspace.clone()),
        (
            json!({ "type": "workspaceWrite", "networkAccess": true }),
            with(workspace.clone(), "networkAccess", json!(true)),
        ),
        (
            json!({ "type": "workspaceWrite", "writableRoots": ["/a"], "unknown": 1 }),
            with(workspace, "writableRoots", json!(["/a"])),
        ),
        (json!({ "type": "externalSandbox" }), external("restricted")),
        (json!({ "type": "external-sandbox", "networkAccess": "enabled" }), external("enabled")),
    ] {
        let policy: SandboxPolicy = serde_json::from_value(sent.clone()).unwrap();
        assert_eq!(serde_json::to_value(&policy).unwrap(), written, "{sent}");
    }
}

#[test]
fn a_relative_root_is_rejected_with_the_text_of_the_reference() {
    let sent = json!({ "type": "workspaceWrite", "writableRoots": ["src"] });
    let error = serde_json::from_value::<SandboxPolicy>(sent).unwrap_err();
    assert_eq!(error.to_string(), "AbsolutePathBuf deserialized without a base path");
}
