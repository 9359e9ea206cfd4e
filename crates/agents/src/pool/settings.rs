//! Choices to be made before a pool starts.

use std::{path::PathBuf, time::Duration};

use codicil_client::{
    Client, ClientBuilder, ClientTools, RestartLimits, ServerAddress, protocol::ThreadStartParams,
};

/// How a pool works. Everything but the server has a default.
#[derive(Clone, Debug)]
pub struct PoolSettings {
    /// Where the server is: usually [`ServerCommand::launch`](super::ServerCommand::launch).
    pub server: ServerAddress,
    /// The name, capabilities, timeouts and limits of the client. Its handler, tools and defaults for threads
    /// are the pool's.
    pub client: ClientBuilder,
    /// One server for all.
    pub sharing: ServerSharing,
    /// Found out by listening.
    pub scheduling: TurnScheduling,
    /// Turns that run at a time on a server that can do so: 256.
    pub max_parallel_turns: usize,
    /// Threads that stand ready: 1. With [`Sharing::PerAgent`] each has its server.
    pub warm: usize,
    /// The system prompt of agents that bring none, and of the threads that stand ready.
    pub instructions: String,
    /// What else threads are started with; the configuration of the server where it says nothing.
    pub thread: ThreadStartParams,
    /// Tools that live in this process.
    pub tools: ClientTools,
    /// A new directory for each server, which goes with it.
    pub directory: DefaultDirectory,
    /// Restarts after crashes: 3, 1 s apart. After that messages fail at once, and one that comes 30 s later
    /// tries again.
    pub supervision: RestartLimits,
    /// How long a turn that was stopped may take to end: 5 s. Then nobody waits for it any more. What a server
    /// without ids still says of it may be taken for the next turn's.
    pub interrupt_grace: Duration,
    /// How long a question may stay open before it is declined: 5 min.
    pub answer_within: Duration,
    /// What waits to be read of one reply: 16 MiB.
    pub reply_bytes: usize,
    /// Tell of every item as [`StreamMessage::MappedItem`](super::StreamMessage::Item): no.
    pub lifecycle: bool,
}

impl PoolSettings {
    /// With the defaults of each field.
    pub fn new(server: impl Into<ServerAddress>) -> Self {
        Self {
            server: server.into(),
            client: Client::builder(),
            sharing: ServerSharing::Shared,
            scheduling: TurnScheduling::Detect,
            max_parallel_turns: 256,
            warm: 1,
            instructions: String::new(),
            thread: ThreadStartParams::default(),
            tools: ClientTools::new(),
            directory: DefaultDirectory::Isolated,
            supervision: RestartLimits::default(),
            interrupt_grace: Duration::from_secs(5),
            answer_within: Duration::from_secs(5 * 60),
            reply_bytes: 16 << 20,
            lifecycle: false,
        }
    }
}

/// Who shares a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerSharing {
    /// Everybody: little memory, tools configured once, and one crash that all feel.
    Shared,
    /// Nobody but an agent and its windows: crashes stay where they happen, at the price of a process each.
    PerAgent {
        /// Servers at a time, those that stand ready included.
        max_servers: usize,
    },
}

/// How many turns run at a time on one server. Whoever waits is served in order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnScheduling {
    /// One, until a notification has named its thread; many from then on, and one again should a
    /// notification come that does not.
    Detect,
    /// One: for servers whose notifications carry no ids.
    OneAtATime,
    /// Many: for servers that are known to name threads.
    Parallel,
}

/// Where threads work that name no directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefaultDirectory {
    /// In an empty temporary directory, so that no project's `AGENTS.md` or skills get into the conversation
    /// and no file of the product is touched. It is removed when its server ends.
    Isolated,
    /// Here.
    At(PathBuf),
    /// Wherever the server is: for one on another machine.
    Servers,
}
