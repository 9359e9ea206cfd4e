//! How this process keeps memory that it no longer uses.

/// Blocks of at least this size are the system's again as soon as they are free.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: libc::c_int = 1 << 20;

/// Makes the allocator give large blocks back at once. Without it, glibc keeps blocks up to 32 MiB after the
/// first of their size was freed, in an arena for each thread: a server that has moved a file of 10 MiB would
/// hold some 70 MiB from then on. To be called before other threads are started; elsewhere it does nothing.
pub fn return_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt changes a parameter of the allocator, which takes its own lock.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}
