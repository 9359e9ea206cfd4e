//! `codicil sandbox`: runs a command as confined as an agent's commands are, to see what that means for it.

use std::{
    env,
    ffi::OsString,
    io,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
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

use crate::{app_server, args::OverrideArgs, exec::SandboxFlag, logging};

/// The exit code when the command was not run, as other programs have it that run commands. A command that is
/// not there is 127, one that cannot be executed 126.
const NOT_RUN: i32 = 125;

#[derive(Debug, Args)]
pub struct SandboxArgs {
    /// What the command can write [default: `sandbox_mode` of the configuration, else read-only].
    #[arg(long, value_enum, value_name = "MODE")]
    mode: Option<SandboxFlag>,
    /// A directory that it can write beside its working directory, with --mode workspace-write. May be repeated.
    #[arg(long = "writable-root", value_name = "DIR")]
    writable_roots: Vec<PathBuf>,
    /// Let it use the network.
    #[arg(long)]
    network: bool,
    /// Where it runs [default: the current directory].
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// The command and its arguments.
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Ends the process with the exit code of the command, or with 128 and the number of the signal that ended it.
pub fn run(overrides: &OverrideArgs, args: &SandboxArgs) -> anyhow::Result<()> {
    logging::init();
    let code = confined(overrides, args).unwrap_or_else(|error| {
        eprintln!("codicil: {error:#}");
        NOT_RUN
    });
    std::process::exit(code)
}

fn confined(overrides: &OverrideArgs, args: &SandboxArgs) -> anyhow::Result<i32> {
    let here = env::current_dir().context("the current directory is gone")?;
    let cwd = args.cwd.as_ref().map_or_else(|| here.clone(), |cwd| here.join(cwd));
    let store = app_server::config(overrides)?;
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
    if config.network_proxy().is_some() {
        eprintln!("codicil: {}", about_proxy());
    }
    let (program, arguments) = args.command.split_first().context("there is no command")?;
    let mut command = std::process::Command::new(program);
    command.args(arguments).current_dir(&cwd);
    // One thread: the command is to end with the thread that starts it.
    confinement.apply(&mut command, CommandLifetime::OfCaller)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(follow(command.into(), program, &cwd))
}

/// Who has configured a proxy for commands may expect it here.
fn about_proxy() -> String {
    match MachineProbe::cached().proxy() {
        Ok(()) => {
            "the configured network proxy is for the commands of agents; this one runs without it".to_owned()
        }
        Err(reason) => {
            format!("the configured network proxy cannot be had, so agents' commands are refused: {reason}")
        }
    }
}

/// The configured policy for the mode, with what the flags add.
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
    let given = ThreadOverrides { sandbox: mode, ..ThreadOverrides::default() };
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

/// Waits for the end of the command and says how it ended.
async fn follow(mut command: Command, program: &OsString, cwd: &Path) -> anyhow::Result<i32> {
    let mut signals = ForwardedSignals::listen().context("cannot listen for signals")?;
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return not_started(&error, program, cwd),
    };
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            signal = signals.received() => pass_on(&child, signal),
        }
    };
    // It ended in one of the two ways.
    Ok(status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(NOT_RUN))
}

fn not_started(error: &io::Error, program: &OsString, cwd: &Path) -> anyhow::Result<i32> {
    if let Some(refused) = SandboxError::from_spawn(error) {
        return Err(refused.into());
    }
    if !cwd.is_dir() {
        bail!("{} is no directory", cwd.display());
    }
    eprintln!("codicil: {}: {error}", program.display());
    Ok(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}

fn pass_on(child: &Child, signal: Signal) {
    if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())) {
        // It may have ended in this very moment.
        let _ = kill_process(pid, signal);
    }
}

/// What must not end this process before the command. Keys of the terminal reach the command by themselves.
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

    /// The next one that has to be passed on.
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
