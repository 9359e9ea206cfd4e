//! Resource limits of commands.

use std::num::NonZeroU64;

use codicil_config::SandboxLimits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Resource limits of each process of a command. `None` keeps the limit of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Seconds of processor time, after which the process is killed.
    pub cpu_seconds: Option<u64>,
    /// Bytes of address space.
    pub address_space: Option<u64>,
    /// Processes and threads of the *user*, including those of the server. Does not limit root.
    pub processes: Option<u64>,
    /// The size in bytes of the largest file that can be written.
    pub file_size: Option<u64>,
}

impl ResourceLimits {
    /// Returns the limits for `setrlimit`. A limit cannot be raised, so none exceeds that of the server.
    pub(crate) fn prepare(&self) -> Vec<(Resource, Rlimit)> {
        [
            (Resource::Cpu, self.cpu_seconds),
            (Resource::As, self.address_space),
            (Resource::Nproc, self.processes),
            (Resource::Fsize, self.file_size),
        ]
        .into_iter()
        .filter_map(|(resource, requested)| {
            let server_limit = getrlimit(resource).maximum.unwrap_or(u64::MAX);
            let limit = Some(requested?.min(server_limit));
            Some((resource, Rlimit { current: limit, maximum: limit }))
        })
        .collect()
    }
}

/// Converts the limits of the configuration, for [`Confinement::with_limits`](crate::Confinement::with_limits).
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

/// Sets the limits of the calling process. Called between `fork` and `exec`: makes system calls only.
pub(crate) fn set(limits: &[(Resource, Rlimit)]) -> rustix::io::Result<()> {
    for (resource, limit) in limits {
        setrlimit(*resource, *limit)?;
    }
    Ok(())
}
