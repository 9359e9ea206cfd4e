//! The one place where a confined process is put together: policy, limits, network proxy and what belongs to the server.
//!
//! The commands of models (`tools/command/launch.rs`), the commands of clients (`command/exec`) and `codicil sandbox`
//! all come here, so none of them can leave a part out.

use std::io;

use codicil_config::{ConfigStore, EffectiveConfig};
use codicil_exec::ChildPreparation;
use codicil_proxy::{BadPattern, ProxyConfig};
use codicil_sandbox::{
    AccessRequest, Confinement, MachineProbe, PROXY, ProxyListener, ResourceLimits, SandboxError,
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
    /// Where the process reaches the network proxy, if it is behind one.
    pub network: Option<ProxiedNetwork>,
}

/// The server's end of a command's only way to the network, and what is allowed there.
pub struct ProxiedNetwork {
    pub door: ProxyListener,
    pub terms: ProxyConfig,
}

/// The confinement that a policy asks for, with the limits of the configuration. Takes note of what commands can write
/// from now on: configuration that appears there is not obeyed by itself. Blocks on the disk.
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

/// Confines a process, behind the network proxy where the configuration has one. Blocks on the disk.
pub fn confine(
    request: &AccessRequest<'_>,
    config: &EffectiveConfig,
    store: &ConfigStore,
) -> Result<ConfinedProcess, ConfineError> {
    let terms = config.network_proxy().as_ref().map(ProxyConfig::new).transpose()?;
    let confinement = confinement(request, config, store)?;
    let confinement = if terms.is_some() { confinement.behind_proxy()? } else { confinement };
    let mut prepared = confinement.prepare()?;
    let network = prepared.take_proxy_listener().zip(terms).map(|(door, terms)| ProxiedNetwork { door, terms });
    let mut preparation = prepared.into_preparation();
    if let Some(network) = &network {
        let variables = network.terms.environment(PROXY).into_iter();
        preparation.env.extend(variables.map(|(name, value)| (name.into(), value.into())));
    }
    Ok(ConfinedProcess { preparation, network })
}

/// A process that may leave the sandbox. The limits of the configuration still hold.
pub fn unconfined(config: &EffectiveConfig) -> Result<ConfinedProcess, SandboxError> {
    let confinement = Confinement::none().with_limits(ResourceLimits::from(&config.settings.sandbox_limits));
    Ok(ConfinedProcess { preparation: confinement.prepare()?.into_preparation(), network: None })
}
