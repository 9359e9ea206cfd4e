//! `codicil/thread/rehome`: threads that several servers share.

use crate::*;

/// The thread whose workspace is to be on the server that the client is connected to.
#[wire(sparse)]
pub struct CodicilThreadRehomeParams {
    pub thread_id: ThreadId,
    /// The working directory of the thread there.
    pub cwd: String,
}

/// The thread, which the server has loaded.
#[wire]
pub struct CodicilThreadRehomeResponse {
    pub thread: Thread,
}
