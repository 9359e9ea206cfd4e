//! Turns a request into a process specification: directory, environment, sandbox and network.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::Arc,
};

use codicil_config::{ConfigQuery, ConfigStore, ShellEnvironmentPolicy};
use codicil_engine::{
    ConfinedProcess, CredentialVariables, ProxiedNetwork, SettingsOverrides, TurnSettings, confine,
    environment_policy, profile_policy,
};
use codicil_exec::{InputSource, ProcessEnvironment, ProcessSpec, inherited_environment};
use codicil_policy::{
    CommandRules, DomainRules, NetworkDecision, NetworkDestination, NetworkPolicies, ThreadGrants,
    decide_network,
};
use codicil_protocol::AskForApproval;
use codicil_proxy::{CommandProxy, GateDecision, GateFuture, HostGate, ProxyConfig};
use codicil_sandbox::{AccessRequest, RootCache, SandboxGrants, ServerPlaces};

use super::{CommandError, ExecRequest};

/// A command that can be spawned, and its network if that goes through the proxy.
pub struct ReadyCommand {
    pub(super) spec: ProcessSpec,
    pub(super) network: Option<CommandNetwork>,
}

/// Prepares a command. As in the reference server, `server_cwd` is the workspace of the sandbox policy, whatever
/// directory the command runs in. Blocks on the disk.
pub fn prepare(
    request: ExecRequest,
    config: &ConfigStore,
    server_places: &ServerPlaces,
    server_cwd: &Path,
) -> Result<ReadyCommand, CommandError> {
    let settings = config.load(&ConfigQuery::at(server_cwd))?;
    let input = if request.takes_input() { InputSource::Piped } else { InputSource::Null };
    let cwd = request.cwd.as_ref().map_or_else(|| server_cwd.to_owned(), |cwd| server_cwd.join(cwd));
    let named = request.profile.as_deref().map(|id| profile_policy(id, &settings)).transpose()?.flatten();
    let policy = match request.policy.or(named) {
        Some(policy) => {
            settings.requirements.check_sandbox_policy(&policy)?;
            policy
        }
        None => {
            let overrides = SettingsOverrides::default();
            TurnSettings::resolve(&settings, config.home(), server_cwd.to_owned(), &overrides).sandbox
        }
    };
    // A command must be able to read its own directory, even if the policy limits what can be read.
    let grants = SandboxGrants { readable: vec![cwd.clone()], ..SandboxGrants::default() };
    let access = AccessRequest {
        policy: &policy,
        workspace: server_cwd,
        grants: &grants,
        roots: &RootCache::default(),
        server: server_places,
    };
    let ConfinedProcess { preparation, network } =
        confine(&access, &settings, config, request.profile.as_deref())?;
    let env = environment(&settings.settings.shell_environment_policy, request.env);
    let spec = ProcessSpec {
        stdin: input,
        tty: request.terminal,
        timeout: request.timeout,
        preparation: Some(preparation),
        ..ProcessSpec::new(&request.command, cwd, env)
    };
    let network = network.map(|network| CommandNetwork { network, rules_dir: config.home().rules_dir() });
    Ok(ReadyCommand { spec, network })
}

fn environment(
    policy: &ShellEnvironmentPolicy,
    changes: impl IntoIterator<Item = (String, Option<String>)>,
) -> ProcessEnvironment {
    // As in the reference server, variables that look like credentials stay unless the configuration removes them.
    let mut env = environment_policy(policy, CredentialVariables::Keep).apply(&inherited_environment());
    for (name, value) in changes {
        match value {
            Some(value) => env.insert(name.into(), value.into()),
            None => env.remove(OsStr::new(&name)),
        };
    }
    env
}

/// The network of a command behind the proxy. No thread is involved, so there is no user to ask: a host that is not
/// allowed is refused.
pub(super) struct CommandNetwork {
    network: ProxiedNetwork,
    /// The directory of the user's rules.
    rules_dir: PathBuf,
}

impl CommandNetwork {
    /// Starts the proxy. Called once the command has been spawned.
    pub fn open(self) -> Result<CommandProxy, CommandError> {
        let ProxyConfig { domains, rules, .. } = self.network.proxy_config;
        let gate = ListedHosts { domains, rules_dir: self.rules_dir };
        let listeners = self.network.listener.open().map_err(CommandError::Proxy)?;
        CommandProxy::start(listeners, Arc::new(gate), rules).map_err(CommandError::Proxy)
    }
}

/// A gate that passes the hosts of the configuration and of the user's rules.
struct ListedHosts {
    domains: DomainRules,
    rules_dir: PathBuf,
}

impl HostGate for ListedHosts {
    fn decide(&self, to: NetworkDestination) -> GateFuture<'_> {
        let domains = self.domains.clone();
        let rules_dir = self.rules_dir.clone();
        let decision = tokio::task::spawn_blocking(move || {
            let (rules, errors) = CommandRules::load(&[rules_dir]);
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
            match decision.await {
                Ok(NetworkDecision::Connect(reach)) => GateDecision::Allowed(reach),
                Ok(NetworkDecision::Refuse { why }) => GateDecision::Denied(why),
                Ok(NetworkDecision::Ask(_)) | Err(_) => {
                    GateDecision::Denied("there is no user to ask".to_owned())
                }
            }
        })
    }
}
