//! Settings of the server process that it makes once, before it starts commands: the file limit of its commands, and
//! how its allocator returns memory.

use std::sync::OnceLock;

use rustix::process::Rlimit;

/// The limit of open files that commands start with, if it differs from the server's.
static COMMAND_FILE_LIMIT: OnceLock<Rlimit> = OnceLock::new();

/// Gives commands another limit of open files than the server has. Some programs misbehave with a large limit. Only
/// the first call has an effect.
pub fn set_command_file_limit(limit: Rlimit) {
    let _ = COMMAND_FILE_LIMIT.set(limit);
}

pub(crate) fn command_file_limit() -> Option<Rlimit> {
    COMMAND_FILE_LIMIT.get().copied()
}

/// The size from which on a freed block is returned to the system at once.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BLOCK: libc::c_int = 1 << 20;

/// Makes the allocator return large blocks to the system as soon as they are freed. Without it, glibc keeps blocks of
/// up to 32 MiB once one of their size was freed, in an arena for each thread: a server that has moved a file of
/// 10 MiB would hold some 70 MiB from then on. Call it before other threads are started. Has no effect with other
/// C libraries.
pub fn return_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt changes a parameter of the allocator, which takes its own lock.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BLOCK);
    }
}
