//! Permissions requested ahead of commands, and their lifetime.

use std::path::Path;

use codicil_policy::{
    AccessGrant, CommandRequest, CommandRules, DecisionPolicies, PermissionsDecision, QuestionTopic,
    SandboxPermissions, ThreadGrants, decide_permissions, why_not_ask,
};
use codicil_protocol::{
    AskForApproval, GrantedPermissionProfile, PermissionGrantScope, ReadOnlyAccess, RequestPermissionProfile,
    SandboxPolicy,
};

use crate::support::bash;

const READ_ONLY: SandboxPolicy =
    SandboxPolicy::ReadOnly { access: ReadOnlyAccess::FullAccess, network_access: false };

const TOPICS: [QuestionTopic; 5] = [
    QuestionTopic::Sandbox,
    QuestionTopic::Rules,
    QuestionTopic::Skills,
    QuestionTopic::Permissions,
    QuestionTopic::McpElicitations,
];

fn granular(switches: [bool; 5]) -> AskForApproval {
    let [sandbox_approval, rules, skill_approval, request_permissions, mcp_elicitations] = switches;
    AskForApproval::Granular {
        sandbox_approval,
        rules,
        skill_approval,
        request_permissions,
        mcp_elicitations,
    }
}

fn write(paths: &[&str]) -> AccessGrant {
    AccessGrant { write: paths.iter().map(Into::into).collect(), ..AccessGrant::default() }
}

/// Returns the first letter of a decision: granted, ask, refuse.
fn decide(approval: &AskForApproval, sandbox: &SandboxPolicy, grants: &ThreadGrants) -> char {
    let policies = DecisionPolicies { approval, sandbox, rules: &CommandRules::default(), grants };
    match decide_permissions(&write(&["/out"]), &policies) {
        PermissionsDecision::Granted => 'g',
        PermissionsDecision::Ask => 'a',
        PermissionsDecision::Refuse { .. } => 'r',
    }
}

#[test]
fn each_switch_of_granular_has_its_own_topic() {
    for (at, topic) in TOPICS.into_iter().enumerate() {
        let only = granular(std::array::from_fn(|switch| switch == at));
        let but = granular(std::array::from_fn(|switch| switch != at));
        for other in TOPICS {
            assert_eq!(why_not_ask(&only, other).is_none(), other == topic, "{only:?} {other:?}");
            assert_eq!(why_not_ask(&but, other).is_none(), other != topic, "{but:?} {other:?}");
        }
        for asking in [AskForApproval::Untrusted, AskForApproval::OnFailure, AskForApproval::OnRequest] {
            assert_eq!(why_not_ask(&asking, topic), None);
        }
        assert!(why_not_ask(&AskForApproval::Never, topic).is_some());
    }
}

#[test]
fn requests_ahead_of_commands() {
    let none = ThreadGrants::default();
    assert_eq!(decide(&AskForApproval::OnRequest, &READ_ONLY, &none), 'a');
    assert_eq!(decide(&AskForApproval::Never, &READ_ONLY, &none), 'r');
    assert_eq!(decide(&granular([true, true, true, false, true]), &READ_ONLY, &none), 'r');
    assert_eq!(decide(&granular([false, false, false, true, false]), &READ_ONLY, &none), 'a');
    assert_eq!(decide(&AskForApproval::Never, &SandboxPolicy::DangerFullAccess, &none), 'g');
}

#[test]
fn grants_last_for_the_turn_or_the_thread() {
    let turn = write(&["/turn"]);
    let session = write(&["/out"]);
    let mut grants = ThreadGrants::default();
    grants.accept_access(&turn, PermissionGrantScope::Turn);
    grants.accept_access(&session, PermissionGrantScope::Session);
    assert_eq!(grants.access(), write(&["/out", "/turn"]));
    grants.end_turn();
    assert_eq!(grants.access(), session);
    assert_eq!(decide(&AskForApproval::Never, &READ_ONLY, &grants), 'g');
}

#[test]
fn an_answer_grants_at_most_the_request() {
    let asked: RequestPermissionProfile =
        serde_json::from_str(r#"{"fileSystem": {"write": ["/ws", "/out"]}, "network": {"enabled": true}}"#)
            .unwrap();
    let answer: GrantedPermissionProfile = serde_json::from_str(
        r#"{"fileSystem": {"write": ["/ws/sub", "/etc", "/ws/../etc"], "read": ["/root"]}}"#,
    )
    .unwrap();
    let granted = AccessGrant::from(&answer).limited_to(&AccessGrant::from(&asked));
    assert_eq!(granted, write(&["/ws/sub"]));
    assert!(AccessGrant::from(&asked).network);
}

#[test]
fn a_command_has_earlier_grants_and_its_own() {
    let mut grants = ThreadGrants::default();
    grants.accept_access(&write(&["/out"]), PermissionGrantScope::Turn);
    let request = |permissions| {
        let line = bash("make");
        let cwd = Path::new("/ws");
        CommandRequest {
            line: &line,
            cwd,
            permissions,
            justification: None,
            prefix_rule: None,
            skill_folders: &[],
        }
        .access(&grants)
    };
    assert_eq!(request(&SandboxPermissions::UseDefault), write(&["/out"]));
    let more = SandboxPermissions::WithAdditional(write(&["/more"]));
    assert_eq!(request(&more), write(&["/out", "/more"]));
}
