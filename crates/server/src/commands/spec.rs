//! How a command is run: its directory, its environment, its confinement.

use std::path::Path;

use codicil_config::{ConfigStore, Query, ShellEnvironmentPolicy};
use codicil_engine::{ConfinedProcess, Overrides, Settings, confine, environment_policy};
use codicil_exec::{Environment, Input, Spec};
use codicil_sandbox::{AccessRequest, Grants, RootCache, ServerPlaces};

use super::{CommandError, Request, network::Behind};

/// A command that can be spawned, and what it finds behind its door, if it has one.
pub struct Ready {
    pub(super) spec: Spec,
    pub(super) behind: Option<Behind>,
}

/// Makes everything ready. `server_cwd` is the workspace of the policy, whatever the command's own directory
/// is, as clients of the reference know it. Blocks on the disk.
pub fn ready(
    request: Request,
    config: &ConfigStore,
    server_places: &ServerPlaces,
    server_cwd: &Path,
) -> Result<Ready, CommandError> {
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
    // A command must be able to stand where it is put, also where only a part can be read.
    let grants = Grants { readable: vec![cwd.clone()], ..Grants::default() };
    let access = AccessRequest {
        policy: &policy,
        workspace: server_cwd,
        grants: &grants,
        roots: &RootCache::default(),
        server: server_places,
    };
    let ConfinedProcess { preparation, network } = confine(&access, &settings, config)?;
    let env = environment(&settings.settings.shell_environment_policy, request.env);
    let spec = Spec {
        stdin: if request.input == super::request::Input::FromClient { Input::Piped } else { Input::Null },
        tty: request.terminal,
        timeout: request.timeout,
        preparation: Some(preparation),
        ..Spec::new(&request.command, cwd, env)
    };
    let behind = network.map(|network| Behind::new(network, config.home().rules_dir()));
    Ok(Ready { spec, behind })
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
