//! Code reviews: `review/start`.
//!
//! A review is a turn that cannot be steered. It begins with an `enteredReviewMode` item and ends with an
//! `exitedReviewMode` item that contains the full text.

use crate::{ThreadId, Turn, wire};

/// Starts a review of the repository that the thread works in.
#[wire(sparse)]
pub struct ReviewStartParams {
    pub thread_id: ThreadId,
    pub target: ReviewTarget,
    /// Defaults to inline.
    pub delivery: Option<ReviewDelivery>,
}

/// The turn of the review and its thread.
#[wire]
pub struct ReviewStartResponse {
    /// The turn, with a user message that names the target as its only item.
    pub turn: Turn,
    /// The thread of the request, or the new thread of a detached review.
    pub review_thread_id: ThreadId,
}

/// The target of a review. Texts must not be blank.
#[wire(tag = "type", sparse)]
pub enum ReviewTarget {
    /// All changes that `git status` shows: staged, unstaged and untracked.
    UncommittedChanges,
    /// The changes since the merge base with this branch.
    BaseBranch { branch: String },
    /// One commit. The title is for display only.
    Commit { sha: String, title: Option<String> },
    /// A target described by instructions.
    Custom { instructions: String },
}

/// Where a review runs.
#[wire]
#[derive(Copy, Eq)]
pub enum ReviewDelivery {
    /// As the next turn of the thread.
    Inline,
    /// In a fork of the thread, announced by `thread/started` before the response.
    #[until("0.118")]
    Detached,
}
