//! Settings of a pool.

use std::{path::PathBuf, time::Duration};

use codicil_client::{
    Client, ClientBuilder, ClientTools, RestartLimits, ServerAddress, protocol::ThreadStartParams,
};

/// The settings of a pool. Everything but the server has a default.
#[derive(Clone, Debug)]
pub struct PoolSettings {
    /// The address of the server; usually [`ServerCommand::launch`](super::ServerCommand::launch).
    pub server: ServerAddress,
    /// Name, capabilities, timeouts and limits of the client. The pool sets the handler, the tools and the thread
    /// defaults.
    pub client: ClientBuilder,
    /// Which agents share a server: all of them.
    pub sharing: ServerSharing,
    /// How many turns run at a time: detected from the server's notifications.
    pub scheduling: TurnScheduling,
    /// Turns that run at the same time on a server that supports it: 256.
    pub max_parallel_turns: usize,
    /// Threads kept ready for new agents: 1. With [`ServerSharing::PerAgent`] each one has its own server.
    pub warm_threads: usize,
    /// The instructions of warm threads, and of agents that bring none.
    pub instructions: String,
    /// Other settings of threads. The sandbox is `workspace-write` unless it or a permission profile is set here; other
    /// fields that are left out come from the server's configuration.
    pub thread: ThreadStartParams,
    /// Tools that run in this process.
    pub tools: ClientTools,
    /// The working directory of threads, and what of their surroundings they see: a new directory per server, and
    /// nothing else.
    pub directory: DefaultDirectory,
    /// Restarts after crashes: 3, 1 s apart. After that messages fail at once; the first message 30 s later starts the
    /// server again.
    pub restart_limits: RestartLimits,
    /// Time without a turn after which a server is ended; by default it keeps running. The next message starts it again
    /// and resumes the thread.
    pub idle_timeout: Option<Duration>,
    /// Time for an interrupted turn to end: 5 s. After that the reply ends without it. Notifications of the abandoned
    /// turn may be attributed to the next one if the server sends no ids.
    pub interrupt_grace: Duration,
    /// Time for an answer to a question before it is declined: 5 min.
    pub answer_within: Duration,
    /// Unread bytes of one reply: 16 MiB.
    pub reply_bytes: usize,
    /// Whether replies include every item as [`StreamMessage::Item`](super::StreamMessage::Item): `false`.
    pub lifecycle: bool,
}

impl PoolSettings {
    /// Creates the settings of YAAR's integration guide: the client presents itself as `yaar` 1.0.0.
    pub fn yaar(server: impl Into<ServerAddress>) -> Self {
        Self { client: Client::builder().name("yaar", "1.0.0"), ..Self::new(server) }
    }

    /// Creates settings with the defaults.
    pub fn new(server: impl Into<ServerAddress>) -> Self {
        Self {
            server: server.into(),
            client: Client::builder(),
            sharing: ServerSharing::Shared,
            scheduling: TurnScheduling::Detect,
            max_parallel_turns: 256,
            warm_threads: 1,
            instructions: String::new(),
            thread: ThreadStartParams::default(),
            tools: ClientTools::new(),
            directory: DefaultDirectory::Isolated,
            restart_limits: RestartLimits::default(),
            idle_timeout: None,
            interrupt_grace: Duration::from_secs(5),
            answer_within: Duration::from_secs(5 * 60),
            reply_bytes: 16 << 20,
            lifecycle: false,
        }
    }
}

/// Which agents share a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerSharing {
    /// All agents: little memory, tools configured once, and crashes that affect all.
    Shared,
    /// Only an agent and its windows: crashes stay isolated, at the cost of one process each.
    PerAgent {
        /// Maximum number of servers, including those of warm threads.
        max_servers: usize,
    },
}

/// Number of turns that run at a time on one server. Waiting turns start in order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnScheduling {
    /// One, until a notification names its thread; then many. One again if a later notification does not name its
    /// thread.
    Detect,
    /// One, for servers whose notifications carry no ids.
    OneAtATime,
    /// Many, for servers whose notifications name threads.
    Parallel,
}

/// The working directory of threads without a `cwd`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefaultDirectory {
    /// An empty temporary directory, removed when its server ends, so that no file of the product is touched. Neither
    /// `AGENTS.md` files nor skills nor plugins enter the conversation, of a project or of the user's home: threads get
    /// the settings `project_doc_max_bytes = 0`, `skills.include_instructions = false`, `skills.bundled.enabled = false`
    /// and `features.plugins = false`. Values of these in [`PoolSettings::thread`]'s `config` take precedence.
    Isolated,
    /// This directory.
    At(PathBuf),
    /// The server's own default, for a server on another machine.
    ServerDefault,
}
