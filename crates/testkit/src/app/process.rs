//! The real binary as a child process of the test.

use std::{
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::Arc,
};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    sync::watch,
    task::JoinHandle,
    time::timeout,
};

use super::MAX_WAIT;
use crate::built_program;

/// Maximum length of standard error that is kept.
const MAX_STDERR_BYTES: usize = 256 << 10;

/// A `codicil` process with a home of its own; killed when dropped.
pub struct ServerProcess {
    child: Child,
    stderr: Arc<Mutex<String>>,
    stderr_lines: watch::Receiver<usize>,
    reading: JoinHandle<()>,
}

impl ServerProcess {
    /// Starts the binary with pipes for all three standard streams.
    pub fn spawn(home: &Path, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        Self::spawn_with(home, arguments, |_| {})
    }

    /// Starts the binary like [`spawn`](Self::spawn), after a change to the command.
    pub fn spawn_with(
        home: &Path,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        change: impl FnOnce(&mut Command),
    ) -> Self {
        let mut command = Command::new(binary());
        command.args(arguments).env("CODICIL_HOME", home).env("HOME", home).env_remove("RUST_LOG");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        change(&mut command);
        let mut child = command.spawn().expect("the binary starts");
        let stderr = Arc::<Mutex<String>>::default();
        let (count, stderr_lines) = watch::channel(0);
        let reading = tokio::spawn(collect(child.stderr.take(), stderr.clone(), count));
        Self { child, stderr, stderr_lines, reading }
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id().expect("the process has not been waited for")
    }

    /// Returns standard input; dropping it is the end of the input.
    pub fn take_stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("standard input is taken once")
    }

    pub fn take_stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("standard output is taken once")
    }

    /// Returns what was written to standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.lock().clone()
    }

    /// Waits for a line of standard error that contains a text. Panics if there is none.
    pub async fn stderr_line(&mut self, part: &str) -> String {
        let waiting = async {
            loop {
                let ended = self.stderr_lines.has_changed().is_err();
                let found = self.stderr().lines().find(|line| line.contains(part)).map(str::to_owned);
                if found.is_some() || ended {
                    return found;
                }
                // Fails at the end of standard error. The loop then looks once more.
                let _ = self.stderr_lines.changed().await;
            }
        };
        let found = timeout(MAX_WAIT, waiting).await.ok().flatten();
        found.unwrap_or_else(|| panic!("no line with {part:?} on standard error:\n{}", self.stderr()))
    }

    /// Waits for the end of standard error and returns all of it.
    pub async fn whole_stderr(&mut self) -> String {
        let ended = async { while self.stderr_lines.changed().await.is_ok() {} };
        if timeout(MAX_WAIT, ended).await.is_err() {
            panic!("standard error is still open:\n{}", self.stderr());
        }
        self.stderr()
    }

    /// Returns `IP:PORT` of a websocket listener, as announced on standard error.
    pub async fn announced_address(&mut self) -> String {
        let line = self.stderr_line("listening on: ws://").await;
        line.rsplit("ws://").next().unwrap_or_default().to_owned()
    }

    /// Sends SIGTERM, as a service manager does.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGINT, as a terminal does.
    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// Sends SIGKILL, like a crash.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Sends SIGSTOP: the process does nothing until [`wake`](Self::wake).
    pub fn suspend(&self) {
        self.signal(Signal::STOP);
    }

    /// Sends SIGCONT.
    pub fn wake(&self) {
        self.signal(Signal::CONT);
    }

    /// Returns whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for the process to end. Panics if it does not.
    pub async fn wait(&mut self) -> ExitStatus {
        match timeout(MAX_WAIT, self.child.wait()).await {
            Ok(status) => status.expect("a child can be waited for"),
            Err(_) => panic!("the process goes on; its standard error:\n{}", self.stderr()),
        }
    }

    /// Waits for the process to end. Panics unless it succeeded.
    pub async fn expect_success(&mut self) {
        let status = self.wait().await;
        assert!(status.success(), "the process ended with {status}:\n{}", self.stderr());
    }

    /// Returns the memory in use, in KiB.
    pub fn resident_kib(&self) -> u64 {
        status_kib(self.id(), "VmRSS:")
    }

    /// Returns the peak memory use, in KiB.
    pub fn peak_kib(&self) -> u64 {
        status_kib(self.id(), "VmHWM:")
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.id().cast_signed()).expect("a process id is not 0");
        kill_process(pid, signal).expect("a child may be signalled");
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

async fn collect(stderr: Option<ChildStderr>, text: Arc<Mutex<String>>, count: watch::Sender<usize>) {
    let Some(stderr) = stderr else { return };
    let mut lines = BufReader::new(stderr).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        let mut text = text.lock();
        if text.len() < MAX_STDERR_BYTES {
            text.push_str(&String::from_utf8_lossy(&line));
            text.push('\n');
        }
        drop(text);
        count.send_modify(|count| *count += 1);
    }
}

/// Returns the path of the binary. Cargo sets it for tests of the binary's own package; elsewhere it is next
/// to the test.
fn binary() -> PathBuf {
    if let Some(path) = env::var_os("CARGO_BIN_EXE_codicil") {
        return path.into();
    }
    built_program("codicil")
        .expect("the codicil binary is built by the tests of its own package (codicil-cli)")
}

/// Returns a value of `/proc/PID/status`, or 0 on systems without it, where limits are not measured.
fn status_kib(pid: u32, key: &str) -> u64 {
    if !cfg!(target_os = "linux") {
        return 0;
    }
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("a line of memory use");
    line.trim().trim_end_matches(" kB").parse().expect("a number of KiB")
}
