//! The one thread that spawns every process.
//!
//! Linux sends the parent-death signal when the *thread* that spawned a child ends, not when its process ends. A worker
//! of a runtime or of a blocking pool may end at any time, and its children would be killed with it. So this thread only
//! spawns, one process after the other, and lives as long as the server.

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
    minder::{END_SIGNAL, InitReport, MinderTask},
    namespaces,
    reaper::{self, ChildLease, MindedChild},
    spec::{ChildPreparation, InputSource, ProcessSpec},
    terminal::{self, TerminalPair},
};

/// How many commands may exist at the same time.
const MAX_COMMANDS: usize = 4096;

/// How many spawns may be queued. Further callers wait for room in the queue.
const MAX_QUEUED: usize = 64;

/// How many commands exist, counted from before the spawn until the minder is reaped.
pub(crate) static LIVE_COMMANDS: AtomicUsize = AtomicUsize::new(0);

/// Why a process could not be started.
#[derive(Debug, Error)]
pub enum SpawnError {
    #[error("command must not be empty")]
    NoCommand,
    #[error("failed to spawn command: {MAX_COMMANDS} processes are running already")]
    TooMany,
    #[error("failed to spawn command: {0}")]
    Io(#[from] io::Error),
}

/// A running process with the server's ends of its streams.
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

/// Spawns a process on the spawner thread. If the future is dropped, the process is killed as soon as it is started.
pub(crate) async fn spawn(spec: ProcessSpec) -> Result<StartedProcess, SpawnError> {
    let (reply, answer) = oneshot::channel();
    job_queue()?.send(SpawnJob { spec, reply }).await.map_err(|_| spawner_stopped())?;
    answer.await.map_err(|_| spawner_stopped())?
}

fn spawner_stopped() -> SpawnError {
    SpawnError::Io(io::Error::other("the spawning thread has stopped"))
}

/// Returns the queue of the spawner thread, which is started on first use.
fn job_queue() -> io::Result<mpsc::Sender<SpawnJob>> {
    static QUEUE: Mutex<Option<mpsc::Sender<SpawnJob>>> = Mutex::new(None);

    let mut queue = QUEUE.lock();
    if let Some(jobs) = &*queue {
        return Ok(jobs.clone());
    }
    restore_sigchld();
    let reaper = reaper::start()?;
    let (jobs, queued) = mpsc::channel(MAX_QUEUED);
    thread::Builder::new().name("exec-spawner".into()).spawn(move || run(queued, &reaper))?;
    Ok(queue.insert(jobs).clone())
}

/// Restores the default of `SIGCHLD` if it is ignored. A program that was started with it ignored gets no exit codes,
/// and the kernel reuses the ids of its children before it learns of their end. A handler is kept.
fn restore_sigchld() {
    // SAFETY: reads and sets the disposition of one signal, with a value on the stack.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let read = libc::sigaction(libc::SIGCHLD, std::ptr::null(), &mut action);
        if read == 0 && action.sa_sigaction == libc::SIG_IGN {
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        }
    }
}

fn run(mut jobs: mpsc::Receiver<SpawnJob>, reaper: &Handle) {
    while let Some(job) = jobs.blocking_recv() {
        let started = start(job.spec, reaper);
        // If the caller has stopped waiting, dropping the process kills it.
        let _ = job.reply.send(started);
    }
}

fn start(spec: ProcessSpec, reaper: &Handle) -> Result<StartedProcess, SpawnError> {
    if LIVE_COMMANDS.fetch_add(1, Ordering::Relaxed) >= MAX_COMMANDS {
        LIVE_COMMANDS.fetch_sub(1, Ordering::Relaxed);
        return Err(SpawnError::TooMany);
    }
    let timeout = spec.timeout;
    let spawned = fork_and_exec(spec).inspect_err(|_| _ = LIVE_COMMANDS.fetch_sub(1, Ordering::Relaxed))?;
    let child = Arc::new(MindedChild::new(spawned.minder, spawned.end_signal));
    reaper.spawn(reaper::watch_child(child.clone(), timeout, spawned.status_pipe));
    Ok(StartedProcess { lease: ChildLease { child }, stdio: spawned.stdio })
}

/// A minder and its command, with the server's ends of their pipes.
struct SpawnedChild {
    minder: Pid,
    /// The signal on which the minder kills everything and exits.
    end_signal: Signal,
    status_pipe: OwnedFd,
    stdio: ServerEnds,
}

/// Forks and executes. On an error no process is left: the standard library has waited for it.
fn fork_and_exec(mut spec: ProcessSpec) -> Result<SpawnedChild, SpawnError> {
    let terminal = spec.tty.map(terminal::open).transpose()?;
    let (status_reader, status_writer) = io::pipe()?;
    let preparation = spec.preparation.take();
    let namespaces = preparation.as_ref().map_or(0, |preparation| preparation.namespaces);
    let is_init = namespaces::can_be_made_directly(namespaces);
    let role = if is_init {
        let pipe = status_writer.as_raw_fd();
        ChildRole::Init(InitReport { pipe, server_end: status_reader.as_raw_fd() })
    } else {
        let status_pipe = Some(status_writer.as_raw_fd());
        ChildRole::Minded(MinderTask { namespaces, status_pipe, owner: Some(getpid()) })
    };
    let command = build_command(&spec, ChildSetup::new(role, terminal.is_some()), preparation)?;
    let spawn = || match terminal {
        Some(terminal) => spawn_in_terminal(command, terminal),
        None => spawn_with_pipes(command, spec.stdin),
    };
    let (minder, stdio) = if is_init { namespaces::with_new_pid_namespace(spawn)? } else { spawn()? };
    let end_signal = if is_init { Signal::KILL } else { END_SIGNAL };
    Ok(SpawnedChild { minder, end_signal, status_pipe: status_reader.into(), stdio })
}

fn build_command(
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
        // SAFETY: the steps of a preparation make only async-signal-safe calls, as its documentation demands.
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

fn spawn_in_terminal(mut command: Command, terminal: TerminalPair) -> Result<(Pid, ServerEnds), SpawnError> {
    let TerminalPair { controller, user } = terminal;
    command.stdin(user.try_clone()?).stdout(user.try_clone()?).stderr(user);
    // `command` holds the program's end of the terminal and is dropped on return.
    let child = command.spawn()?;
    Ok((Pid::from_child(&child), ServerEnds::Terminal(controller)))
}
