//! Starting a command: its environment and its confinement.

use codicil_command::{Access, SandboxPermissions};
use codicil_config::InheritEnvironment;
use codicil_exec::{
    Environment, EnvironmentPolicy, Inherit, Input, Reach, SessionId, Size, Spec, add_tool_defaults,
};
use codicil_protocol::{CommandExecutionSource, CommandExecutionStatus};
use codicil_sandbox::{Confinement, Grants, Limits, Prepared, Probe, SandboxError};
use tokio::sync::mpsc;

use super::{CommandEnd, CommandItem, Running, TurnTools, Wanted};

/// Events of a command that may wait for whoever follows it; a command that is further ahead waits.
const EVENTS: usize = 16;

impl TurnTools {
    /// Starts the command and says so, unless that was said before. An error is told to the model; the
    /// command's item is complete then.
    pub(super) async fn launch(
        &self,
        wanted: &Wanted,
        item: &mut CommandItem,
        sandboxed: bool,
        is_started: bool,
    ) -> Result<Running, String> {
        let (sender, events) = mpsc::channel(EVENTS);
        let terminals = &self.kit.world.terminals;
        let session = item.process.unwrap_or_else(|| terminals.reserve());
        let opened = match self.spec(wanted, sandboxed).await {
            Ok(spec) => {
                let opened = terminals.open_as(session, &self.kit.owner, spec, Some(sender)).await;
                opened.map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        if !is_started {
            item.process = self.typed_into(wanted, session).filter(|_| opened.is_ok());
            self.say_started(item).await;
        }
        match opened {
            Ok(()) => Ok(Running::new(self, item, session, events)),
            Err(why) => {
                let end = CommandEnd::without_run(CommandExecutionStatus::Failed);
                self.say_ended(item, CommandEnd { output: Some(why.clone()), ..end }).await;
                Err(why)
            }
        }
    }

    /// A tool that waits for the end offers nothing to type into.
    fn typed_into(&self, wanted: &Wanted, session: SessionId) -> Option<SessionId> {
        (wanted.source == CommandExecutionSource::UnifiedExecStartup).then_some(session)
    }

    /// The session of a command that is told before it may run.
    pub(super) fn reserve(&self, wanted: &Wanted) -> Option<SessionId> {
        self.typed_into(wanted, self.kit.world.terminals.reserve())
    }

    async fn spec(&self, wanted: &Wanted, sandboxed: bool) -> Result<Spec, SandboxError> {
        let mut spec = Spec::new(&wanted.argv, &wanted.cwd, self.environment(wanted));
        spec.tty = wanted.tty.then(Size::default);
        spec.timeout = wanted.timeout;
        spec.stdin = Input::Null;
        spec.reach = Reach::Session;
        if sandboxed {
            let prepared = self.confine(wanted).await?;
            spec.prepare = Some(Box::new(move |command| prepared.apply(command)));
        }
        Ok(spec)
    }

    /// Looks at the disk to find out what must stay as it is.
    async fn confine(&self, wanted: &Wanted) -> Result<Prepared, SandboxError> {
        let mut access = self.kit.grants().access();
        if let SandboxPermissions::WithAdditional(more) = &wanted.permissions {
            access.extend(more);
        }
        let (policy, cwd) = (self.settings.sandbox.clone(), wanted.cwd.clone());
        let limits = Limits::from(&self.config.settings.sandbox_limits);
        let prepare = move || {
            let confinement = Confinement::new(&policy, &cwd, &sandbox_grants(access), Probe::cached())?;
            confinement.with_limits(limits).prepare()
        };
        match tokio::task::spawn_blocking(prepare).await {
            Ok(prepared) => prepared,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    fn environment(&self, wanted: &Wanted) -> Environment {
        let policy = environment_policy(&self.config.settings.shell_environment_policy);
        let mut env = policy.apply(&std::env::vars_os().collect());
        if wanted.source == CommandExecutionSource::UnifiedExecStartup {
            add_tool_defaults(&mut env);
        }
        env.insert("CODEX_THREAD_ID".into(), self.kit.thread.to_string().into());
        env
    }
}

fn sandbox_grants(access: Access) -> Grants {
    Grants { readable: access.read, writable: access.write, network: access.network }
}

fn environment_policy(set: &codicil_config::ShellEnvironmentPolicy) -> EnvironmentPolicy {
    EnvironmentPolicy {
        inherit: match set.inherit {
            InheritEnvironment::All => Inherit::All,
            InheritEnvironment::Core => Inherit::Core,
            InheritEnvironment::None => Inherit::None,
        },
        ignore_default_excludes: set.ignore_default_excludes.unwrap_or(false),
        exclude: set.exclude.clone(),
        set: (*set.set).clone(),
        include_only: set.include_only.clone(),
    }
}
