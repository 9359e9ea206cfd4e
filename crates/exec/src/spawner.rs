//! The one thread that spawns every process.
//!
//! Linux sends the parent-death signal when the *thread* that spawned a child ends, not the process. A worker
//! of a runtime or of a pool for blocking calls may end at any time, and would take its children along. So
//! this thread does nothing but spawn, one process after the other, and lives as long as the process.

use std::{
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, getpid};
use thiserror::Error;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
};

use crate::{
    child::{ChildRole, ChildSetup},
    keeper::{self, ChildLease, KeptChild},
    minder::{END, InitReport, MinderTask},
    namespaces,
    spec::{ChildPreparation, InputSource, ProcessSpec},
    terminal::{self, TerminalPair},
};

/// How many commands may exist at a time.
const MAX_LIVE: usize = 4096;

/// How many spawns may wait for their turn; further callers wait before they are in line.
const MAX_WAITING: usize = 64;

/// How many processes exist, from before the spawn until the minder is reaped.
pub(crate) static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Why a process could not be started.
#[derive(Debug, Error)]
pub enum SpawnError {
    #[error("command must not be empty")]
    NoCommand,
    #[error("failed to spawn command: {MAX_LIVE} processes are running already")]
    TooMany,
    #[error("failed to spawn command: {0}")]
    Io(#[from] io::Error),
}

/// A process that runs, with the server's ends of its streams.
pub(crate) struct StartedProcess {
    pub(crate) lease: ChildLease,
    pub(crate) stdio: ServerEnds,
}

pub(crate) enum ServerEnds {
    Pipes { stdin: Option<OwnedFd>, stdout: Option<OwnedFd>, stderr: Option<OwnedFd> },
    Terminal(OwnedFd),
}

struct SpawnJob {
    spec: ProcessSpec,
    reply: oneshot::Sender<Result<StartedProcess, SpawnError>>,
}

/// Has the spawner start a process. A caller that stops waiting leaves nothing behind: what was started for
/// it is killed as soon as it is handed back.
pub(crate) async fn spawn(spec: ProcessSpec) -> Result<StartedProcess, SpawnError> {
    let (reply, answer) = oneshot::channel();
    line()?.send(SpawnJob { spec, reply }).await.map_err(|_| stopped())?;
    answer.await.map_err(|_| stopped())?
}

fn stopped() -> SpawnError {
    SpawnError::Io(io::Error::other("the spawning thread has stopped"))
}

/// The queue of the spawner, which is started when it is first needed.
fn line() -> io::Result<mpsc::Sender<SpawnJob>> {
    static LINE: Mutex<Option<mpsc::Sender<SpawnJob>>> = Mutex::new(None);

    let mut line = LINE.lock();
    if let Some(line) = &*line {
        return Ok(line.clone());
    }
    heed_children();
    let keeper = keeper::start()?;
    let (jobs, waiting) = mpsc::channel(MAX_WAITING);
    thread::Builder::new().name("exec-spawner".into()).spawn(move || run(waiting, &keeper))?;
    Ok(line.insert(jobs).clone())
}

/// A program that was started with `SIGCHLD` ignored gets no exit codes, and its children's ids are free for
/// others before it knows. The default is restored; a handler that is set stays.
fn heed_children() {
    // SAFETY: reads and sets the disposition of one signal, with a value on the stack.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let read = libc::sigaction(libc::SIGCHLD, std::ptr::null(), &mut action);
        if read == 0 && action.sa_sigaction == libc::SIG_IGN {
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        }
    }
}

fn run(mut jobs: mpsc::Receiver<SpawnJob>, keeper: &Handle) {
    while let Some(job) = jobs.blocking_recv() {
        let started = start(job.spec, keeper);
        // A caller that has stopped waiting gets nothing: dropping what was started ends it.
        let _ = job.reply.send(started);
    }
}

fn start(spec: ProcessSpec, keeper: &Handle) -> Result<StartedProcess, SpawnError> {
    if LIVE.fetch_add(1, Ordering::Relaxed) >= MAX_LIVE {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        return Err(SpawnError::TooMany);
    }
    let timeout = spec.timeout;
    let spawned = exec(spec).inspect_err(|_| _ = LIVE.fetch_sub(1, Ordering::Relaxed))?;
    let child = Arc::new(KeptChild::new(spawned.minder, spawned.end));
    keeper.spawn(keeper::keep(child.clone(), timeout, spawned.report));
    Ok(StartedProcess { lease: ChildLease { child }, stdio: spawned.stdio })
}

/// A minder and its command, and the server's ends of what leads to them.
struct SpawnedChild {
    minder: Pid,
    /// The signal that makes it end everything.
    end: Signal,
    report: OwnedFd,
    stdio: ServerEnds,
}

/// Forks and executes. On an error no process is left; the standard library has waited for it.
fn exec(mut spec: ProcessSpec) -> Result<SpawnedChild, SpawnError> {
    let terminal = spec.tty.map(terminal::open).transpose()?;
    let (report, reporting) = io::pipe()?;
    let preparation = spec.preparation.take();
    let namespaces = preparation.as_ref().map_or(0, |preparation| preparation.namespaces);
    let is_init = namespaces::can_be_made_directly(namespaces);
    let role = match is_init {
        true => ChildRole::Init(InitReport { pipe: reporting.as_raw_fd(), server_end: report.as_raw_fd() }),
        false => ChildRole::Minded(MinderTask {
            namespaces,
            report: Some(reporting.as_raw_fd()),
            owner: Some(getpid()),
        }),
    };
    let command = command(&spec, ChildSetup::new(role, terminal.is_some()), preparation)?;
    let spawn = || match terminal {
        Some(terminal) => spawn_in(command, terminal),
        None => spawn_with_pipes(command, spec.stdin),
    };
    let (minder, stdio) = if is_init { namespaces::with_new_processes(spawn)? } else { spawn()? };
    let end = if is_init { Signal::KILL } else { END };
    Ok(SpawnedChild { minder, end, report: report.into(), stdio })
}

fn command(
    spec: &ProcessSpec,
    setup: ChildSetup,
    preparation: Option<ChildPreparation>,
) -> Result<Command, SpawnError> {
    if spec.argv.is_empty() {
        return Err(SpawnError::NoCommand);
    }
    let launcher = preparation.as_ref().map_or(&[][..], |preparation| &preparation.launcher);
    let mut words = launcher.iter().chain(&spec.argv);
    let program = words.next().ok_or(SpawnError::NoCommand)?;
    let mut command = Command::new(program);
    command.args(words).current_dir(&spec.cwd).env_clear().envs(&spec.env);
    setup.attach(&mut command);
    if let Some(preparation) = preparation {
        command.envs(preparation.env);
        // SAFETY: a preparation promises to make only async-signal-safe calls.
        unsafe { command.pre_exec(preparation.steps) };
    }
    Ok(command)
}

fn spawn_with_pipes(mut command: Command, stdin: InputSource) -> Result<(Pid, ServerEnds), SpawnError> {
    command.stdin(match stdin {
        InputSource::Null => Stdio::null(),
        InputSource::Piped => Stdio::piped(),
    });
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let ends = ServerEnds::Pipes {
        stdin: child.stdin.take().map(OwnedFd::from),
        stdout: child.stdout.take().map(OwnedFd::from),
        stderr: child.stderr.take().map(OwnedFd::from),
    };
    Ok((Pid::from_child(&child), ends))
}

fn spawn_in(mut command: Command, terminal: TerminalPair) -> Result<(Pid, ServerEnds), SpawnError> {
    let TerminalPair { controller, user } = terminal;
    command.stdin(user.try_clone()?).stdout(user.try_clone()?).stderr(user);
    // The command holds the user's end; it is dropped on return.
    let child = command.spawn()?;
    Ok((Pid::from_child(&child), ServerEnds::Terminal(controller)))
}
