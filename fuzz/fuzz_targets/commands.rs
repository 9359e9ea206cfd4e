//! What is known about a script or an argv does not contradict itself, and no command leaves the sandbox unasked.
#![no_main]

use std::path::Path;

use codicil_policy::{
    CommandDecision, CommandLine, CommandRequest, CommandRules, DecisionPolicies, SandboxPermissions,
    ThreadGrants, command_actions, decide_command, decide_retry,
};
use codicil_protocol::{AskForApproval, ReadOnlyAccess, SandboxPolicy};
use libfuzzer_sys::fuzz_target;

const READ_ONLY: SandboxPolicy =
    SandboxPolicy::ReadOnly { access: ReadOnlyAccess::FullAccess, network_access: false };

fuzz_target!(|input: (&str, Vec<String>, &str)| {
    let (script, argv, rules) = input;
    let rules = CommandRules::parse(Path::new("fuzz.rules"), rules).unwrap_or_default();
    let shell = ["bash", "-lc", script].map(str::to_owned).to_vec();
    for line in [CommandLine::new(shell), CommandLine::new(argv)] {
        assert!(!command_actions(&line).is_empty());
        let is_safe = line.is_known_safe();
        assert!(!(is_safe && line.is_dangerous()), "safe and dangerous: {}", line.display());
        assert!(!(is_safe && line.removes_by_force()), "safe and removes: {}", line.display());
        assert!(!is_safe || line.plain().is_some(), "safe without having been read: {}", line.display());
        for permissions in [SandboxPermissions::UseDefault, SandboxPermissions::RequireEscalated] {
            decide(&line, &permissions, &rules);
        }
    }
});

/// Checks that without a rule no command leaves the sandbox without a question, and that `never` asks no question.
fn decide(line: &CommandLine, permissions: &SandboxPermissions, rules: &CommandRules) {
    let request = CommandRequest {
        line,
        cwd: Path::new("/"),
        permissions,
        justification: None,
        prefix_rule: None,
        skill_folders: &[],
    };
    for approval in [AskForApproval::Untrusted, AskForApproval::OnRequest, AskForApproval::Never] {
        let grants = ThreadGrants::default();
        let policies = DecisionPolicies { approval: &approval, sandbox: &READ_ONLY, rules, grants: &grants };
        let decision = decide_command(&request, &policies);
        let leaves = decision == CommandDecision::Run { sandboxed: false };
        assert!(!leaves || !rules.commands.is_empty(), "{}", line.display());
        let asks = matches!(decision, CommandDecision::Ask(_));
        assert!(!(asks && approval == AskForApproval::Never));
        let _ = decide_retry(&request, &policies);
    }
}
