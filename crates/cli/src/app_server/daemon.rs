//! `codicil app-server daemon`: one server for all clients of a home, in the background.
//!
//! The daemon is a server that listens on the control socket of the home. Commands find it by connecting to that socket, so
//! they also find a server that `app-server --listen unix://` has started. The kernel reports the process id of the listener.
//! The daemon ends on `daemon stop`, or after some time without clients and work.

mod detached;
mod report;

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, BufRead, BufReader},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use codicil_config::HomeDirectory;
use codicil_server::{control_socket, wait_until_unlocked};
use rustix::process::{Pid, Signal, kill_process};

pub use self::detached::DetachedProcess;
use self::report::{DaemonReport, DaemonStatus, RunningServer};
use crate::args::OverrideArgs;

/// How long a daemon without clients and work stays.
const DEFAULT_IDLE_SECONDS: u64 = 30 * 60;

/// How long a daemon may take to start.
const START_TIME: Duration = Duration::from_secs(30);

/// How long a daemon may take to end. Its threads are stored first.
const STOP_TIME: Duration = Duration::from_secs(30);

/// A log of more than this size is renamed at the next start.
const MAX_LOG_BYTES: u64 = 8 << 20;

/// The end of the log that is shown if the daemon does not start.
const SHOWN_LOG_LINES: usize = 10;

/// The exit code of `status` if no daemon runs, as of init scripts.
const NOT_RUNNING: u8 = 3;

#[derive(Debug, Subcommand)]
pub enum DaemonCommand {
    /// Start the server of this home in the background, unless it is running.
    Start(StartArgs),
    /// Stop the server of this home.
    Stop,
    /// Print the state of the server of this home as JSON. Exits with 3 if none is running.
    Status,
    /// Print the versions of this program and of the running server as JSON.
    Version,
}

#[derive(Debug, Args)]
pub struct StartArgs {
    /// End after this many seconds without a client and without work; 0 means never.
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_IDLE_SECONDS)]
    idle_exit: u64,
}

pub fn run(overrides: &OverrideArgs, command: &DaemonCommand) -> anyhow::Result<ExitCode> {
    let files = DaemonFiles::of_home()?;
    match command {
        DaemonCommand::Start(args) => start(&files, overrides, args),
        DaemonCommand::Stop => stop(&files),
        DaemonCommand::Status => status(&files),
        DaemonCommand::Version => version(&files),
    }
}

/// Returns the control socket of the home that the environment names.
pub fn control_socket_of_home() -> anyhow::Result<PathBuf> {
    Ok(control_socket(HomeDirectory::from_env()?.path()))
}

/// The files of the daemon of a home.
struct DaemonFiles {
    socket: PathBuf,
    log: PathBuf,
    /// Held while a daemon is started or stopped.
    lock: PathBuf,
}

impl DaemonFiles {
    fn of_home() -> anyhow::Result<Self> {
        let home = HomeDirectory::from_env()?;
        let folder = home.path().join("app-server-daemon");
        Ok(Self {
            socket: control_socket(home.path()),
            log: folder.join("daemon.log"),
            lock: folder.join("daemon.lock"),
        })
    }

    /// Waits until no other command starts or stops the daemon.
    fn lock(&self) -> anyhow::Result<File> {
        let failed = || format!("cannot lock {}", self.lock.display());
        if let Some(folder) = self.lock.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(failed)?;
        }
        let file = private_file(&self.lock, OpenOptions::new().write(true)).with_context(failed)?;
        match file.lock() {
            Err(error) if error.kind() != io::ErrorKind::Unsupported => Err(error).with_context(failed),
            _ => Ok(file),
        }
    }

    /// Opens the log for appending. A long log is renamed first.
    fn open_log(&self) -> anyhow::Result<File> {
        if fs::metadata(&self.log).is_ok_and(|found| found.len() > MAX_LOG_BYTES) {
            let _ = fs::rename(&self.log, self.log.with_extension("log.1"));
        }
        private_file(&self.log, OpenOptions::new().append(true))
            .with_context(|| format!("cannot open {}", self.log.display()))
    }
}

fn private_file(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options.create(true).mode(0o600).open(path)
}

fn start(files: &DaemonFiles, overrides: &OverrideArgs, args: &StartArgs) -> anyhow::Result<ExitCode> {
    let _lock = files.lock()?;
    if let Some(running) = RunningServer::find(&files.socket) {
        return DaemonReport::new(DaemonStatus::AlreadyRunning, files, Some(&running)).print();
    }
    let log = files.open_log()?;
    let log_start = log.metadata().map_or(0, |found| found.len());
    let mut child = spawn(overrides, args, log)?;
    if let Err(error) = wait_until_ready(&mut child) {
        let _ = child.kill();
        let _ = child.wait();
        bail!("the daemon did not start: {error}{}", log_tail(&files.log, log_start));
    }
    let running = RunningServer::find(&files.socket).context("the daemon ended right after its start")?;
    DaemonReport::new(DaemonStatus::Started, files, Some(&running)).print()
}

/// Starts the daemon's process, which begins a session of its own ([`DetachedProcess`]).
fn spawn(overrides: &OverrideArgs, args: &StartArgs, log: File) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let idle_exit = args.idle_exit.to_string();
    Command::new(program)
        .args(overrides.to_arguments())
        .args(["app-server", "--listen", "unix://", "--detached", "--idle-exit", &idle_exit])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .context("cannot start the daemon")
}

/// Waits for the line that the daemon writes when it accepts connections.
fn wait_until_ready(child: &mut Child) -> anyhow::Result<()> {
    let stdout = child.stdout.take().context("its output is not piped")?;
    let (sender, ready) = mpsc::channel();
    // Ends with the daemon's output, which the daemon closes once it is ready.
    thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        let _ = sender.send(read.is_ok_and(|bytes| bytes > 0));
    });
    match ready.recv_timeout(START_TIME) {
        Ok(true) => Ok(()),
        Ok(false) => bail!("its process ended"),
        Err(_) => bail!("it was not ready after {} seconds", START_TIME.as_secs()),
    }
}

/// Returns the last lines of the log since `start`, to be appended to an error.
fn log_tail(log: &Path, start: u64) -> String {
    let text = fs::read(log).unwrap_or_default();
    let new = usize::try_from(start).ok().and_then(|start| text.get(start..)).unwrap_or_default();
    let text = String::from_utf8_lossy(new);
    let lines: Vec<_> = text.lines().collect();
    let shown = lines.len().saturating_sub(SHOWN_LOG_LINES);
    lines.iter().skip(shown).fold(format!("; see {}", log.display()), |tail, line| tail + "\n  " + line)
}

fn stop(files: &DaemonFiles) -> anyhow::Result<ExitCode> {
    let _lock = files.lock()?;
    let Some(running) = RunningServer::find(&files.socket) else {
        return DaemonReport::new(DaemonStatus::NotRunning, files, None).print();
    };
    let pid = running.pid.and_then(Pid::from_raw).context("cannot tell which process listens")?;
    // The open connection proves that the process id still belongs to the listener.
    kill_process(pid, Signal::TERM).with_context(|| format!("cannot stop process {pid:?}"))?;
    drop(running);
    if !wait_until_unlocked(&files.socket, STOP_TIME) {
        bail!("process {pid:?} has not ended after {} seconds", STOP_TIME.as_secs());
    }
    DaemonReport::new(DaemonStatus::Stopped, files, None).print()
}

fn status(files: &DaemonFiles) -> anyhow::Result<ExitCode> {
    let Some(running) = RunningServer::find(&files.socket) else {
        DaemonReport::new(DaemonStatus::NotRunning, files, None).print()?;
        return Ok(ExitCode::from(NOT_RUNNING));
    };
    DaemonReport::new(DaemonStatus::Running, files, Some(&running)).print()
}

fn version(files: &DaemonFiles) -> anyhow::Result<ExitCode> {
    let running = RunningServer::find(&files.socket)
        .with_context(|| format!("no server is listening on {}", files.socket.display()))?;
    DaemonReport::new(DaemonStatus::Running, files, Some(&running)).print()
}
