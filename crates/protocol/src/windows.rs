//! The sandbox on Windows: `windowsSandbox/setupStart`, and a warning about world-writable directories.
//!
//! On other systems the request succeeds and the setup then fails.

use crate::{AbsolutePathBuf, wire};

/// Starts setting up the sandbox. Windows needs this before the first sandboxed command.
#[wire(sparse)]
pub struct WindowsSandboxSetupStartParams {
    pub mode: WindowsSandboxSetupMode,
    /// The workspace to prepare; defaults to the server's working directory.
    pub cwd: Option<AbsolutePathBuf>,
}

/// The setup has started. `windowsSandbox/setupCompleted` reports its result.
#[wire]
pub struct WindowsSandboxSetupStartResponse {
    /// Always true.
    pub started: bool,
}

/// The privileges of the setup, which determine how much the sandbox can restrict.
#[wire(open)]
#[derive(Eq)]
pub enum WindowsSandboxSetupMode {
    /// As administrator, which the user must confirm.
    Elevated,
    Unelevated,
}

/// The result of a sandbox setup.
#[wire]
pub struct WindowsSandboxSetupCompletedNotification {
    pub mode: WindowsSandboxSetupMode,
    pub success: bool,
    /// Null on success.
    pub error: Option<String>,
}

/// World-writable directories, in which the sandbox cannot prevent commands from writing.
#[wire]
pub struct WindowsWorldWritableWarningNotification {
    /// Some of the directories.
    pub sample_paths: Vec<String>,
    /// The number of further directories.
    pub extra_count: u64,
    /// Whether the scan failed, so that there may be more.
    pub failed_scan: bool,
}

/// Whether the sandbox can be used.
#[wire]
pub struct WindowsSandboxReadinessResponse {
    pub status: WindowsSandboxReadiness,
}

/// Whether the sandbox can be used.
#[wire(open)]
#[derive(Eq)]
pub enum WindowsSandboxReadiness {
    Ready,
    NotConfigured,
    UpdateRequired,
}

/// The implementation of the sandbox.
#[wire(open)]
#[derive(Eq)]
pub enum WindowsSandboxImplementation {
    Elevated,
    Unelevated,
    Mxc,
}
