//! Memories that are made of threads: `memory/*`, `thread/memory/read`, `thread/memoryMode/set`, and `rollout/compress`.

use crate::{ThreadId, wire};

/// Sets whether memories are made of a thread.
#[wire]
pub struct ThreadMemoryModeSetParams {
    pub thread_id: ThreadId,
    pub mode: ThreadMemoryMode,
}

/// Whether memories are made of a thread.
#[wire(open)]
#[derive(Eq)]
pub enum ThreadMemoryMode {
    Enabled,
    Disabled,
}

/// The mode is set.
#[wire]
#[derive(Default)]
pub struct ThreadMemoryModeSetResponse {}

/// Reads the memory of a thread.
#[wire]
pub struct ThreadMemoryReadParams {
    pub thread_id: ThreadId,
}

/// The memory of a thread; null if there is none.
#[wire]
pub struct ThreadMemoryReadResponse {
    pub summary: Option<String>,
}

/// Returns whether there are enough memories to use them.
#[wire(sparse)]
#[derive(Default)]
pub struct MemoryStatusParams {
    /// The number of threads from which on memories count as ready.
    pub min_consolidated_threads: Option<u32>,
}

/// The state of the memories.
#[wire]
pub struct MemoryStatusResponse {
    pub v2_consolidated_threads: u32,
    pub v2_ready: bool,
}

/// All memories are deleted.
#[wire]
#[derive(Default)]
pub struct MemoryResetResponse {}

/// The files of old threads are being compressed.
#[wire]
#[derive(Default)]
pub struct RolloutCompressResponse {}
