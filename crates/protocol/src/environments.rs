//! Environments, the machines on which the commands of a thread run: `environment/*` and the notifications about them.

use crate::{LegacyAppPathString, PathUri, Secret, ThreadId, wire};

/// Adds an environment that runs commands through an exec server.
#[wire(sparse)]
pub struct EnvironmentAddParams {
    pub environment_id: String,
    pub exec_server_url: String,
    pub auth_bearer_token: Option<Secret>,
    pub connect_timeout_ms: Option<u64>,
    pub skills: Option<EnvironmentSkillsParams>,
    pub websocket_request_id: Option<String>,
}

/// The skills that an environment needs.
#[wire(sparse)]
#[derive(Default)]
pub struct EnvironmentSkillsParams {
    pub required: Option<Vec<String>>,
}

/// The environment is added.
#[wire]
#[derive(Default)]
pub struct EnvironmentAddResponse {}

/// Returns the shell and working directory of an environment.
#[wire]
pub struct EnvironmentInfoParams {
    pub environment_id: String,
}

/// The shell and working directory of an environment.
#[wire]
pub struct EnvironmentInfoResponse {
    pub shell: EnvironmentShellInfo,
    pub cwd: Option<PathUri>,
}

/// A shell.
#[wire]
pub struct EnvironmentShellInfo {
    pub name: String,
    pub path: String,
}

/// Returns whether an environment can be used.
#[wire]
pub struct EnvironmentStatusParams {
    pub environment_id: String,
}

/// The state of an environment.
#[wire]
pub struct EnvironmentStatusResponse {
    pub status: EnvironmentStatusKind,
    /// Why it cannot be used.
    pub error: Option<String>,
}

/// Whether an environment can be used.
#[wire(open)]
#[derive(Eq)]
pub enum EnvironmentStatusKind {
    Ready,
    Pending,
    Disconnected,
    Unknown,
}

/// The connection of a thread to an environment was made or lost. Sent to its subscribers.
#[wire]
pub struct EnvironmentConnectionNotification {
    pub thread_id: ThreadId,
    pub environment_id: String,
}

/// An environment for the turns of a thread.
#[wire(sparse)]
pub struct TurnEnvironmentParams {
    pub environment_id: String,
    pub cwd: LegacyAppPathString,
    /// The directories of the workspace. Defaults to `cwd`.
    pub runtime_workspace_roots: Option<Vec<LegacyAppPathString>>,
}

/// An environment in which the commands of a thread run.
#[wire]
pub struct ThreadEnvironment {
    pub environment_id: String,
    pub cwd: LegacyAppPathString,
    pub runtime_workspace_roots: Vec<LegacyAppPathString>,
}

/// A directory with skills and plugins that a client selected for a thread.
#[wire]
pub struct SelectedCapabilityRoot {
    pub id: String,
    pub location: CapabilityRootLocation,
}

/// Where such a directory is.
#[wire(sparse, open, tag = "type")]
pub enum CapabilityRootLocation {
    Environment { environment_id: String, path: String },
}
