//! The network of confined commands, host by host.
//!
//! Where the configuration asks for it, a sandboxed command has no network but the server's proxy. Each host that
//! it wants to reach is decided about by the pure functions of `command`; where these say to ask, the question
//! goes out in the name of the turn that started the command (`question.rs`). Requests for the same host join one
//! question. Once the turn is over there is nobody to ask in its name, and what is not allowed by then is refused.

mod gate;
mod question;

use std::sync::Arc;

use codicil_command::{DomainPattern, Domains, Host};
use codicil_config::{NetworkMode, NetworkProxy};
use codicil_proxy::{Methods, Proxy};

pub(super) use {gate::CommandGate, question::Questions};

/// What holds for the network of a command.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub domains: Domains,
    pub methods: Methods,
}

impl Terms {
    /// A pattern that cannot be read is an error: left out, it could deny less than was meant.
    pub fn new(set: &NetworkProxy) -> Result<Self, String> {
        let read = |written: &Vec<String>| {
            let pattern = |written: &String| {
                DomainPattern::parse(written).ok_or_else(|| {
                    format!("the network of commands is not set up: `{written}` is not a pattern of hosts")
                })
            };
            written.iter().map(pattern).collect::<Result<Vec<_>, _>>()
        };
        let domains = Domains {
            allowed: read(&set.allowed)?,
            denied: read(&set.denied)?,
            is_complete: set.is_complete,
            local: set.local,
        };
        let methods = match set.mode {
            NetworkMode::Full => Methods::All,
            NetworkMode::Limited => Methods::ReadOnly,
        };
        Ok(Self { domains, methods })
    }

    /// The variables that tell a command of its proxy.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let is_named = |name: &str| Host::parse(name).is_some_and(|host| self.domains.name(&host));
        codicil_proxy::environment(codicil_sandbox::PROXY, is_named)
    }
}

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
