//! `codicil sandbox`: runs a command in the sandbox that agents' commands run in.

use std::{
    env,
    ffi::OsString,
    io,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail};
use clap::Args;
use codicil_config::{ConfigQuery, EffectiveConfig, HomeDirectory};
use codicil_engine::{SettingsOverrides as ThreadOverrides, TurnSettings, confinement};
use codicil_protocol::{AbsolutePathBuf, SandboxMode, SandboxPolicy};
use codicil_sandbox::{
    AccessRequest, CommandLifetime, MachineProbe, RootCache, SandboxError, SandboxGrants, ServerPlaces,
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
};

use crate::{args::OverrideArgs, exec::SandboxFlag, logging};

/// The exit code when the command was not run, as in `env` and `timeout`. A command that is not found is 127,
/// one that cannot be executed 126.
const NOT_RUN: u8 = 125;

#[derive(Debug, Args)]
pub struct SandboxArgs {
    /// What the command can write [default: `sandbox_mode` of the configuration, else read-only].
    #[arg(long, value_enum, value_name = "MODE")]
    mode: Option<SandboxFlag>,
    /// An additional directory that the command can write, with --mode workspace-write. May be repeated.
    #[arg(long = "writable-root", value_name = "DIR")]
    writable_roots: Vec<PathBuf>,
    /// Allow network access.
    #[arg(long)]
    network: bool,
    /// The working directory of the command [default: the current directory].
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// The command and its arguments.
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Returns the exit code of the command, or 128 plus the number of the signal that ended it.
pub fn run(overrides: &OverrideArgs, args: &SandboxArgs) -> ExitCode {
    logging::init();
    let code = run_command(overrides, args).unwrap_or_else(|error| {
        eprintln!("codicil: {error:#}");
        NOT_RUN
    });
    ExitCode::from(code)
}

fn run_command(overrides: &OverrideArgs, args: &SandboxArgs) -> anyhow::Result<u8> {
    let here = env::current_dir().context("the current directory is gone")?;
    let cwd = args.cwd.as_ref().map_or_else(|| here.clone(), |cwd| here.join(cwd));
    let store = overrides.config_store()?;
    let config = store.load(&ConfigQuery::at(&cwd))?;
    let policy = policy(args, &config, store.home(), &here, &cwd)?;
    let request = AccessRequest {
        policy: &policy,
        workspace: &cwd,
        grants: &SandboxGrants::default(),
        roots: &RootCache::default(),
        server: &ServerPlaces::new(store.home().path()),
    };
    let confinement = confinement(&request, &config, &store)?;
    tracing::info!("{}", confinement.kind());
    if config.network_proxy(None).is_some() {
        eprintln!("codicil: {}", proxy_notice());
    }
    let (program, arguments) = args.command.split_first().context("there is no command")?;
    let mut command = std::process::Command::new(program);
    command.args(arguments).current_dir(&cwd);
    // A runtime with one thread, because the command ends with the thread that starts it.
    confinement.apply(&mut command, CommandLifetime::OfCaller)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(wait_for(command.into(), program, &cwd))
}

/// Returns a notice that the configured proxy does not apply to this command.
fn proxy_notice() -> String {
    match MachineProbe::cached().proxy() {
        Ok(()) => {
            "the configured network proxy is for the commands of agents; this one runs without it".to_owned()
        }
        Err(reason) => {
            format!(
                "the configured network proxy is not available, so agents' commands are refused: {reason}"
            )
        }
    }
}

/// Returns the configured policy of the mode, extended by the flags.
fn policy(
    args: &SandboxArgs,
    config: &EffectiveConfig,
    home: &HomeDirectory,
    here: &Path,
    cwd: &Path,
) -> anyhow::Result<SandboxPolicy> {
    let mode = args.mode.map(SandboxMode::from);
    if let Some(mode) = &mode {
        config.requirements.check_sandbox_mode(mode)?;
    }
    let given = ThreadOverrides { sandbox: mode.map(Into::into), ..ThreadOverrides::default() };
    let mut policy = TurnSettings::resolve(config, home, cwd.to_owned(), &given).sandbox;
    match &mut policy {
        SandboxPolicy::WorkspaceWrite { writable_roots, network_access, .. } => {
            let roots = args.writable_roots.iter().filter_map(|root| AbsolutePathBuf::new(here.join(root)));
            writable_roots.extend(roots);
            *network_access |= args.network;
        }
        _ if !args.writable_roots.is_empty() => bail!("--writable-root needs --mode workspace-write"),
        SandboxPolicy::ReadOnly { network_access, .. } => *network_access |= args.network,
        SandboxPolicy::DangerFullAccess
        | SandboxPolicy::ExternalSandbox { .. }
        | SandboxPolicy::Unrecognized(_) => {}
    }
    Ok(policy)
}

/// Waits for the command and returns its exit code.
async fn wait_for(mut command: Command, program: &OsString, cwd: &Path) -> anyhow::Result<u8> {
    let mut signals = ForwardedSignals::listen().context("cannot listen for signals")?;
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return spawn_error_code(&error, program, cwd),
    };
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            signal = signals.received() => forward(&child, signal),
        }
    };
    // A process ends with either a code or a signal.
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(NOT_RUN))
}

fn spawn_error_code(error: &io::Error, program: &OsString, cwd: &Path) -> anyhow::Result<u8> {
    if let Some(refused) = SandboxError::from_spawn(error) {
        return Err(refused.into());
    }
    if !cwd.is_dir() {
        bail!("{} is no directory", cwd.display());
    }
    eprintln!("codicil: {}: {error}", program.display());
    Ok(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}

fn forward(child: &Child, signal: Signal) {
    if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())) {
        // The command may have just ended.
        let _ = kill_process(pid, signal);
    }
}

/// The signals that must not end this process before the command. Those of terminal keys reach the command by
/// themselves.
struct ForwardedSignals {
    interrupt: tokio::signal::unix::Signal,
    quit: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl ForwardedSignals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal that has to be forwarded to the command.
    async fn received(&mut self) -> Signal {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => {}
                _ = self.quit.recv() => {}
                _ = self.terminate.recv() => return Signal::TERM,
                _ = self.hangup.recv() => return Signal::HUP,
            }
        }
    }
}
