//! Applies the user's answer to a question about a command.

use codicil_protocol::{CommandExecutionApprovalDecision as CommandAnswer, NetworkPolicyRuleAction};

use crate::decide::{CommandQuestion, CommandRequest, ThreadGrants};

/// The outcome of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalOutcome {
    /// The action is done; a command runs as the question says. With an amendment, commands that begin with its words are
    /// allowed from now on: see [`append_rule`](crate::append_rule) and [`CommandRules::allow`](crate::CommandRules::allow).
    Accepted { amendment: Option<Vec<String>> },
    /// The action is not done. The model is informed, and the turn continues.
    Declined,
    /// The action is not done, and the turn ends.
    Cancelled,
}

pub(super) const ACCEPTED: ApprovalOutcome = ApprovalOutcome::Accepted { amendment: None };

/// Applies an answer about a command. An answer is valid even if it was not offered; one that this version does not know
/// declines.
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
