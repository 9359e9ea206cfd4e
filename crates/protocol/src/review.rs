//! Having changes reviewed: `review/start`.
//!
//! A review is a turn like any other, except that nobody can steer it. It begins with an
//! `enteredReviewMode` item and ends with an `exitedReviewMode` item that holds the whole text.

use crate::{ThreadId, Turn, wire};

/// Starts a review of the repository that the thread works in.
#[wire(sparse)]
pub struct ReviewStartParams {
    pub thread_id: ThreadId,
    pub target: ReviewTarget,
    /// Inline when left out.
    pub delivery: Option<ReviewDelivery>,
}

/// The turn that does the review, and where it runs.
#[wire]
pub struct ReviewStartResponse {
    /// Its only item so far is a user message that names the target.
    pub turn: Turn,
    /// The thread of the request, or the new one of a detached review.
    pub review_thread_id: ThreadId,
}

/// What is to be looked at. Texts must not be blank.
#[wire(tag = "type", sparse)]
pub enum ReviewTarget {
    /// Everything that `git status` shows: staged, unstaged and untracked.
    UncommittedChanges,
    /// What was done since the work left this branch.
    BaseBranch { branch: String },
    /// One commit; the title is only for display.
    Commit { sha: String, title: Option<String> },
    /// Whatever these words describe.
    Custom { instructions: String },
}

/// Where a review runs.
#[wire]
#[derive(Copy, Eq)]
pub enum ReviewDelivery {
    /// As the next turn of the thread.
    Inline,
    /// In a fork of the thread, announced by `thread/started` before the answer.
    Detached,
}
