//! The permissions text for each sandbox and approval policy.

use codicil_prompts::{ContextSnapshot, ContextTexts, context_messages, message_text};
use codicil_protocol::{AbsolutePathBuf, AskForApproval, NetworkAccess, ReadOnlyAccess, SandboxPolicy};
use insta::assert_snapshot;
use serde_json::json;

use crate::show::snapshot;

fn permissions(approval_policy: AskForApproval, sandbox_policy: SandboxPolicy) -> String {
    let now = ContextSnapshot { approval_policy, sandbox_policy, ..snapshot() };
    message_text(&context_messages(None, &now, &ContextTexts::default())[0])
}

fn roots(paths: &[&str]) -> Vec<AbsolutePathBuf> {
    paths.iter().map(|path| AbsolutePathBuf::new(*path).unwrap()).collect()
}

fn workspace(writable_roots: &[&str], network_access: bool, is_bare: bool) -> SandboxPolicy {
    SandboxPolicy::WorkspaceWrite {
        writable_roots: roots(writable_roots),
        read_only_access: ReadOnlyAccess::FullAccess,
        network_access,
        exclude_tmpdir_env_var: is_bare,
        exclude_slash_tmp: is_bare,
    }
}

/// Returns the lines about files and network.
fn reach(sandbox: SandboxPolicy) -> String {
    let text = permissions(AskForApproval::Never, sandbox);
    text.lines()
        .filter(|line| line.starts_with("Files:") || line.starts_with("Network:"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn each_sandbox_describes_its_limits() {
    assert_snapshot!(reach(workspace(&["/data", "/cache"], true, false)), @r"
    Files: workspace-write sandbox. You can read all files. You can write in the working directory, `/data`, `/cache`, /tmp and $TMPDIR, and nowhere else.
    Network: commands can use it.
    ");
    assert_snapshot!(reach(workspace(&[], false, true)), @r"
    Files: workspace-write sandbox. You can read all files. You can write in the working directory, and nowhere else.
    Network: commands cannot use it. Downloads, package installs and remote calls will fail.
    ");
    assert_snapshot!(reach(SandboxPolicy::DangerFullAccess), @r"
    Files: no sandbox. You can read and write wherever this account can, so take care that only what the task needs is touched.
    Network: commands can use it.
    ");
    assert_snapshot!(reach(SandboxPolicy::ExternalSandbox { network_access: NetworkAccess::Restricted }), @r"
    Files: the whole environment is a sandbox made for you. You can read and write everything in it.
    Network: commands cannot use it. Downloads, package installs and remote calls will fail.
    ");
    let access =
        ReadOnlyAccess::Restricted { include_platform_defaults: true, readable_roots: roots(&["/data"]) };
    assert_snapshot!(reach(SandboxPolicy::ReadOnly { access, network_access: false }), @r"
    Files: read-only sandbox. You can read the working directory, `/data` and the system's own programs and libraries, and nothing else. Commands cannot write anywhere.
    Network: commands cannot use it. Downloads, package installs and remote calls will fail.
    ");
    assert_snapshot!(reach(SandboxPolicy::Unrecognized(json!({"type": "moat"}))), @r"
    Files: a sandbox of an unknown kind. Expect that you can read but not write.
    Network: commands cannot use it. Downloads, package installs and remote calls will fail.
    ");
}

#[test]
fn each_policy_explains_how_to_ask() {
    let granular = |sandbox_approval, rules| AskForApproval::Granular {
        sandbox_approval,
        rules,
        skill_approval: false,
        request_permissions: false,
        mcp_elicitations: false,
    };
    let policies = [
        ("never", AskForApproval::Never),
        ("on-request", AskForApproval::OnRequest),
        ("on-failure", AskForApproval::OnFailure),
        ("untrusted", AskForApproval::Untrusted),
        ("granular, some", granular(true, false)),
        ("granular, none", granular(false, false)),
        ("unknown", AskForApproval::Unrecognized(json!("on-mondays"))),
    ];
    let mut shown = String::new();
    for (name, policy) in policies {
        for (sandbox, label) in
            [(workspace(&[], false, false), "sandbox"), (SandboxPolicy::DangerFullAccess, "open")]
        {
            let text = permissions(policy.clone(), sandbox);
            let approval = text.split_once("\n\nApproval: ").unwrap().1;
            let approval = approval.strip_suffix("\n</permissions instructions>").unwrap();
            shown.push_str(&format!("## {name}, {label}\n{approval}\n\n"));
        }
    }
    assert_snapshot!(shown);
}

#[test]
fn the_text_does_not_contain_the_working_directory() {
    let elsewhere = ContextSnapshot { cwd: "/elsewhere".to_owned(), ..snapshot() };
    let text = |context: &ContextSnapshot| {
        message_text(&context_messages(None, context, &ContextTexts::default())[0])
    };
    assert_eq!(text(&elsewhere), text(&snapshot()));
}

#[test]
fn a_proxy_is_described() {
    let proxied = ContextSnapshot { hosts_by_proxy: true, ..snapshot() };
    let shown = |context: &ContextSnapshot| {
        message_text(&context_messages(None, context, &ContextTexts::default())[0])
    };
    let text = shown(&proxied);
    assert!(text.contains("reach hosts through a proxy") && !text.contains("cannot use it"), "{text}");
    let open = ContextSnapshot { sandbox_policy: SandboxPolicy::DangerFullAccess, ..proxied };
    assert!(shown(&open).contains("Network: commands can use it."));
}
