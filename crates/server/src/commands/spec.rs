//! How a command is run: its directory, its environment, its confinement.

use std::path::Path;

use codicil_config::{ConfigQuery, ConfigStore, ShellEnvironmentPolicy};
use codicil_engine::{
    ConfinedProcess, CredentialVariables, SettingsOverrides, TurnSettings, confine, environment_policy,
};
use codicil_exec::{InputSource, ProcessEnvironment, ProcessSpec};
use codicil_sandbox::{AccessRequest, RootCache, SandboxGrants, ServerPlaces};

use super::{CommandError, ExecRequest, network::CommandNetwork};

/// A command that can be spawned, and what it finds behind its door, if it has one.
pub struct ReadyCommand {
    pub(super) spec: ProcessSpec,
    pub(super) behind: Option<CommandNetwork>,
}

/// Makes everything ready. `server_cwd` is the workspace of the policy, whatever the command's own directory
/// is, as clients of the reference know it. Blocks on the disk.
pub fn ready(
    request: ExecRequest,
    config: &ConfigStore,
    server_places: &ServerPlaces,
    server_cwd: &Path,
) -> Result<ReadyCommand, CommandError> {
    let settings = config.load(&ConfigQuery::at(server_cwd))?;
    let cwd = request.cwd.as_ref().map_or_else(|| server_cwd.to_owned(), |cwd| server_cwd.join(cwd));
    let policy = match request.policy {
        Some(policy) => {
            // What a request names is refused when an administrator forbids it.
            settings.requirements.check_sandbox_policy(&policy)?;
            policy
        }
        None => {
            TurnSettings::resolve(
                &settings,
                config.home(),
                server_cwd.to_owned(),
                &SettingsOverrides::default(),
            )
            .sandbox
        }
    };
    // A command must be able to stand where it is put, also where only a part can be read.
    let grants = SandboxGrants { readable: vec![cwd.clone()], ..SandboxGrants::default() };
    let access = AccessRequest {
        policy: &policy,
        workspace: server_cwd,
        grants: &grants,
        roots: &RootCache::default(),
        server: server_places,
    };
    let ConfinedProcess { preparation, network } = confine(&access, &settings, config)?;
    let env = environment(&settings.settings.shell_environment_policy, request.env);
    let spec = ProcessSpec {
        stdin: if request.input == super::request::InputMode::FromClient {
            InputSource::Piped
        } else {
            InputSource::Null
        },
        tty: request.terminal,
        timeout: request.timeout,
        preparation: Some(preparation),
        ..ProcessSpec::new(&request.command, cwd, env)
    };
    let behind = network.map(|network| CommandNetwork::new(network, config.home().rules_dir()));
    Ok(ReadyCommand { spec, behind })
}

fn environment(
    policy: &ShellEnvironmentPolicy,
    changes: impl IntoIterator<Item = (String, Option<String>)>,
) -> ProcessEnvironment {
    // Names that look like credentials go only if the file says so, as in the reference.
    let mut env = environment_policy(policy, CredentialVariables::Keep).apply(&std::env::vars_os().collect());
    for (name, value) in changes {
        match value {
            Some(value) => env.insert(name.into(), value.into()),
            None => env.remove(std::ffi::OsStr::new(&name)),
        };
    }
    env
}
