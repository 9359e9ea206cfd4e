//! Which patches need a question.

use std::path::{Path, PathBuf};

use codicil_command::{Access, Grants, PatchDecision, Policies, Rules, WritableRoots, decide_patch};
use codicil_protocol::{AbsolutePathBuf, AskForApproval, ReadOnlyAccess, SandboxPolicy};

const READ_ONLY: SandboxPolicy =
    SandboxPolicy::ReadOnly { access: ReadOnlyAccess::FullAccess, network_access: false };

fn workspace_write(exclude_tmp: bool) -> SandboxPolicy {
    SandboxPolicy::WorkspaceWrite {
        writable_roots: vec![AbsolutePathBuf::new("/extra").unwrap()],
        read_only_access: ReadOnlyAccess::FullAccess,
        network_access: false,
        exclude_tmpdir_env_var: exclude_tmp,
        exclude_slash_tmp: exclude_tmp,
    }
}

fn granular(sandbox_approval: bool) -> AskForApproval {
    AskForApproval::Granular {
        sandbox_approval,
        rules: true,
        skill_approval: false,
        request_permissions: true,
        mcp_elicitations: true,
    }
}

fn roots(sandbox: &SandboxPolicy) -> WritableRoots {
    WritableRoots::new(sandbox, Path::new("/ws"), Some(Path::new("/var/tmp/me")), &Access::default())
}

/// The first letter of each decision: run, ask, refuse; under untrusted, on-failure, on-request, granular
/// with and without sandbox approval, never.
fn decisions(sandbox: &SandboxPolicy, places: &[&str], grants: &Grants) -> String {
    let rules = Rules::default();
    let policies = [
        AskForApproval::Untrusted,
        AskForApproval::OnFailure,
        AskForApproval::OnRequest,
        granular(true),
        granular(false),
        AskForApproval::Never,
    ];
    let decide = |approval: &AskForApproval| {
        let policies = Policies { approval, sandbox, rules: &rules, grants };
        match decide_patch(places.iter().map(Path::new), &roots(sandbox), &policies) {
            PatchDecision::Run => 'r',
            PatchDecision::Ask => 'a',
            PatchDecision::Refuse { .. } => 'x',
        }
    };
    policies.iter().map(decide).collect()
}

#[test]
fn every_policy() {
    let none = Grants::default();
    assert_eq!(decisions(&READ_ONLY, &["/ws/a"], &none), "aaaaxx");
    assert_eq!(decisions(&workspace_write(false), &["/ws/a"], &none), "arrrrr");
    assert_eq!(decisions(&workspace_write(false), &["/ws/a", "/out/b"], &none), "aaaaxx");
    assert_eq!(decisions(&SandboxPolicy::DangerFullAccess, &["/out/b"], &none), "arrrrr");
}

#[test]
fn files_that_were_accepted_for_the_session() {
    let mut grants = Grants::default();
    grants.accept_files([Path::new("/ws/n.txt")]);
    assert_eq!(decisions(&READ_ONLY, &["/ws/n.txt"], &grants), "rrrrrr");
    assert_eq!(decisions(&READ_ONLY, &["/ws/m.txt"], &grants), "aaaaxx");
    assert_eq!(decisions(&READ_ONLY, &["/ws/n.txt", "/ws/m.txt"], &grants), "aaaaxx");
    assert_eq!(decisions(&workspace_write(false), &["/ws/n.txt", "/ws/m.txt"], &grants), "arrrrr");
}

#[test]
fn where_writing_is_allowed() {
    let open = roots(&workspace_write(false));
    let check = |place: &str, expected: bool| assert_eq!(open.allows(Path::new(place)), expected, "{place}");
    check("/ws/a", true);
    check("/ws/deep/er/a", true);
    check("/extra/a", true);
    check("/tmp/a", true);
    check("/var/tmp/me/a", true);
    check("/wsx/a", false);
    check("/etc/passwd", false);
    check("/ws/../etc/passwd", false);
    check("ws/a", false);
    check("/ws/.git/config", false);
    check("/ws/sub/.git", false);
    check("/ws/sub/.GIT/hooks/x", false);
    check("/ws/.codex/config.toml", false);
    check("/ws/.codicil/config.toml", false);
    check("/ws/.agents/x", false);
    check("/ws/.github/x", true);
    check("/ws/git", true);
    let closed = roots(&workspace_write(true));
    assert!(!closed.allows(Path::new("/tmp/a")) && !closed.allows(Path::new("/var/tmp/me/a")));
    assert!(!roots(&READ_ONLY).allows(Path::new("/ws/a")));
}

#[test]
fn granted_roots_protected_places_and_links() {
    let granted = Access { write: vec![PathBuf::from("/granted")], ..Access::default() };
    let roots = WritableRoots::new(&READ_ONLY, Path::new("/ws"), None, &granted)
        .protect([PathBuf::from("/granted/gitdir")]);
    assert!(roots.allows(Path::new("/granted/a")));
    assert!(!roots.allows(Path::new("/granted/gitdir/config")));
    let resolved = roots.resolved(|path| Path::new("/private").join(path.strip_prefix("/").unwrap()));
    assert!(resolved.allows(Path::new("/private/granted/a")));
    assert!(!resolved.allows(Path::new("/private/granted/gitdir/a")));
}
