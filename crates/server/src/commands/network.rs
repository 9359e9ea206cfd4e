//! The network of a client's commands, where the configuration puts commands behind the proxy. There is no thread
//! whose people could be asked: what is not allowed is refused.

use std::{path::PathBuf, sync::Arc};

use codicil_engine::ProxiedNetwork;
use codicil_policy::{
    CommandRules, DomainRules, NetworkDecision, NetworkDestination, NetworkPolicies, ThreadGrants,
    decide_network,
};
use codicil_protocol::AskForApproval;
use codicil_proxy::{CommandProxy, GateDecision, GateFuture, HostGate, ProxyConfig};

use super::CommandError;

/// What a command finds behind its door.
pub struct CommandNetwork {
    network: ProxiedNetwork,
    rules: PathBuf,
}

impl CommandNetwork {
    /// `rules` is the directory of the user's rules.
    pub fn new(network: ProxiedNetwork, rules: PathBuf) -> Self {
        Self { network, rules }
    }

    /// Opens it, once the command has been spawned.
    pub fn open(self) -> Result<CommandProxy, CommandError> {
        let ProxyConfig { domains, methods } = self.network.terms;
        let gate = ListedHosts { domains, rules: self.rules };
        let listener = self.network.door.open().map_err(CommandError::Proxy)?;
        CommandProxy::start(listener, Arc::new(gate), methods).map_err(CommandError::Proxy)
    }
}

/// Lets pass what is listed.
struct ListedHosts {
    domains: DomainRules,
    rules: PathBuf,
}

impl HostGate for ListedHosts {
    fn pass(&self, to: NetworkDestination) -> GateFuture<'_> {
        let (domains, rules) = (self.domains.clone(), self.rules.clone());
        let decided = tokio::task::spawn_blocking(move || {
            let (rules, errors) = CommandRules::load(&[rules]);
            errors.iter().for_each(|error| tracing::warn!("{error}"));
            let policies = NetworkPolicies {
                approval: &AskForApproval::Never,
                rules: &rules,
                domains: &domains,
                grants: &ThreadGrants::default(),
                is_open: false,
            };
            decide_network(&to, &policies)
        });
        Box::pin(async move {
            match decided.await {
                Ok(NetworkDecision::Connect(reach)) => GateDecision::Open(reach),
                Ok(NetworkDecision::Refuse { why }) => GateDecision::Shut(why),
                Ok(NetworkDecision::Ask(_)) | Err(_) => GateDecision::Shut("nobody can be asked".to_owned()),
            }
        })
    }
}
