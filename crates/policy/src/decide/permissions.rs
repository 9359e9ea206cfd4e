//! Decisions about permissions that the model asks for ahead of its commands.

use crate::decide::{AccessGrant, DecisionPolicies, policy::QuestionTopic};

/// What is to happen to a request for permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionsDecision {
    /// All of it was granted earlier, or there is no sandbox to open.
    Granted,
    Ask,
    /// Nothing is granted; the model is told `why`.
    Refuse {
        why: String,
    },
}

/// May the commands to come have this?
pub fn decide_permissions(asked: &AccessGrant, policies: &DecisionPolicies<'_>) -> PermissionsDecision {
    if !policies.confines() || policies.grants.access().covers(asked) {
        return PermissionsDecision::Granted;
    }
    match policies.why_not_ask(QuestionTopic::Permissions) {
        Some(cause) => {
            let why = format!("{cause}, and the sandbox does not give these permissions; do without them");
            PermissionsDecision::Refuse { why }
        }
        None => PermissionsDecision::Ask,
    }
}
