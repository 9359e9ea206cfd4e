//! Starting a command: its environment and its confinement.

use codicil_config::{InheritEnvironment, ShellEnvironmentPolicy};
use codicil_exec::{
    EnvironmentPolicy, InheritPolicy, InputSource, ProcessEnvironment, ProcessSpec, SessionId, TerminalSize,
    add_tool_defaults,
};
use codicil_policy::{AccessGrant, SandboxPermissions};
use codicil_protocol::{CommandExecutionSource, CommandExecutionStatus};
use tokio::sync::mpsc;

use super::{CommandEnd, CommandItem, RequestedCommand, RunningCommand, TurnTools};
use crate::{
    confine::{self, ConfinedProcess, ProxiedNetwork},
    tools::network::{CommandGate, CommandNetwork},
};

/// Events of a command that may wait for whoever follows it; a command that is further ahead waits.
const EVENTS: usize = 16;

impl TurnTools {
    /// Starts the command and says so, unless that was said before. An error is told to the model; the
    /// command's item is complete then.
    pub(super) async fn launch(
        &self,
        wanted: &RequestedCommand,
        item: &mut CommandItem,
        sandboxed: bool,
        is_started: bool,
    ) -> Result<RunningCommand, String> {
        let (sender, events) = mpsc::channel(EVENTS);
        let terminals = &self.kit.engine.terminals;
        let session = item.process.unwrap_or_else(|| terminals.reserve());
        let opened = match self.spec(wanted, sandboxed).await {
            Ok((spec, network)) => {
                let opened = terminals.open_as(session, &self.kit.owner, spec, Some(sender)).await;
                opened.map(|()| network).map_err(|error| error.to_string())
            }
            Err(error) => Err(error),
        };
        let opened = match opened {
            Ok(None) => Ok(None),
            Ok(Some(network)) => self.open_network(wanted, item, session, network).await.map(Some),
            Err(why) => Err(why),
        };
        if !is_started {
            item.process = self.typed_into(wanted, session).filter(|_| opened.is_ok());
            self.say_started(item).await;
        }
        match opened {
            Ok(network) => Ok(RunningCommand::new(self, item, session, events, network)),
            Err(why) => {
                let end = CommandEnd::without_run(CommandExecutionStatus::Failed);
                self.say_ended(item, CommandEnd { output: Some(why.clone()), ..end }).await;
                Err(why)
            }
        }
    }

    /// Starts the proxy of a command that runs. Without a proxy the command would wait for ever, so it is ended.
    async fn open_network(
        &self,
        wanted: &RequestedCommand,
        item: &CommandItem,
        session: SessionId,
        ProxiedNetwork { door, terms }: ProxiedNetwork,
    ) -> Result<CommandNetwork, String> {
        let is_open = self.access(wanted).network;
        let gate = CommandGate::new(self, item.id.clone(), terms.domains, is_open);
        match CommandNetwork::open(door, gate, terms.methods) {
            Ok(network) => Ok(network),
            Err(error) => {
                self.kit.engine.terminals.end(&self.kit.owner, session).await;
                Err(format!("the proxy of the command could not be opened: {error}"))
            }
        }
    }

    /// A tool that waits for the end offers nothing to type into.
    fn typed_into(&self, wanted: &RequestedCommand, session: SessionId) -> Option<SessionId> {
        (wanted.source == CommandExecutionSource::UnifiedExecStartup).then_some(session)
    }

    /// The session of a command that is told before it may run.
    pub(super) fn reserve(&self, wanted: &RequestedCommand) -> Option<SessionId> {
        self.typed_into(wanted, self.kit.engine.terminals.reserve())
    }

    async fn spec(
        &self,
        wanted: &RequestedCommand,
        sandboxed: bool,
    ) -> Result<(ProcessSpec, Option<ProxiedNetwork>), String> {
        let ConfinedProcess { preparation, network } = match sandboxed {
            true => self.confine(wanted).await?,
            false => confine::unconfined(&self.config).map_err(|error| error.to_string())?,
        };
        let mut spec = ProcessSpec::new(&wanted.argv, &wanted.cwd, self.environment(wanted));
        spec.tty = wanted.tty.then(TerminalSize::default);
        spec.stdin = InputSource::Null;
        spec.preparation = Some(preparation);
        Ok((spec, network))
    }

    /// What the command has beyond its policy.
    fn access(&self, wanted: &RequestedCommand) -> AccessGrant {
        let mut access = self.kit.grants().access();
        if let SandboxPermissions::WithAdditional(more) = &wanted.permissions {
            access.extend(more);
        }
        access
    }

    /// Confines a command by the thread's settings. The directory that the model names for it has no part in this.
    async fn confine(&self, wanted: &RequestedCommand) -> Result<ConfinedProcess, String> {
        let sources = self.access_sources(self.access(wanted));
        let (config, engine) = (self.config.clone(), self.kit.engine.clone());
        let confine = move || confine::confine(&sources.request(), &config, &engine.config);
        match tokio::task::spawn_blocking(confine).await {
            Ok(confined) => confined.map_err(|error| error.to_string()),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    fn environment(&self, wanted: &RequestedCommand) -> ProcessEnvironment {
        // Models must not see what looks like a credential, unless the file says so.
        let policy = environment_policy(&self.config.settings.shell_environment_policy, false);
        let mut env = policy.apply(&std::env::vars_os().collect());
        if wanted.source == CommandExecutionSource::UnifiedExecStartup {
            add_tool_defaults(&mut env);
        }
        env.insert("CODEX_THREAD_ID".into(), self.kit.thread.to_string().into());
        env
    }
}

/// What the configuration makes of the environment of commands. `keeps_credentials`: whether names that look
/// like credentials stay where the configuration leaves that open.
pub fn environment_policy(set: &ShellEnvironmentPolicy, keeps_credentials: bool) -> EnvironmentPolicy {
    EnvironmentPolicy {
        inherit: match set.inherit {
            InheritEnvironment::All => InheritPolicy::All,
            InheritEnvironment::Core => InheritPolicy::Core,
            InheritEnvironment::None => InheritPolicy::None,
        },
        ignore_default_excludes: set.ignore_default_excludes.unwrap_or(keeps_credentials),
        exclude: set.exclude.clone(),
        set: (*set.set).clone(),
        include_only: set.include_only.clone(),
    }
}
