//! Sections of the list of threads: `threadSection/*` and `thread/section/move`. A thread is in at most one section.

use crate::{Patch, ThreadId, wire};

/// A section of the list of threads.
#[wire]
pub struct ThreadSection {
    pub id: String,
    pub name: String,
    pub appearance: Option<ThreadSectionAppearance>,
}

/// How a client shows a section. The server only stores it.
#[wire]
#[derive(Default)]
pub struct ThreadSectionAppearance {
    pub icon: Option<String>,
    pub color: Option<String>,
}

/// Lists the sections.
#[wire(sparse)]
#[derive(Default)]
pub struct ThreadSectionListParams {
    pub cursor: Option<String>,
    pub limit: Option<u32>,
}

/// One page of sections, in their order.
#[wire]
pub struct ThreadSectionListResponse {
    pub data: Vec<ThreadSection>,
    pub next_cursor: Option<String>,
}

/// Adds a section after the others.
#[wire(sparse)]
pub struct ThreadSectionCreateParams {
    pub name: String,
    pub appearance: Option<ThreadSectionAppearance>,
}

/// The new section.
#[wire]
pub struct ThreadSectionCreateResponse {
    pub section: ThreadSection,
}

/// Changes a section.
#[wire(sparse)]
pub struct ThreadSectionUpdateParams {
    pub section_id: String,
    pub name: String,
    /// Null removes it.
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub appearance: Patch<ThreadSectionAppearance>,
}

/// The section after the change.
#[wire]
pub struct ThreadSectionUpdateResponse {
    pub section: ThreadSection,
}

/// Deletes a section. Its threads are kept.
#[wire]
pub struct ThreadSectionDeleteParams {
    pub section_id: String,
}

/// The section is deleted.
#[wire]
#[derive(Default)]
pub struct ThreadSectionDeleteResponse {}

/// Moves a thread into a section, or within one.
#[wire]
pub struct ThreadSectionMoveParams {
    pub thread_id: ThreadId,
    /// Null: out of its section. Required.
    #[serde(deserialize_with = "Option::deserialize")]
    #[in_166(Option<String>, required)]
    pub section_id: Option<String>,
    /// The thread of the section before which it is put. Absent: at the end.
    #[omit]
    pub before_thread_id: Option<ThreadId>,
}

/// The thread is moved.
#[wire]
#[derive(Default)]
pub struct ThreadSectionMoveResponse {}
