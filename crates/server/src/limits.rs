//! Every ceiling of the server, in one place.

use std::time::Duration;

/// The longest message a client may send. A longer line is skipped and logged.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// The longest message before `initialize`, which is short itself.
pub const MAX_EARLY_MESSAGE_BYTES: usize = 1 << 20;

/// What all connections of listeners may hold of messages that are not complete yet. Beyond it, the connection
/// with the longest one is closed.
pub const MAX_UNFINISHED_BYTES: usize = 256 << 20;

/// The beginning of a message that does not count towards [`MAX_UNFINISHED_BYTES`]. All clients together
/// hold at most 64 MiB in this way.
pub const UNCOUNTED_BYTES: usize = 64 << 10;

/// The most that a refusal says about what was sent.
pub const MAX_REASON_BYTES: usize = 4 << 10;

/// Requests of one connection that may be waiting for their answers. More are refused as overload.
pub const MAX_IN_FLIGHT: usize = 128;

/// Bytes waiting to be read by a client above which its new requests are refused as overload.
pub const BUSY_BYTES: usize = 1 << 20;

/// Bytes waiting to be read by a client above which output of its commands waits. With one more frame of
/// output it is still below [`BUSY_BYTES`]: a client must be able to end a command that floods it.
pub const STREAM_BYTES: usize = 512 << 10;

/// Bytes waiting to be read by a client above which nothing more is read from it.
pub const PAUSE_READING_BYTES: usize = 16 << 20;

/// Bytes waiting to be read by a client above which deltas of one item are joined.
pub const JOIN_DELTAS_BYTES: usize = 16 << 20;

/// The longest a joined delta grows before the next one stands alone again.
pub const MAX_JOINED_BYTES: usize = 256 << 10;

/// Bytes waiting to be read by a client above which it is disconnected: it has stopped reading.
pub const MAX_WAITING_BYTES: usize = 64 << 20;

/// The longest answer or question that is sent. With all that may still wait when it is sent
/// ([`PAUSE_READING_BYTES`]) it stays below [`MAX_WAITING_BYTES`].
pub const MAX_ANSWER_BYTES: usize = 48 << 20;

/// The longest notification that is sent. An item comes twice, as deltas and as a whole; both together must
/// stay below [`MAX_WAITING_BYTES`].
pub const MAX_NOTIFICATION_BYTES: usize = 24 << 20;

/// Commands that one connection may run at a time with `command/exec`. Fewer than [`MAX_IN_FLIGHT`], so that
/// there is always room for the request that ends one.
pub const MAX_COMMANDS: usize = 96;

/// What an answer to `command/exec` holds of each stream at most, whatever was asked for.
pub const MAX_BUFFERED_BYTES: usize = 32 << 20;

/// Input that waits for a command to read it. A write beyond that is answered when there is room again.
pub const MAX_INPUT_BYTES: usize = 1 << 20;

/// Input that waits for that room, of one command. More is refused as overload.
pub const MAX_WAITING_INPUT_BYTES: usize = 64 << 20;

/// Clients of a listener. More are turned away with 503, or closed at once. Fewer if the process may open few
/// files: [`ConnectionLimits`](crate::transport::handshakes::ConnectionLimits).
pub const MAX_CONNECTIONS: usize = 1024;

/// Connections of a listener that are not clients yet: no websocket upgrade, nothing sent. With one more, the
/// oldest of them is closed. As many as clients, so that all clients can connect at the same moment.
pub const MAX_HANDSHAKES: usize = 1024;

/// The part of the process's file descriptors that clients may take, and that unfinished handshakes may take:
/// one in this many each. The rest is for the store, commands, providers and MCP servers.
pub const DESCRIPTOR_SHARE: u64 = 4;

/// Connections that the kernel accepts before the server does.
pub const BACKLOG: u32 = 1024;

/// How long a connection may take to become a client: to complete a websocket upgrade, or to send the first
/// byte on a unix socket.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// The longest head of an HTTP request.
pub const MAX_HEAD_BYTES: usize = 16 << 10;

/// How long a listener waits after a failed accept, so that it does not spin while descriptors are missing.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The longest file that `fs/readFile` answers. As base64, and with all that may still wait when it is sent
/// (`PAUSE_READING_BYTES`), it must stay below `MAX_WAITING_BYTES`.
pub const MAX_READ_FILE_BYTES: u64 = 32 << 20;

/// The same for the entries of a directory.
pub const MAX_LISTING_BYTES: usize = 32 << 20;

/// Contents of a file or directory above which an answer is made only when there is room for it.
pub const LARGE_ANSWER_BYTES: u64 = 1 << 20;

/// File operations of one connection at the same time. More wait.
pub const FILE_OPERATIONS: u32 = 8;

/// `fs/watch`es of one connection.
pub const MAX_WATCHES: usize = 1024;

/// Open search sessions of one connection.
pub const MAX_SEARCH_SESSIONS: usize = 16;

/// Ephemeral threads that one connection may have. They stay in memory until their last subscriber leaves.
pub const MAX_CLIENT_EPHEMERAL_THREADS: usize = 2048;

/// The same for all connections together: some 300 MB, if they are idle and short.
pub const MAX_EPHEMERAL_THREADS: usize = 8192;

/// How long the last messages may take to leave when a connection or the server ends.
pub const FLUSH_TIME: Duration = Duration::from_secs(2);

/// Turns or items that a page of a thread's history holds, whatever was asked for.
pub const LARGEST_PAGE: u32 = 100;

/// Directories that one `hooks/list` looks at. More are refused.
pub const MAX_DIRECTORIES: usize = 64;
