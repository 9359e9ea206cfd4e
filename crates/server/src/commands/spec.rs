//! How a command is run: its directory, its environment, its confinement.

use std::path::Path;

use codicil_agent::{Overrides, Settings, environment_policy};
use codicil_config::{ConfigStore, EffectiveConfig, Query, ShellEnvironmentPolicy};
use codicil_exec::{Environment, Input, Reach, Spec};
use codicil_protocol::SandboxPolicy;
use codicil_proxy::Terms;
use codicil_sandbox::{Confinement, Grants, Limits, PROXY, Prepared, Probe};

use super::{CommandError, Request, network::Behind};

/// A command that can be spawned, and what it finds behind its door, if it has one.
pub struct Ready {
    pub(super) spec: Spec,
    pub(super) behind: Option<Behind>,
}

/// Makes everything ready. `server_cwd` is the workspace of the policy, whatever the command's own directory
/// is, as clients of the reference know it. Blocks on the disk.
pub fn ready(request: Request, config: &ConfigStore, server_cwd: &Path) -> Result<Ready, CommandError> {
    let settings = config.load(&Query::at(server_cwd))?;
    let cwd = request.cwd.as_ref().map_or_else(|| server_cwd.to_owned(), |cwd| server_cwd.join(cwd));
    let policy = match request.policy {
        Some(policy) => {
            // What a request names is refused when an administrator forbids it.
            settings.requirements.check_sandbox_policy(&policy)?;
            policy
        }
        None => {
            Settings::resolve(&settings, config.home(), server_cwd.to_owned(), &Overrides::default()).sandbox
        }
    };
    let terms = settings.network_proxy().as_ref().map(Terms::new).transpose()?;
    let mut prepared = confine(&policy, server_cwd, &cwd, &settings, terms.is_some())?;
    let mut env = environment(&settings.settings.shell_environment_policy, request.env);
    let behind = match (prepared.take_door(), terms) {
        (Some(door), Some(terms)) => {
            let variables = terms.environment(PROXY).into_iter();
            env.extend(variables.map(|(name, value)| (name.into(), value.into())));
            Some(Behind::new(door, terms, config.home().rules_dir()))
        }
        _ => None,
    };
    let spec = Spec {
        stdin: if request.input == super::request::Input::FromClient { Input::Piped } else { Input::Null },
        tty: request.terminal,
        timeout: request.timeout,
        reach: Reach::Session,
        prepare: Some(Box::new(move |command| prepared.apply(command))),
        ..Spec::new(&request.command, cwd, env)
    };
    Ok(Ready { spec, behind })
}

fn confine(
    policy: &SandboxPolicy,
    workspace: &Path,
    cwd: &Path,
    settings: &EffectiveConfig,
    proxied: bool,
) -> Result<Prepared, CommandError> {
    // A command must be able to stand where it is put, also where only a part can be read.
    let grants = Grants { readable: vec![cwd.to_owned()], ..Grants::default() };
    let confinement = Confinement::new(policy, workspace, &grants, Probe::cached())?;
    let confinement = if proxied { confinement.behind_proxy()? } else { confinement };
    let limits = Limits::from(&settings.settings.sandbox_limits);
    Ok(confinement.with_limits(limits).dying_with_parent().prepare()?)
}

fn environment(
    policy: &ShellEnvironmentPolicy,
    changes: impl IntoIterator<Item = (String, Option<String>)>,
) -> Environment {
    // Names that look like credentials go only if the file says so, as in the reference.
    let mut env = environment_policy(policy, true).apply(&std::env::vars_os().collect());
    for (name, value) in changes {
        match value {
            Some(value) => env.insert(name.into(), value.into()),
            None => env.remove(std::ffi::OsStr::new(&name)),
        };
    }
    env
}
