//! Decisions about patches.

use std::path::Path;

use crate::decide::{DecisionPolicies, policy::QuestionTopic};

/// What is to happen to a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchDecision {
    Run,
    Ask,
    /// The model is told `why`; nothing is written.
    Refuse {
        why: String,
    },
}

/// May these places be written? They are free of links. `can_write` says what the sandbox lets commands write.
pub fn decide_patch<'a>(
    places: impl IntoIterator<Item = &'a Path>,
    can_write: impl Fn(&Path) -> bool,
    policies: &DecisionPolicies<'_>,
) -> PatchDecision {
    let is_free = |place: &Path| can_write(place) && !policies.trusts_nothing();
    let is_open = |place: &&Path| !is_free(place) && !policies.grants.covers_file(place);
    let Some(place) = places.into_iter().find(is_open) else { return PatchDecision::Run };
    match policies.why_not_ask(QuestionTopic::Sandbox) {
        Some(cause) => {
            let why = format!("{cause}, and the sandbox does not let `{}` be written", place.display());
            PatchDecision::Refuse { why }
        }
        None => PatchDecision::Ask,
    }
}
