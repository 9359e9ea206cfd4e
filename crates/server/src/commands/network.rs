//! The network of a client's commands, where the configuration puts commands behind the proxy. There is no thread
//! whose people could be asked: what is not allowed is refused.

use std::{path::PathBuf, sync::Arc};

use codicil_engine::ProxiedNetwork;
use codicil_policy::{Destination, Domains, Grants, NetworkDecision, NetworkPolicies, Rules, decide_network};
use codicil_protocol::AskForApproval;
use codicil_proxy::{Gate, Pass, Passing, Proxy, Terms};

use super::CommandError;

/// What a command finds behind its door.
pub struct Behind {
    network: ProxiedNetwork,
    rules: PathBuf,
}

impl Behind {
    /// `rules` is the directory of the user's rules.
    pub fn new(network: ProxiedNetwork, rules: PathBuf) -> Self {
        Self { network, rules }
    }

    /// Opens it, once the command has been spawned.
    pub fn open(self) -> Result<Proxy, CommandError> {
        let Terms { domains, methods } = self.network.terms;
        let gate = Listed { domains, rules: self.rules };
        let listener = self.network.door.open().map_err(CommandError::Proxy)?;
        Proxy::start(listener, Arc::new(gate), methods).map_err(CommandError::Proxy)
    }
}

/// Lets pass what is listed.
struct Listed {
    domains: Domains,
    rules: PathBuf,
}

impl Gate for Listed {
    fn pass(&self, to: Destination) -> Passing<'_> {
        let (domains, rules) = (self.domains.clone(), self.rules.clone());
        let decided = tokio::task::spawn_blocking(move || {
            let (rules, errors) = Rules::load(&[rules]);
            errors.iter().for_each(|error| tracing::warn!("{error}"));
            let policies = NetworkPolicies {
                approval: &AskForApproval::Never,
                rules: &rules,
                domains: &domains,
                grants: &Grants::default(),
                is_open: false,
            };
            decide_network(&to, &policies)
        });
        Box::pin(async move {
            match decided.await {
                Ok(NetworkDecision::Connect(reach)) => Pass::Open(reach),
                Ok(NetworkDecision::Refuse { why }) => Pass::Shut(why),
                Ok(NetworkDecision::Ask(_)) | Err(_) => Pass::Shut("nobody can be asked".to_owned()),
            }
        })
    }
}
