//! From the configuration to what holds for the network of a command.

use std::net::SocketAddr;

use codicil_config::{NetworkMode, NetworkProxy};
use codicil_policy::{DomainPattern, DomainRules, HostName};
use thiserror::Error;

use crate::{AllowedMethods, environment::environment};

/// Which hosts a command reaches without a question, and what it may do there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyConfig {
    pub domains: DomainRules,
    pub methods: AllowedMethods,
}

/// A pattern that cannot be read. Left out, it could deny less than was meant.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the network of commands is not set up: `{0}` is not a pattern of hosts")]
pub struct BadPattern(String);

impl ProxyConfig {
    pub fn new(set: &NetworkProxy) -> Result<Self, BadPattern> {
        let read = |written: &Vec<String>| {
            let pattern =
                |written: &String| DomainPattern::parse(written).ok_or_else(|| BadPattern(written.clone()));
            written.iter().map(pattern).collect::<Result<Vec<_>, _>>()
        };
        let domains = DomainRules {
            allowed: read(&set.allowed)?,
            denied: read(&set.denied)?,
            is_complete: set.is_complete,
            local: set.local,
        };
        let methods = match set.mode {
            NetworkMode::Full => AllowedMethods::All,
            NetworkMode::Limited => AllowedMethods::ReadOnly,
        };
        Ok(Self { domains, methods })
    }

    /// The variables that tell a command of its proxy. Names of this machine that the configuration allows mean
    /// the machine, and not the command's own loopback.
    pub fn environment(&self, proxy: SocketAddr) -> Vec<(&'static str, String)> {
        let is_named = |name: &str| HostName::parse(name).is_some_and(|host| self.domains.names(&host));
        environment(proxy, is_named)
    }
}
