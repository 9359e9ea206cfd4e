//! Assembles sandboxed processes: policy, limits, network proxy, and the server's own files and sockets.
//!
//! The commands of models (`tools/command/launch.rs`), the commands of clients (`command/exec`) and `codicil sandbox`
//! all use this module, so none of them can leave out a part.

use std::{io, num::NonZeroU16};

use codicil_config::{ConfigStore, EffectiveConfig};
use codicil_exec::ChildPreparation;
use codicil_proxy::{BadPattern, ProxyConfig};
use codicil_sandbox::{
    AccessRequest, Confinement, MachineProbe, ProxyListener, ProxyPorts, ResourceLimits, SandboxError,
    WritableFolders,
};
use thiserror::Error;

/// Why a process could not be confined.
#[derive(Debug, Error)]
pub enum ConfineError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Network(#[from] BadPattern),
    #[error("cannot record which folders commands can write to: {0}")]
    Record(io::Error),
}

/// A process that is ready to be spawned.
pub struct ConfinedProcess {
    pub preparation: ChildPreparation,
    /// The network proxy of the process, if it has one.
    pub network: Option<ProxiedNetwork>,
}

/// The server's side of a command's network proxy, and what the proxy allows.
pub struct ProxiedNetwork {
    pub listener: ProxyListener,
    pub proxy_config: ProxyConfig,
}

/// Returns the confinement of a policy, with the limits of the configuration. Records which folders commands can write
/// to: configuration files that appear there are not trusted. Blocks on the disk.
pub fn confinement(
    request: &AccessRequest<'_>,
    config: &EffectiveConfig,
    store: &ConfigStore,
) -> Result<Confinement, ConfineError> {
    let confinement = Confinement::new(request, MachineProbe::cached())?;
    let WritableFolders { roots, protected } = confinement.writable_folders();
    store.note_writable(&roots, &protected).map_err(ConfineError::Record)?;
    Ok(confinement.with_limits(ResourceLimits::from(&config.settings.sandbox_limits)))
}

/// Confines a process, behind the network proxy where the permission profile has one. Blocks on the disk.
pub fn confine(
    request: &AccessRequest<'_>,
    config: &EffectiveConfig,
    store: &ConfigStore,
    profile: Option<&str>,
) -> Result<ConfinedProcess, ConfineError> {
    let proxy_config = config.network_proxy(profile).as_ref().map(ProxyConfig::new).transpose()?;
    let confinement = confinement(request, config, store)?;
    let confinement = match &proxy_config {
        Some(proxy_config) => confinement.behind_proxy(proxy_ports(proxy_config))?,
        None => confinement,
    };
    let mut prepared = confinement.prepare()?;
    let network = prepared
        .take_proxy_listener()
        .zip(proxy_config)
        .map(|(listener, proxy_config)| ProxiedNetwork { listener, proxy_config });
    let mut preparation = prepared.into_preparation();
    if let Some(network) = &network {
        let ports = proxy_ports(&network.proxy_config);
        let variables = network.proxy_config.environment(ports.http_address(), ports.socks_address());
        let variables = variables.into_iter();
        preparation.env.extend(variables.map(|(name, value)| (name.into(), value.into())));
    }
    Ok(ConfinedProcess { preparation, network })
}

/// Confines a process that has no network, not even through the proxy. Blocks on the disk.
pub fn confine_offline(
    request: &AccessRequest<'_>,
    config: &EffectiveConfig,
    store: &ConfigStore,
) -> Result<ChildPreparation, ConfineError> {
    Ok(confinement(request, config, store)?.prepare()?.into_preparation())
}

/// Returns the ports of the configuration, else the default ones. SOCKS has the port of HTTP unless it has its own.
fn proxy_ports(proxy_config: &ProxyConfig) -> ProxyPorts {
    let http = proxy_config.http_port.map_or(ProxyPorts::DEFAULT.http, NonZeroU16::get);
    ProxyPorts { http, socks: proxy_config.socks_port.map_or(http, NonZeroU16::get) }
}

/// Returns a process without a sandbox. The limits of the configuration still apply.
pub fn unconfined(config: &EffectiveConfig) -> Result<ConfinedProcess, SandboxError> {
    let confinement = Confinement::none().with_limits(ResourceLimits::from(&config.settings.sandbox_limits));
    Ok(ConfinedProcess { preparation: confinement.prepare()?.into_preparation(), network: None })
}
