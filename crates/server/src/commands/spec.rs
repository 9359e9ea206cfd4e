//! How a command is run: its directory, its environment, its confinement.

use std::path::Path;

use codicil_agent::{Overrides, Settings};
use codicil_config::{ConfigStore, EffectiveConfig, InheritEnvironment, Query, ShellEnvironmentPolicy};
use codicil_exec::{Environment, EnvironmentPolicy, Inherit, Input, Reach, Spec};
use codicil_protocol::SandboxPolicy;
use codicil_sandbox::{Confinement, Grants, Limits, Prepared, Probe};

use super::{CommandError, Request};

/// Makes everything ready. `server_cwd` is the workspace of the policy, whatever the command's own directory
/// is, as clients of the reference know it. Blocks on the disk.
pub fn spec(request: Request, config: &ConfigStore, server_cwd: &Path) -> Result<Spec, CommandError> {
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
    let prepared = confine(&policy, server_cwd, &cwd, &settings)?;
    let env = environment(&settings.settings.shell_environment_policy, request.env);
    Ok(Spec {
        stdin: if request.input == super::request::Input::FromClient { Input::Piped } else { Input::Null },
        tty: request.terminal,
        timeout: request.timeout,
        reach: Reach::Session,
        prepare: Some(Box::new(move |command| prepared.apply(command))),
        ..Spec::new(&request.command, cwd, env)
    })
}

fn confine(
    policy: &SandboxPolicy,
    workspace: &Path,
    cwd: &Path,
    settings: &EffectiveConfig,
) -> Result<Prepared, CommandError> {
    // A command must be able to stand where it is put, also where only a part can be read.
    let grants = Grants { readable: vec![cwd.to_owned()], ..Grants::default() };
    let confinement = Confinement::new(policy, workspace, &grants, Probe::cached())?;
    let limits = Limits::from(&settings.settings.sandbox_limits);
    Ok(confinement.with_limits(limits).dying_with_parent().prepare()?)
}

fn environment(
    policy: &ShellEnvironmentPolicy,
    changes: impl IntoIterator<Item = (String, Option<String>)>,
) -> Environment {
    let mut env = exec_policy(policy).apply(&std::env::vars_os().collect());
    for (name, value) in changes {
        match value {
            Some(value) => env.insert(name.into(), value.into()),
            None => env.remove(std::ffi::OsStr::new(&name)),
        };
    }
    env
}

fn exec_policy(policy: &ShellEnvironmentPolicy) -> EnvironmentPolicy {
    EnvironmentPolicy {
        inherit: match policy.inherit {
            InheritEnvironment::All => Inherit::All,
            InheritEnvironment::Core => Inherit::Core,
            InheritEnvironment::None => Inherit::None,
        },
        // Names that look like credentials go only if the file says so, as in the reference.
        ignore_default_excludes: policy.ignore_default_excludes.unwrap_or(true),
        exclude: policy.exclude.clone(),
        set: (*policy.set).clone(),
        include_only: policy.include_only.clone(),
    }
}
