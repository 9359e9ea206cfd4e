//! The one thread that spawns every process.
//!
//! Linux sends the parent-death signal when the *thread* that spawned a child ends, not the process. A worker
//! of a runtime or of a pool for blocking calls may end at any time, and would take its children along. So
//! this thread does nothing but spawn, one process after the other, and lives as long as the process.

use std::{
    any::Any,
    ffi::OsString,
    io,
    os::fd::OwnedFd,
    panic::{AssertUnwindSafe, catch_unwind},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use rustix::process::{Pid, getpid};
use thiserror::Error;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
};

use crate::{
    child::Setup,
    group::Group,
    guard::Guard,
    keeper::{self, Child, Lease},
    spec::{Environment, Input, Prepare, Spec},
    terminal::{self, Terminal},
};

/// How many processes may exist at a time. The guard has room for as many.
pub(crate) const MAX_LIVE: usize = 4096;

/// How many spawns may wait for their turn; further callers wait before they are in line.
const MAX_WAITING: usize = 64;

/// How many processes exist, from before the spawn until the leader is reaped.
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
    /// The [`Prepare`] step panicked.
    #[error("failed to spawn command: its preparation panicked: {0}")]
    Prepare(String),
}

/// A process that runs, with the server's ends of its streams.
pub(crate) struct Started {
    pub(crate) lease: Lease,
    pub(crate) stdio: ServerEnds,
}

pub(crate) enum ServerEnds {
    Pipes { stdin: Option<OwnedFd>, stdout: Option<OwnedFd>, stderr: Option<OwnedFd> },
    Terminal(OwnedFd),
}

struct Job {
    spec: Spec,
    reply: oneshot::Sender<Result<Started, SpawnError>>,
}

/// Has the spawner start a process. A caller that stops waiting leaves nothing behind: what was started for
/// it is killed as soon as it is handed back.
pub(crate) async fn spawn(spec: Spec) -> Result<Started, SpawnError> {
    let (reply, answer) = oneshot::channel();
    line()?.send(Job { spec, reply }).await.map_err(|_| stopped())?;
    answer.await.map_err(|_| stopped())?
}

fn stopped() -> SpawnError {
    SpawnError::Io(io::Error::other("the spawning thread has stopped"))
}

/// The queue of the spawner, which is started when it is first needed.
fn line() -> io::Result<mpsc::Sender<Job>> {
    static LINE: Mutex<Option<mpsc::Sender<Job>>> = Mutex::new(None);

    let mut line = LINE.lock().unwrap_or_else(PoisonError::into_inner);
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

fn run(mut jobs: mpsc::Receiver<Job>, keeper: &Handle) {
    let mut guard = None;
    while let Some(job) = jobs.blocking_recv() {
        let started = guarded(&mut guard).and_then(|guard| start(job.spec, guard, keeper));
        // Nobody waits any more: dropping what was started ends it.
        let _ = job.reply.send(started);
    }
}

fn guarded(guard: &mut Option<Arc<Guard>>) -> Result<&Arc<Guard>, SpawnError> {
    match guard {
        Some(guard) => Ok(guard),
        None => Ok(guard.insert(Arc::new(Guard::start()?))),
    }
}

fn start(spec: Spec, guard: &Arc<Guard>, keeper: &Handle) -> Result<Started, SpawnError> {
    if LIVE.fetch_add(1, Ordering::Relaxed) >= MAX_LIVE {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        return Err(SpawnError::TooMany);
    }
    let (timeout, reach) = (spec.timeout, spec.reach);
    let spawned = exec(spec, guard.descriptor()).inspect_err(|_| {
        guard.failed();
        LIVE.fetch_sub(1, Ordering::Relaxed);
    })?;
    let (leader, stdio) = spawned;
    guard.kept(leader, reach);
    let child = Arc::new(Child::new(Group::of_child(leader, reach)));
    keeper.spawn(keeper::keep(child.clone(), timeout, guard.clone()));
    Ok(Started { lease: Lease { child }, stdio })
}

/// Forks and executes. On an error no process is left; the standard library has waited for it.
fn exec(mut spec: Spec, guard: i32) -> Result<(Pid, ServerEnds), SpawnError> {
    let terminal = spec.tty.map(terminal::open).transpose()?;
    let prepare = spec.prepare.take();
    let setup = Setup {
        server: getpid(),
        guard,
        reach: spec.reach,
        terminal: terminal.is_some(),
        attached: Arc::new(()),
    };
    let mut command = command(&spec, &setup)?;
    if let Some(prepare) = prepare {
        apply(prepare, &mut command, &setup)?;
    }
    settle(&mut command, spec.env, &spec.cwd);
    match terminal {
        Some(terminal) => spawn_in(command, terminal),
        None => spawn_with_pipes(command, spec.stdin),
    }
}

fn command(spec: &Spec, setup: &Setup) -> Result<Command, SpawnError> {
    let (program, arguments) = spec.argv.split_first().ok_or(SpawnError::NoCommand)?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&spec.cwd).envs(&spec.env);
    setup.attach(&mut command);
    Ok(command)
}

fn apply(prepare: Prepare, command: &mut Command, setup: &Setup) -> Result<(), SpawnError> {
    catch_unwind(AssertUnwindSafe(|| prepare(command)))
        .map_err(|panic| SpawnError::Prepare(panic_text(panic.as_ref())))?;
    if !setup.is_attached() {
        setup.attach(command);
    }
    Ok(())
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}

/// Makes sure that nothing is inherited, whatever a preparation left: the spec's environment with the changes
/// that the command shows, and the spec's directory unless the command has one.
fn settle(command: &mut Command, mut env: Environment, cwd: &std::path::Path) {
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => env.insert(name.to_owned(), value.to_owned()),
            None => env.remove(name),
        };
    }
    command.env_clear().envs::<_, OsString, OsString>(env);
    if command.get_current_dir().is_none() {
        command.current_dir(cwd);
    }
}

fn spawn_with_pipes(mut command: Command, stdin: Input) -> Result<(Pid, ServerEnds), SpawnError> {
    command.stdin(match stdin {
        Input::Null => Stdio::null(),
        Input::Piped => Stdio::piped(),
    });
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let ends = ServerEnds::Pipes {
        stdin: child.stdin.take().map(OwnedFd::from),
        stdout: child.stdout.take().map(OwnedFd::from),
        stderr: child.stderr.take().map(OwnedFd::from),
    };
    Ok((Pid::from_child(&child), ends))
}

fn spawn_in(mut command: Command, terminal: Terminal) -> Result<(Pid, ServerEnds), SpawnError> {
    let Terminal { controller, user } = terminal;
    command.stdin(user.try_clone()?).stdout(user.try_clone()?).stderr(user);
    // The command holds the user's end; it is dropped on return.
    let child = command.spawn()?;
    Ok((Pid::from_child(&child), ServerEnds::Terminal(controller)))
}
