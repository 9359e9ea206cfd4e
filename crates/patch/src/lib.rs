//! The `apply_patch` format, from the model's text to changed files.
//!
//! | step | result | function |
//! |---|---|---|
//! | find | a patch inside a shell command | [`find_in_command`] |
//! | parse | the operations of a patch | [`Patch::parse`] |
//! | plan | the changes to the files as they are now | [`PatchPlan::new`] |
//! | show | changes for clients, a summary for the model | [`PatchPlan::file_changes`], [`PatchPlan::summary`] |
//! | apply | all of the changes or none | [`apply`] |
//! | compare | the diff of a whole turn | [`TurnDiff`] |
//!
//! This crate does not decide where a patch may write: [`PatchPlan::places`] returns the paths that it would change, with
//! symbolic links followed, for the caller's policy. All functions block; an async caller uses a blocking thread.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod error;
mod operation;
mod parse;
mod shell;

mod files;
mod paths;
mod plan;
mod planner;
mod rewrite;
mod seek;
mod work;

mod apply;
mod directory;
mod disk;
mod transaction;

mod blob;
mod changes;
mod file_diff;
mod hunks;
mod turn_diff;

pub use {
    apply::{ApplyError, Durability, apply},
    directory::OpenDirectory,
    disk::DiskFiles,
    error::{ParseError, ParseProblem, PlanError},
    files::{FileEntry, FileIdentity, FileMode, FilePlace, FollowLinks, LARGEST_FILE, ReadFiles, WriteFiles},
    operation::{Patch, PatchLine, PatchOperation, PatchSection},
    paths::git_root,
    plan::{ChangeSide, PatchPlan, PlannedChange},
    shell::{PatchInvocation, find_in_command},
    turn_diff::TurnDiff,
    work::{LARGEST_PATCH, LARGEST_PLAN, MOST_LINES, MOST_OPERATIONS},
};
