//! The limits of the server, in one place.

use std::time::Duration;

/// The longest message a client may send. A longer line is skipped and logged.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// The longest message before `initialize`.
pub const MAX_EARLY_MESSAGE_BYTES: usize = 1 << 20;

/// Bytes of incomplete messages that all connections of a listener may hold together. Beyond it, the connection with
/// the longest message is closed.
pub const MAX_UNFINISHED_BYTES: usize = 256 << 20;

/// The beginning of each message that does not count towards [`MAX_UNFINISHED_BYTES`]. With [`MAX_CONNECTIONS`]
/// clients this is at most 64 MiB.
pub const UNCOUNTED_BYTES: usize = 64 << 10;

/// The longest quote of a request in an error message.
pub const MAX_REASON_BYTES: usize = 4 << 10;

/// Connections of the listener for metrics. Beyond it, the oldest is closed.
pub const MAX_METRICS_CONNECTIONS: usize = 16;

/// Up to this many clients, each receives the state of every thread. Among more, only the subscribers of a thread and
/// the clients that have asked for a list of threads do: otherwise the number of messages grows with the square.
pub const MANY_CLIENTS: usize = 32;

/// Open requests of one connection. More are refused as overload.
pub const MAX_IN_FLIGHT: usize = 128;

/// Unread bytes of a client above which its new requests are refused as overload.
pub const BUSY_BYTES: usize = 1 << 20;

/// Unread bytes of a client above which the output of its commands waits. With one more frame of output it is still
/// below [`BUSY_BYTES`]: a client must be able to end a command that floods it.
pub const STREAM_BYTES: usize = 512 << 10;

/// Unread bytes of a client above which nothing more is read from it.
pub const PAUSE_READING_BYTES: usize = 16 << 20;

/// Unread bytes of a client above which deltas of one item are joined.
pub const JOIN_DELTAS_BYTES: usize = 16 << 20;

/// The longest joined delta. The next delta starts a new message.
pub const MAX_JOINED_BYTES: usize = 256 << 10;

/// Unread bytes of a client above which it is disconnected: it has stopped reading.
pub const MAX_UNREAD_BYTES: usize = 64 << 20;

/// The longest response or server request. Together with [`PAUSE_READING_BYTES`], which may be unread when it is sent,
/// it stays within [`MAX_UNREAD_BYTES`].
pub const MAX_RESPONSE_BYTES: usize = 48 << 20;

/// The longest notification. An item is sent twice, as deltas and as a whole; both together must stay below
/// [`MAX_UNREAD_BYTES`].
pub const MAX_NOTIFICATION_BYTES: usize = 24 << 20;

/// Commands that one connection runs at the same time with `command/exec`. Fewer than [`MAX_IN_FLIGHT`], so that there
/// is always room for a request that ends one.
pub const MAX_COMMANDS: usize = 96;

/// Bytes of each stream that a response to `command/exec` holds, whatever the client asked for.
pub const MAX_BUFFERED_BYTES: usize = 32 << 20;

/// Queued input of one command. A write beyond it waits for room.
pub const MAX_INPUT_BYTES: usize = 1 << 20;

/// Input of one command that waits for room. More is refused as overload.
pub const MAX_WAITING_INPUT_BYTES: usize = 64 << 20;

/// Clients of a listener. More are refused with 503 or closed at once. Fewer if the process may open only few files:
/// [`ConnectionLimits`](crate::transport::handshakes::ConnectionLimits).
pub const MAX_CONNECTIONS: usize = 1024;

/// Connections of a listener that have not completed a websocket upgrade or sent their first byte. With one more, the
/// oldest of them is closed. As many as clients, so that all clients can connect at the same moment.
pub const MAX_HANDSHAKES: usize = 1024;

/// Clients may use one in this many of the process's file descriptors, and unfinished handshakes as many again. The
/// rest is for the store, commands, providers and MCP servers.
pub const DESCRIPTOR_SHARE: u64 = 4;

/// Connections that the kernel queues before the server accepts them.
pub const BACKLOG: u32 = 1024;

/// How long a connection may take to complete a websocket upgrade, or to send its first byte on a unix socket.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// The longest head of an HTTP request.
pub const MAX_HEAD_BYTES: usize = 16 << 10;

/// How long a listener waits after a failed accept, so that it does not spin while there are no descriptors.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The longest file that `fs/readFile` returns. As base64, and together with [`PAUSE_READING_BYTES`], it stays within
/// [`MAX_UNREAD_BYTES`].
pub const MAX_READ_FILE_BYTES: u64 = 32 << 20;

/// The longest list of entries that `fs/readDirectory` returns.
pub const MAX_LISTING_BYTES: usize = 32 << 20;

/// Contents of a file or directory above which a response waits for room in the outbox.
pub const LARGE_RESPONSE_BYTES: u64 = 1 << 20;

/// File operations of one connection at the same time. More wait.
pub const MAX_FILE_OPERATIONS: u32 = 8;

/// `fs/watch`es of one connection.
pub const MAX_WATCHES: usize = 1024;

/// Open search sessions of one connection.
pub const MAX_SEARCH_SESSIONS: usize = 16;

/// Ephemeral threads of one connection. They stay in memory until their last subscriber unsubscribes.
pub const MAX_CLIENT_EPHEMERAL_THREADS: usize = 2048;

/// Ephemeral threads of all connections: about 300 MB, if they are idle and short.
pub const MAX_EPHEMERAL_THREADS: usize = 8192;

/// Requests and answers of one client that wait for one other node.
pub const MAX_RELAYED_COMMANDS: usize = 512;

/// How long requests wait for the next owner of a thread whose owner is gone: a lease of six seconds, two seconds in which others
/// find the thread, and the time to load it or to stop a node.
pub const OWNER_SEARCH_TIME: Duration = Duration::from_secs(15);

/// How long the last messages may take to be sent when a connection or the server ends.
pub const FLUSH_TIME: Duration = Duration::from_secs(2);

/// Turns or items of a page of a thread's history, whatever the client asked for.
pub const MAX_PAGE_ENTRIES: u32 = 100;

/// Directories of one `hooks/list`. More are refused.
pub const MAX_DIRECTORIES: usize = 64;
