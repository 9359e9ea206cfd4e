//! `codicil/thread/rehome` and `capabilities.codicil.redirect`: threads that several servers share.

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

/// The server that owns the thread of a request: `data.codicil` of the error, for a client with
/// `capabilities.codicil.redirect`. The client sends the request there.
#[wire]
pub struct CodicilMovedThread {
    /// Always `moved`.
    pub code: String,
    /// The name of the server.
    pub node: String,
    /// The address where clients reach it.
    pub url: String,
}

impl CodicilMovedThread {
    /// The value of `code`.
    pub const CODE: &'static str = "moved";
}
