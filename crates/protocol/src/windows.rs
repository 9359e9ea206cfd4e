//! The sandbox on Windows: `windowsSandbox/setupStart`, and a warning about open directories.
//!
//! On other systems the request is answered all the same and the setup then fails.

use crate::{AbsolutePathBuf, wire};

/// Prepares the sandbox, which Windows needs before the first confined command.
#[wire(sparse)]
pub struct WindowsSandboxSetupStartParams {
    pub mode: WindowsSandboxSetupMode,
    /// The workspace to prepare for; the server's directory when left out.
    pub cwd: Option<AbsolutePathBuf>,
}

/// The setup is under way; `windowsSandbox/setupCompleted` tells how it ended.
#[wire]
pub struct WindowsSandboxSetupStartResponse {
    /// Always true.
    pub started: bool,
}

/// With whose rights the setup runs, and so how much the sandbox can confine.
#[wire(open)]
#[derive(Eq)]
pub enum WindowsSandboxSetupMode {
    /// As administrator, which Windows asks the person about.
    Elevated,
    Unelevated,
}

/// The sandbox is ready, or why it is not.
#[wire]
pub struct WindowsSandboxSetupCompletedNotification {
    pub mode: WindowsSandboxSetupMode,
    pub success: bool,
    /// Null on success.
    pub error: Option<String>,
}

/// Directories that everyone may write to, where the sandbox cannot keep a command from writing.
#[wire]
pub struct WindowsWorldWritableWarningNotification {
    /// Some of them.
    pub sample_paths: Vec<String>,
    /// How many more there are.
    pub extra_count: u64,
    /// The search broke off, so there may be others.
    pub failed_scan: bool,
}
