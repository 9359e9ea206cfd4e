//! How many files and sockets the server may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is asked for where there is no hard limit, or a higher one.
const ENOUGH_DESCRIPTORS: u64 = 1 << 20;

/// What some systems allow at most, whatever they report as the hard limit (`OPEN_MAX` of macOS).
const FALLBACK_DESCRIPTORS: u64 = 10_240;

/// Raises the soft limit of open files to the hard one: clients, commands and MCP servers take several each. Commands
/// start with the limit from before.
/// The limit it was started with is enough for fewer clients, so a failure is no error.
pub fn raise_limit() {
    let Rlimit { current: original, maximum } = getrlimit(Resource::Nofile);
    let Some(original) = original else { return };
    codicil_exec::set_command_file_limit(Rlimit { current: Some(original), maximum });
    for wanted in [maximum.unwrap_or(u64::MAX).min(ENOUGH_DESCRIPTORS), FALLBACK_DESCRIPTORS] {
        if wanted <= original {
            return;
        }
        if setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).is_ok() {
            tracing::info!("raised the limit of open files from {original} to {wanted}");
            return;
        }
    }
}
