//! Every ceiling of this crate. A server is a stranger: whatever it sends is counted before it is kept.

use std::time::Duration;

/// The longest message of a server, as a line or as an HTTP body or event. A call whose answer is longer fails.
pub const MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// The most tools of one server that are offered.
pub const TOOLS_PER_SERVER: usize = 1024;

/// The longest input schema of a tool; a longer one is offered as "any object".
pub(crate) const SCHEMA_BYTES: usize = 128 * 1024;

/// The longest description of a tool that a model is told.
pub(crate) const DESCRIPTION_CHARS: usize = 16 * 1024;

/// The most entries of a list of resources or templates, over all its pages.
pub(crate) const RESOURCES_PER_SERVER: usize = 4096;

/// The most pages that are asked for in one list, in case a server never runs out of cursors.
pub(crate) const PAGES: usize = 64;

/// Messages on their way to a server that does not read them.
pub(crate) const QUEUED_MESSAGES: usize = 64;

/// Questions of one server that are open at a time; further ones are refused.
pub(crate) const OPEN_QUESTIONS: usize = 16;

/// The longest text of one progress report.
pub(crate) const PROGRESS_CHARS: usize = 4096;

/// The longest line of a server's standard error that is logged, and how many bytes of it are logged at all.
pub(crate) const LOGGED_LINE_BYTES: usize = 4096;
pub(crate) const LOGGED_BYTES: usize = 1024 * 1024;

/// The longest text of an error that goes on to clients and models.
pub(crate) const ERROR_CHARS: usize = 2000;

/// How long a server may take to start unless its configuration says otherwise.
pub(crate) const STARTUP_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a tool may take unless its server's configuration says otherwise.
pub(crate) const TOOL_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a list or a resource may take.
pub(crate) const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a turn waits for a server that has failed before and is being tried again.
pub(crate) const RETRY_PATIENCE: Duration = Duration::from_secs(2);

/// How long a server may take to end by itself once its input is closed.
pub(crate) const FAREWELL: Duration = Duration::from_millis(500);
