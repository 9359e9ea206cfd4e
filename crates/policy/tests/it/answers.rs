//! The effects of the user's answers.

use std::path::Path;

use codicil_policy::{
    ApprovalOutcome, CommandDecision, CommandLine, CommandQuestion, CommandRequest, CommandRules,
    DecisionPolicies, SandboxPermissions, ThreadGrants, append_rule, decide_command, settle_command,
    settle_patch,
};
use codicil_protocol::{
    AskForApproval, CommandExecutionApprovalDecision as Answer, FileChangeApprovalDecision as PatchAnswer,
    NetworkPolicyAmendment, NetworkPolicyRuleAction, ReadOnlyAccess, SandboxPolicy,
};
use tempfile::TempDir;

use crate::support::{bash, words};

const READ_ONLY: SandboxPolicy =
    SandboxPolicy::ReadOnly { access: ReadOnlyAccess::FullAccess, network_access: false };

fn escalated(line: &CommandLine) -> CommandRequest<'_> {
    CommandRequest {
        line,
        cwd: Path::new("/ws"),
        permissions: &SandboxPermissions::RequireEscalated,
        justification: Some("May I?"),
        prefix_rule: None,
        skill_folders: &[],
    }
}

fn decide(line: &CommandLine, rules: &CommandRules, grants: &ThreadGrants) -> CommandDecision {
    let policies =
        DecisionPolicies { approval: &AskForApproval::OnRequest, sandbox: &READ_ONLY, rules, grants };
    decide_command(&escalated(line), &policies)
}

fn question(line: &CommandLine) -> CommandQuestion {
    match decide(line, &CommandRules::default(), &ThreadGrants::default()) {
        CommandDecision::Ask(question) => question,
        other => panic!("{other:?}"),
    }
}

/// Returns the outcome of an answer, and whether the same command needs a question again.
fn settle(answer: &Answer) -> (ApprovalOutcome, bool) {
    let line = bash("touch x");
    let mut grants = ThreadGrants::default();
    let outcome = settle_command(answer, &escalated(&line), &question(&line), &mut grants);
    let next = decide(&line, &CommandRules::default(), &grants);
    (outcome, matches!(next, CommandDecision::Ask(_)))
}

#[test]
fn every_answer_about_a_command() {
    let accepted = || ApprovalOutcome::Accepted { amendment: None };
    let network = |action| Answer::ApplyNetworkPolicyAmendment {
        network_policy_amendment: NetworkPolicyAmendment { host: "example.com".to_owned(), action },
    };
    let amendment = |words| Answer::AcceptWithExecpolicyAmendment { execpolicy_amendment: words };
    let unknown = serde_json::from_str(r#""perhaps""#).unwrap();
    assert_eq!(settle(&Answer::Accept), (accepted(), true));
    assert_eq!(settle(&Answer::AcceptForSession), (accepted(), false));
    assert_eq!(settle(&Answer::Decline), (ApprovalOutcome::Declined, true));
    assert_eq!(settle(&Answer::Cancel), (ApprovalOutcome::Cancelled, true));
    assert_eq!(settle(&unknown), (ApprovalOutcome::Declined, true));
    assert_eq!(settle(&network(NetworkPolicyRuleAction::Allow)), (accepted(), true));
    assert_eq!(settle(&network(NetworkPolicyRuleAction::Deny)), (ApprovalOutcome::Declined, true));
    let touch = ApprovalOutcome::Accepted { amendment: Some(words("touch")) };
    assert_eq!(settle(&amendment(words("touch"))), (touch, true));
    // A rule without words would allow everything.
    assert_eq!(settle(&amendment(Vec::new())), (accepted(), true));
}

#[test]
fn an_accepted_amendment_applies_at_once_and_is_loaded_from_its_file() {
    let home = TempDir::new().unwrap();
    let line = bash("touch x");
    let mut rules = CommandRules::default();
    let mut grants = ThreadGrants::default();
    let asked = question(&line);
    let answer = asked.decisions[1].clone();
    let ApprovalOutcome::Accepted { amendment: Some(words) } =
        settle_command(&answer, &escalated(&line), &asked, &mut grants)
    else {
        panic!("{answer:?} is no amendment")
    };
    append_rule(home.path(), &words).unwrap();
    rules.allow(&words);
    let (stored, errors) = CommandRules::load(&[home.path().to_owned()]);
    assert_eq!(errors, []);
    for rules in [rules, stored] {
        assert_eq!(decide(&line, &rules, &grants), CommandDecision::Run { sandboxed: false });
        assert!(matches!(decide(&bash("touch y"), &rules, &grants), CommandDecision::Ask(_)));
    }
}

#[test]
fn every_answer_about_a_patch() {
    let place = Path::new("/ws/a");
    let settle = |answer: &PatchAnswer| settle_patch(answer, [place], &mut ThreadGrants::default());
    let accepted = ApprovalOutcome::Accepted { amendment: None };
    assert_eq!(settle(&PatchAnswer::Accept), accepted);
    assert_eq!(settle(&PatchAnswer::AcceptForSession), accepted);
    assert_eq!(settle(&PatchAnswer::Decline), ApprovalOutcome::Declined);
    assert_eq!(settle(&PatchAnswer::Cancel), ApprovalOutcome::Cancelled);
    assert_eq!(settle(&serde_json::from_str(r#""perhaps""#).unwrap()), ApprovalOutcome::Declined);
}
