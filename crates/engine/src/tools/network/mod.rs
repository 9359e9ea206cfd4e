//! The network of confined commands, host by host.
//!
//! Where the configuration asks for it, a sandboxed command has no network but the server's proxy. Each host that
//! it wants to reach is decided about by the pure functions of `command`; where these say to ask, the question
//! goes out in the name of the turn that started the command (`question.rs`). Requests for the same host join one
//! question. Once the turn is over there is nobody to ask in its name, and what is not allowed by then is refused.

mod gate;
mod question;

use std::sync::Arc;

use codicil_proxy::{AllowedMethods, CommandProxy};

pub(super) use gate::CommandGate;
pub(crate) use question::HostQuestions;

/// The proxy of one command, and who decides for it. Ends with the command.
pub(super) struct CommandNetwork {
    pub gate: Arc<CommandGate>,
    _proxy: CommandProxy,
}

impl CommandNetwork {
    /// Opens what a command that has just been spawned connects to.
    pub fn open(
        door: codicil_sandbox::ProxyListener,
        gate: CommandGate,
        methods: AllowedMethods,
    ) -> std::io::Result<Self> {
        let gate = Arc::new(gate);
        let proxy = CommandProxy::start(door.open()?, gate.clone(), methods)?;
        Ok(Self { gate, _proxy: proxy })
    }
}
