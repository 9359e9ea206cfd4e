//! The limits of this crate. Servers are not trusted: what they send is counted before it is kept.

use std::time::Duration;

/// Longest message of a server, as a line, an HTTP body or an event. A call with a longer response fails.
pub const MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// Most tools of one server that are offered.
pub const TOOLS_PER_SERVER: usize = 1024;

/// Longest input schema of a tool; a longer one is replaced by "any object".
pub(crate) const SCHEMA_BYTES: usize = 128 * 1024;

/// Longest description of a tool in a model request.
pub(crate) const DESCRIPTION_CHARS: usize = 16 * 1024;

/// Most entries of a list of resources or templates, over all its pages.
pub(crate) const RESOURCES_PER_SERVER: usize = 4096;

/// Most bytes of one list, over all its pages. The page that exceeds it is the last one that is read.
pub(crate) const LIST_BYTES: usize = 16 * 1024 * 1024;

/// Most pages of one list, in case a server never stops returning cursors.
pub(crate) const PAGES: usize = 64;

/// Most messages queued for a server that does not read them.
pub(crate) const QUEUED_MESSAGES: usize = 64;

/// Most open elicitation requests of one server; further ones are rejected.
pub(crate) const OPEN_QUESTIONS: usize = 16;

/// Longest text of a progress report.
pub(crate) const PROGRESS_CHARS: usize = 4096;

/// Longest logged line of a server's standard error, and the limit for all its lines together.
pub(crate) const LOGGED_LINE_BYTES: usize = 4096;
pub(crate) const LOGGED_BYTES: usize = 1024 * 1024;
/// The end of a server's standard error that the error of a failed start shows.
pub(crate) const STDERR_TAIL_BYTES: usize = 1200;

/// Longest error text for clients and models.
pub(crate) const ERROR_CHARS: usize = 2000;

/// Default time for a server to start.
pub(crate) const STARTUP_TIMEOUT: Duration = Duration::from_secs(10);

/// Default time for a tool call.
pub(crate) const TOOL_TIMEOUT: Duration = Duration::from_secs(60);

/// Time for reading a list or a resource.
pub(crate) const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// Time to wait for the end of a page's interaction after the user has agreed to open it.
pub(crate) const PAGE_WAIT: Duration = Duration::from_secs(5);

/// Most times that a call asks the user to open pages.
pub(crate) const PAGE_ROUNDS: usize = 3;

/// Time that all turns together wait for one start of a server whose previous start failed.
pub(crate) const RETRY_WAIT: Duration = Duration::from_secs(2);

/// Time for a server process to exit after its input is closed.
pub(crate) const EXIT_TIME: Duration = Duration::from_millis(500);
