//! Decisions about patches.

use std::path::Path;

use codicil_policy::{CommandRules, DecisionPolicies, PatchDecision, ThreadGrants, decide_patch};
use codicil_protocol::{AskForApproval, ReadOnlyAccess, SandboxPolicy};

const READ_ONLY: SandboxPolicy =
    SandboxPolicy::ReadOnly { access: ReadOnlyAccess::FullAccess, network_access: false };

const WORKSPACE_WRITE: SandboxPolicy = SandboxPolicy::WorkspaceWrite {
    writable_roots: Vec::new(),
    read_only_access: ReadOnlyAccess::FullAccess,
    network_access: false,
    exclude_tmpdir_env_var: false,
    exclude_slash_tmp: false,
};

fn granular(sandbox_approval: bool) -> AskForApproval {
    AskForApproval::Granular {
        sandbox_approval,
        rules: true,
        skill_approval: false,
        request_permissions: true,
        mcp_elicitations: true,
    }
}

/// Returns whether the sandbox lets commands write a path: under `workspace-write`, everything in `/ws`.
fn can_write(sandbox: &SandboxPolicy, path: &Path) -> bool {
    match sandbox {
        SandboxPolicy::DangerFullAccess => true,
        SandboxPolicy::WorkspaceWrite { .. } => path.starts_with("/ws"),
        _ => false,
    }
}

/// Returns the first letter of each decision (run, ask, refuse) under `untrusted`, `on-failure`, `on-request`, `granular`
/// with and without sandbox approval, and `never`.
fn decisions(sandbox: &SandboxPolicy, paths: &[&str], grants: &ThreadGrants) -> String {
    let rules = CommandRules::default();
    let policies = [
        AskForApproval::Untrusted,
        AskForApproval::OnFailure,
        AskForApproval::OnRequest,
        granular(true),
        granular(false),
        AskForApproval::Never,
    ];
    let decide = |approval: &AskForApproval| {
        let policies = DecisionPolicies { approval, sandbox, rules: &rules, grants };
        let paths = paths.iter().map(Path::new);
        match decide_patch(paths, |path| can_write(sandbox, path), &policies) {
            PatchDecision::Run => 'r',
            PatchDecision::Ask => 'a',
            PatchDecision::Refuse { .. } => 'x',
        }
    };
    policies.iter().map(decide).collect()
}

#[test]
fn every_policy() {
    let none = ThreadGrants::default();
    assert_eq!(decisions(&READ_ONLY, &["/ws/a"], &none), "aaaaxx");
    assert_eq!(decisions(&WORKSPACE_WRITE, &["/ws/a"], &none), "arrrrr");
    assert_eq!(decisions(&WORKSPACE_WRITE, &["/ws/a", "/out/b"], &none), "aaaaxx");
    assert_eq!(decisions(&SandboxPolicy::DangerFullAccess, &["/out/b"], &none), "arrrrr");
}

#[test]
fn files_accepted_for_the_session_need_no_question() {
    let mut grants = ThreadGrants::default();
    grants.accept_files([Path::new("/ws/n.txt")]);
    assert_eq!(decisions(&READ_ONLY, &["/ws/n.txt"], &grants), "rrrrrr");
    assert_eq!(decisions(&READ_ONLY, &["/ws/m.txt"], &grants), "aaaaxx");
    assert_eq!(decisions(&READ_ONLY, &["/ws/n.txt", "/ws/m.txt"], &grants), "aaaaxx");
    assert_eq!(decisions(&WORKSPACE_WRITE, &["/ws/n.txt", "/ws/m.txt"], &grants), "arrrrr");
}
