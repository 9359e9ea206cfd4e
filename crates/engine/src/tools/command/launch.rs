//! Starts a command: its environment, its confinement and its network.

use std::fmt;

use codicil_config::{InheritEnvironment, ShellEnvironmentPolicy};
use codicil_exec::{
    EnvironmentPolicy, InheritPolicy, InputSource, ProcessEnvironment, ProcessSpec, SessionError,
    SessionEvent, SessionId, SpawnError, TerminalSize, add_tool_defaults, inherited_environment,
};
use codicil_policy::{AccessGrant, SandboxPermissions};
use codicil_protocol::{
    AskForApproval, CodexErrorInfo, CommandExecutionSource, CommandExecutionStatus, TurnError,
};
use codicil_sandbox::{SandboxError, SetupStep};
use tokio::sync::mpsc;

use super::{CommandEnd, CommandRun, SandboxMode, follow::RunningCommand};
use crate::{
    confine::{self, ConfineError, ConfinedProcess, ProxiedNetwork},
    profiles::ThreadProfile,
    tools::{
        TurnTools,
        network::{CommandGate, CommandNetwork},
    },
    turn_channel::TurnEvent,
};

/// Events of a command that may wait to be read. A command that is further ahead is paused.
const EVENTS: usize = 16;

/// Why a command was not started.
struct LaunchError {
    why: String,
    cause: LaunchFailure,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LaunchFailure {
    /// The sandbox cannot be set up for any command of the turn.
    Sandbox,
    Other,
}

impl LaunchError {
    fn sandbox(error: impl fmt::Display) -> Self {
        Self { why: error.to_string(), cause: LaunchFailure::Sandbox }
    }

    fn other(error: impl fmt::Display) -> Self {
        Self { why: error.to_string(), cause: LaunchFailure::Other }
    }
}

/// Decodes the errors of a new process that could not confine itself.
impl From<SessionError> for LaunchError {
    fn from(error: SessionError) -> Self {
        let failed_step = match &error {
            SessionError::Spawn(SpawnError::Io(error)) => SandboxError::from_spawn(error),
            _ => None,
        };
        match failed_step {
            // The model chose the directory, and can choose another.
            Some(error @ SandboxError::Step { step: SetupStep::WorkingDirectory, .. }) => Self::other(error),
            Some(error) => Self::sandbox(error),
            None => Self::other(error),
        }
    }
}

/// Returns whether the approval policy lets the model ask to run a command without the sandbox.
fn can_ask_to_leave_sandbox(turn: &TurnTools) -> bool {
    match turn.settings.approval_policy {
        AskForApproval::Never => false,
        AskForApproval::Granular { sandbox_approval, .. } => sandbox_approval,
        AskForApproval::Untrusted
        | AskForApproval::OnFailure
        | AskForApproval::OnRequest
        | AskForApproval::Unrecognized(_) => true,
    }
}

fn sandbox_error(why: &str) -> TurnError {
    TurnError {
        message: format!("commands cannot run in the sandbox of this thread: {why}"),
        codex_error_info: Some(CodexErrorInfo::SandboxError),
        additional_details: Some(
            "Choose another sandbox policy, or let `codicil doctor` check what this machine lacks."
                .to_owned(),
        ),
        misalignment: None,
    }
}

impl CommandRun<'_> {
    /// Starts the command and sends `item/started` unless that happened before. On an error the item is complete, and
    /// the text is for the model. The turn fails if no command can be confined and the model cannot ask for more.
    pub(super) async fn launch(&mut self, mode: SandboxMode) -> Result<RunningCommand, String> {
        let (sender, events) = mpsc::channel(EVENTS);
        let terminals = &self.turn.thread.engine.terminals;
        let session = self.item.process.unwrap_or_else(|| terminals.reserve());
        let opened = self.open_session(session, mode, sender).await;
        if !self.is_started {
            self.item.process = Some(session).filter(|_| self.accepts_input() && opened.is_ok());
            self.emit_started().await;
        }
        match opened {
            Ok(network) => Ok(RunningCommand::new(self.turn, &self.item, session, events, network)),
            Err(LaunchError { why, cause }) => {
                let end = CommandEnd::without_run(CommandExecutionStatus::Failed);
                self.emit_ended(CommandEnd { output: Some(why.clone()), ..end }).await;
                if cause == LaunchFailure::Sandbox && !can_ask_to_leave_sandbox(self.turn) {
                    self.turn.reporter.report_one(TurnEvent::Failed(sandbox_error(&why))).await;
                }
                Err(why)
            }
        }
    }

    /// Reserves the session of a command whose item starts before its process.
    pub(super) fn reserve_session(&self) -> Option<SessionId> {
        self.accepts_input().then(|| self.turn.thread.engine.terminals.reserve())
    }

    /// Whether the session can be written to. Tools that wait for the end do not support that.
    fn accepts_input(&self) -> bool {
        self.request.source == CommandExecutionSource::UnifiedExecStartup
    }

    /// Spawns the process and starts its proxy, if it has one.
    async fn open_session(
        &self,
        session: SessionId,
        mode: SandboxMode,
        events: mpsc::Sender<SessionEvent>,
    ) -> Result<Option<CommandNetwork>, LaunchError> {
        let ConfinedProcess { preparation, network } = match mode {
            SandboxMode::Sandboxed => self.confine().await.map_err(LaunchError::sandbox)?,
            SandboxMode::Unsandboxed => confine::unconfined(&self.turn.config).map_err(LaunchError::other)?,
        };
        let request = self.request;
        let mut spec = ProcessSpec::new(&request.argv, &request.cwd, self.environment());
        spec.tty = request.tty.then(TerminalSize::default);
        spec.stdin = InputSource::Null;
        spec.preparation = Some(preparation);
        let thread = &self.turn.thread;
        let opened = thread.engine.terminals.open_as(session, &thread.owner, spec, Some(events)).await;
        opened.map_err(LaunchError::from)?;
        match network {
            Some(network) => self.open_network(session, network).await.map(Some).map_err(LaunchError::other),
            None => Ok(None),
        }
    }

    /// Starts the proxy of a running command. Without its proxy the command would wait for ever, so it is ended then.
    async fn open_network(
        &self,
        session: SessionId,
        ProxiedNetwork { listener, proxy_config }: ProxiedNetwork,
    ) -> Result<CommandNetwork, String> {
        let gate =
            CommandGate::new(self.turn, self.item.id.clone(), proxy_config.domains, &self.granted_access());
        match CommandNetwork::open(listener, gate, proxy_config.rules) {
            Ok(network) => Ok(network),
            Err(error) => {
                let thread = &self.turn.thread;
                thread.engine.terminals.end(&thread.owner, session).await;
                Err(format!("the proxy of the command could not be opened: {error}"))
            }
        }
    }

    /// Returns what was granted on top of the sandbox policy, to the thread or to this command.
    fn granted_access(&self) -> AccessGrant {
        let mut access = self.turn.thread.grants().access();
        if let SandboxPermissions::WithAdditional(more) = &self.request.permissions {
            access.extend(more);
        }
        access
    }

    /// Confines the command by the thread's settings. The working directory that the model chose plays no part in it.
    async fn confine(&self) -> Result<ConfinedProcess, ConfineError> {
        let sources = self.turn.access_sources(self.granted_access());
        let config = self.turn.config.clone();
        let engine = self.turn.thread.engine.clone();
        let profile = self.turn.settings.profile.clone();
        let confine = move || {
            let profile = profile.as_ref().map(ThreadProfile::id);
            confine::confine(&sources.request(), &config, &engine.config, profile)
        };
        match tokio::task::spawn_blocking(confine).await {
            Ok(confined) => confined,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    fn environment(&self) -> ProcessEnvironment {
        let mut env = command_environment(self.turn);
        if self.request.source == CommandExecutionSource::UnifiedExecStartup {
            add_tool_defaults(&mut env);
        }
        env
    }
}

/// Returns the environment of a turn's commands. Variables that look like credentials are left out, unless the
/// configuration keeps them.
pub(super) fn command_environment(turn: &TurnTools) -> ProcessEnvironment {
    let set = &turn.config.settings.shell_environment_policy;
    let policy = environment_policy(set, CredentialVariables::Exclude);
    let mut env = policy.apply(&inherited_environment());
    env.insert("CODEX_THREAD_ID".into(), turn.thread.thread_id.to_string().into());
    env
}

/// What happens to variables that look like credentials, if the configuration leaves that open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialVariables {
    Keep,
    Exclude,
}

/// Returns the environment policy of the configuration.
pub fn environment_policy(
    set: &ShellEnvironmentPolicy,
    credentials: CredentialVariables,
) -> EnvironmentPolicy {
    let keeps_credentials = credentials == CredentialVariables::Keep;
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
