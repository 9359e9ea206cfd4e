//! The network of confined commands, host by host.
//!
//! Where the configuration asks for it, a sandboxed command has no network but the server's proxy. Each host that
//! it wants to reach is decided about by the pure functions of `command`; where these say to ask, the question
//! goes out in the name of the turn that started the command (`question.rs`). Requests for the same host join one
//! question. Once the turn is over there is nobody to ask in its name, and what is not allowed by then is refused.

mod gate;
mod question;

use std::sync::Arc;

use codicil_proxy::{Methods, Proxy};

pub(super) use gate::CommandGate;
pub(crate) use question::Questions;

/// The proxy of one command, and who decides for it. Ends with the command.
pub(super) struct Network {
    pub gate: Arc<CommandGate>,
    _proxy: Proxy,
}

impl Network {
    /// Opens what a command that has just been spawned connects to.
    pub fn open(door: codicil_sandbox::Door, gate: CommandGate, methods: Methods) -> std::io::Result<Self> {
        let gate = Arc::new(gate);
        let proxy = Proxy::start(door.open()?, gate.clone(), methods)?;
        Ok(Self { gate, _proxy: proxy })
    }
}
