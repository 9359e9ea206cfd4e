//! Reviews: what is asked of the reviewer, and what is made of its answer.

mod output;
mod target;

pub use {
    output::{CodeLocation, Finding, LineRange, NO_REVIEW, REVIEW_CUT_SHORT, ReviewOutput},
    target::{ReviewTargetError, check_review_target, review_label, review_prompt},
};
