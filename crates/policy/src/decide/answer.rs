//! What follows from a person's answer.

use std::path::Path;

use codicil_protocol::{
    CommandExecutionApprovalDecision as CommandAnswer, FileChangeApprovalDecision as PatchAnswer,
    NetworkPolicyRuleAction,
};

use crate::decide::{CommandQuestion, CommandRequest, ThreadGrants};

/// Whether the work goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalOutcome {
    /// It is done, a command in the way that the question says. With words, commands that begin with them
    /// are from now on allowed: [`append_rule`](crate::append_rule) and [`CommandRules::allow`](crate::CommandRules::allow).
    Accepted { amendment: Option<Vec<String>> },
    /// It is not done. The model is told, and the turn goes on.
    Declined,
    /// It is not done, and the turn ends.
    Cancelled,
}

const ACCEPTED: ApprovalOutcome = ApprovalOutcome::Accepted { amendment: None };

/// Takes an answer about a command. An answer counts whether or not it was among those offered; one that
/// this version does not know is a no.
pub fn settle_command(
    answer: &CommandAnswer,
    request: &CommandRequest<'_>,
    question: &CommandQuestion,
    grants: &mut ThreadGrants,
) -> ApprovalOutcome {
    match answer {
        CommandAnswer::Accept => ACCEPTED,
        CommandAnswer::AcceptForSession => {
            grants.accept_command(request, question);
            ACCEPTED
        }
        // A rule without words would allow everything.
        CommandAnswer::AcceptWithExecpolicyAmendment { execpolicy_amendment: words } => {
            ApprovalOutcome::Accepted { amendment: Some(words.clone()).filter(|words| !words.is_empty()) }
        }
        CommandAnswer::ApplyNetworkPolicyAmendment { network_policy_amendment: amendment } => {
            match amendment.action {
                NetworkPolicyRuleAction::Allow => ACCEPTED,
                NetworkPolicyRuleAction::Deny | NetworkPolicyRuleAction::Unrecognized(_) => {
                    ApprovalOutcome::Declined
                }
            }
        }
        CommandAnswer::Decline | CommandAnswer::Unrecognized(_) => ApprovalOutcome::Declined,
        CommandAnswer::Cancel => ApprovalOutcome::Cancelled,
    }
}

/// Takes an answer about a patch that writes these places.
pub fn settle_patch<'a>(
    answer: &PatchAnswer,
    places: impl IntoIterator<Item = &'a Path>,
    grants: &mut ThreadGrants,
) -> ApprovalOutcome {
    match answer {
        PatchAnswer::Accept => ACCEPTED,
        PatchAnswer::AcceptForSession => {
            grants.accept_files(places);
            ACCEPTED
        }
        PatchAnswer::Decline | PatchAnswer::Unrecognized(_) => ApprovalOutcome::Declined,
        PatchAnswer::Cancel => ApprovalOutcome::Cancelled,
    }
}
