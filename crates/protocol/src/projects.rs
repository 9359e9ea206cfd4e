//! Projects: `project/*`. A project groups threads and has directories. All methods are experimental.

use std::collections::BTreeMap;

use crate::{AbsolutePathBuf, SortDirection, ThreadId, wire};

/// A group of threads.
#[wire]
pub struct Project {
    pub id: String,
    /// The place in the order of projects, which `project/move` changes.
    pub position: i64,
    /// Unix seconds.
    pub created_at: i64,
    pub metadata: BTreeMap<String, String>,
    pub name: String,
    /// The directories of the project.
    pub roots: Vec<ProjectRoot>,
    /// Unix seconds.
    pub updated_at: i64,
    /// When a thread of the project was last used, in Unix seconds; null without threads.
    pub recency_at: Option<i64>,
}

/// A directory of a project.
#[wire]
pub struct ProjectRoot {
    pub path: AbsolutePathBuf,
}

/// Lists the projects.
#[wire(sparse)]
#[derive(Default)]
pub struct ProjectListParams {
    pub cursor: Option<String>,
    pub limit: Option<u32>,
    pub sort_direction: Option<SortDirection>,
    pub sort_key: Option<ProjectSortKey>,
}

/// The order of projects. Defaults to their position.
#[wire(open)]
#[derive(Eq)]
pub enum ProjectSortKey {
    Position,
    RecencyAt,
}

/// One page of projects.
#[wire]
pub struct ProjectListResponse {
    pub data: Vec<Project>,
    pub next_cursor: Option<String>,
}

/// Reads a project.
#[wire]
pub struct ProjectReadParams {
    pub project_id: String,
}

/// The project.
#[wire]
pub struct ProjectReadResponse {
    pub project: Project,
}

/// Creates a project.
#[wire(sparse)]
pub struct ProjectCreateParams {
    pub name: String,
    pub roots: Vec<ProjectRoot>,
    /// A repetition with the same key returns the project of the first request.
    pub idempotency_key: String,
    pub metadata: Option<BTreeMap<String, String>>,
}

/// The new project; `project/changed` follows.
#[wire]
pub struct ProjectCreateResponse {
    pub project: Project,
}

/// Creates a project with threads that exist already.
#[wire(sparse)]
pub struct ProjectImportParams {
    pub name: String,
    pub roots: Vec<ProjectRoot>,
    /// A repetition with the same key returns the project of the first request.
    pub idempotency_key: String,
    pub metadata: Option<BTreeMap<String, String>>,
    pub threads: Option<Vec<ThreadId>>,
}

/// The new project; `project/changed` follows.
#[wire]
pub struct ProjectImportResponse {
    pub project: Project,
}

/// Changes a project. Absent members are kept.
#[wire(sparse)]
pub struct ProjectUpdateParams {
    pub project_id: String,
    pub metadata: Option<BTreeMap<String, String>>,
    pub name: Option<String>,
    pub roots: Option<Vec<ProjectRoot>>,
}

/// The project after the change; `project/changed` follows.
#[wire]
pub struct ProjectUpdateResponse {
    pub project: Project,
}

/// Changes the position of a project.
#[wire(sparse)]
pub struct ProjectMoveParams {
    pub project_id: String,
    /// The project before which it is put. Absent: at the end.
    pub before_project_id: Option<String>,
}

/// The project is moved.
#[wire]
#[derive(Default)]
pub struct ProjectMoveResponse {}

/// Deletes a project. Its threads are kept.
#[wire]
pub struct ProjectDeleteParams {
    pub project_id: String,
}

/// The project is deleted; `project/changed` follows.
#[wire]
#[derive(Default)]
pub struct ProjectDeleteResponse {}

/// A project was created, changed or deleted. Sent to all connections.
#[wire]
pub struct ProjectChangedNotification {
    pub project_id: String,
    pub change_type: ProjectChangeType,
}

/// What happened to a project.
#[wire(open)]
#[derive(Eq)]
pub enum ProjectChangeType {
    Created,
    Updated,
    Deleted,
}

/// A thread was moved into a project or out of one. Sent to all connections.
#[wire]
pub struct ThreadProjectUpdatedNotification {
    pub thread_id: ThreadId,
    /// Null: no project.
    #[in_166(Option<String>, required)]
    pub project_id: Option<String>,
}
