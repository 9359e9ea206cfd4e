//! Reviews: the prompt for the reviewer, and parsing its response.

mod output;
mod target;

pub use {
    output::{CodeLocation, LineRange, NO_REVIEW, REVIEW_CUT_SHORT, ReviewFinding, ReviewOutput},
    target::{ReviewTargetError, check_review_target, review_label, review_prompt},
};
