//! Decisions about patches, and the outcome of questions about them.

use std::path::Path;

use codicil_protocol::FileChangeApprovalDecision as PatchAnswer;

use crate::decide::{
    ApprovalOutcome, DecisionPolicies, ThreadGrants, outcome::ACCEPTED, policies::QuestionTopic,
};

/// The decision about a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchDecision {
    Run,
    Ask,
    /// Nothing is written, and the model gets `why`.
    Refuse {
        why: String,
    },
}

/// Decides whether a patch may write these paths, which have no symbolic links. `can_write` returns whether the sandbox
/// lets commands write a path.
pub fn decide_patch<'a>(
    paths: impl IntoIterator<Item = &'a Path>,
    can_write: impl Fn(&Path) -> bool,
    policies: &DecisionPolicies<'_>,
) -> PatchDecision {
    let is_allowed = |path: &Path| {
        (can_write(path) && !policies.asks_unless_known_safe()) || policies.grants.covers_file(path)
    };
    let Some(path) = paths.into_iter().find(|path| !is_allowed(path)) else { return PatchDecision::Run };
    match policies.why_not_ask(QuestionTopic::Sandbox) {
        Some(cause) => {
            let why = format!("{cause}, and the sandbox does not let `{}` be written", path.display());
            PatchDecision::Refuse { why }
        }
        None => PatchDecision::Ask,
    }
}

/// Applies an answer about a patch that writes these paths.
pub fn settle_patch<'a>(
    answer: &PatchAnswer,
    paths: impl IntoIterator<Item = &'a Path>,
    grants: &mut ThreadGrants,
) -> ApprovalOutcome {
    match answer {
        PatchAnswer::Accept => ACCEPTED,
        PatchAnswer::AcceptForSession => {
            grants.accept_files(paths);
            ACCEPTED
        }
        PatchAnswer::Decline | PatchAnswer::Unrecognized(_) => ApprovalOutcome::Declined,
        PatchAnswer::Cancel => ApprovalOutcome::Cancelled,
    }
}
