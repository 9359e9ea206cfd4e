//! Ceilings on what a command may use.

use std::num::NonZeroU64;

use codicil_config::SandboxLimits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Resource limits of each process of a command. Left out is unlimited, or what the server itself is
/// limited to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Seconds of processor time; then the process is killed.
    pub cpu_seconds: Option<u64>,
    /// Bytes of address space.
    pub address_space: Option<u64>,
    /// Processes and threads of the *user*, the server's included, so leave room. Does not bind root.
    pub processes: Option<u64>,
    /// Bytes of the largest file that can be written.
    pub file_size: Option<u64>,
}

impl ResourceLimits {
    /// The limits as the system wants them. One cannot be raised, so none is above the server's own.
    pub(crate) fn prepare(&self) -> Vec<(Resource, Rlimit)> {
        [
            (Resource::Cpu, self.cpu_seconds),
            (Resource::As, self.address_space),
            (Resource::Nproc, self.processes),
            (Resource::Fsize, self.file_size),
        ]
        .into_iter()
        .filter_map(|(resource, asked)| {
            let ceiling = getrlimit(resource).maximum.unwrap_or(u64::MAX);
            let limit = Some(asked?.min(ceiling));
            Some((resource, Rlimit { current: limit, maximum: limit }))
        })
        .collect()
    }
}

/// What the configuration says, for [`Confinement::with_limits`](crate::Confinement::with_limits).
impl From<&SandboxLimits> for ResourceLimits {
    fn from(set: &SandboxLimits) -> Self {
        Self {
            cpu_seconds: set.cpu_seconds.map(NonZeroU64::get),
            address_space: set.memory_bytes.map(NonZeroU64::get),
            processes: set.processes.map(NonZeroU64::get),
            file_size: set.file_size_bytes.map(NonZeroU64::get),
        }
    }
}

/// Runs in the child: nothing but system calls.
pub(crate) fn set(limits: &[(Resource, Rlimit)]) -> rustix::io::Result<()> {
    for (resource, limit) in limits {
        setrlimit(*resource, *limit)?;
    }
    Ok(())
}
