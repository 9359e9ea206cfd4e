//! `codicil/sandbox/read`: how the server confines commands.

use crate::*;

/// Nothing is chosen.
#[wire]
#[derive(Default)]
pub struct CodicilSandboxReadParams {}

/// What a probe of the server's machine has found. `codicil doctor` prints the same.
#[wire]
pub struct CodicilSandboxReadResponse {
    /// Whether commands can be confined. Those that have to be are refused otherwise.
    pub is_available: bool,
    /// The confinement, or why there is none.
    pub summary: String,
    /// The means of the machine, each with the reason if it is not used, and what the confinement does not stop.
    pub details: Vec<String>,
}
