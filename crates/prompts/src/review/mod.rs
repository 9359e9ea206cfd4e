//! Reviews: what is asked of the reviewer, and what is made of its answer.

mod output;
mod target;

pub use {
    output::{CodeLocation, LineRange, NO_REVIEW, REVIEW_CUT_SHORT, ReviewFinding, ReviewOutput},
    target::{ReviewTargetError, check_review_target, review_label, review_prompt},
};
