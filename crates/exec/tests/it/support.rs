//! Helpers that start commands, read their output, and wait for the end of processes.
#![allow(clippy::disallowed_methods)]

use std::{
    env, fmt, fs,
    path::Path,
    time::{Duration, Instant},
};

use codicil_exec::{
    CaptureLimit, CapturedOutput, InputSource, Process, ProcessEnvironment, ProcessOutput, ProcessSpec,
};

/// The time after which a test fails. Far more than any step takes on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn environment() -> ProcessEnvironment {
    let kept = ["PATH", "HOME", "TMPDIR"];
    env::vars_os().filter(|(name, _)| kept.iter().any(|kept| name == *kept)).collect()
}

/// Returns a command that runs a line with `sh`.
pub fn sh(line: &str) -> ProcessSpec {
    ProcessSpec::new(["sh", "-c", line], "/", environment())
}

pub fn with_stdin(spec: ProcessSpec) -> ProcessSpec {
    ProcessSpec { stdin: InputSource::Piped, ..spec }
}

pub async fn start(spec: ProcessSpec) -> Process {
    Process::spawn(spec).await.unwrap()
}

/// Runs a command to its end and keeps all its output.
pub async fn run(spec: ProcessSpec) -> CapturedOutput {
    within(start(spec).await.capture(CaptureLimit::Unlimited)).await
}

/// Reads until the output contains `end`.
pub async fn read_until(output: &mut ProcessOutput, end: &str) -> String {
    let mut seen = Vec::new();
    loop {
        let chunk = within(output.next()).await;
        let Some(chunk) = chunk else {
            panic!("ended without {end:?}: {:?}", String::from_utf8_lossy(&seen))
        };
        seen.extend_from_slice(&chunk.bytes);
        if String::from_utf8_lossy(&seen).contains(end) {
            return String::from_utf8(seen).unwrap();
        }
    }
}

/// Reads to the end.
pub async fn rest(output: &mut ProcessOutput) -> Vec<u8> {
    let mut seen = Vec::new();
    while let Some(chunk) = within(output.next()).await {
        seen.extend_from_slice(&chunk.bytes);
    }
    seen
}

/// Returns the process ids in a line of output.
pub fn pids(text: &str) -> Vec<u32> {
    let pids: Vec<u32> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(!pids.is_empty(), "{text:?}");
    pids
}

pub async fn within<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, wait).await.expect("the test took too long")
}

/// Returns whether a process runs. A zombie does not.
pub fn alive(pid: u32) -> bool {
    state(pid).is_some_and(|state| state != 'Z' && state != 'X')
}

/// Returns the letter by which the kernel names the state of a process.
pub fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Waits until none of the processes runs.
pub async fn until_dead(pids: &[u32]) {
    for pid in pids {
        within(exited(*pid)).await;
    }
}

/// Waits until a process has exited, through a process descriptor.
#[cfg(target_os = "linux")]
async fn exited(pid: u32) {
    use rustix::{
        io::Errno,
        process::{Pid, PidfdFlags, pidfd_open},
    };
    use tokio::io::{Interest, unix::AsyncFd};

    let pid = Pid::from_raw(pid as i32).unwrap();
    match pidfd_open(pid, PidfdFlags::NONBLOCK) {
        Ok(descriptor) => {
            // SAFETY: an `OwnedFd` is open and stays the same descriptor as long as it lives, and it moves in here.
            let descriptor =
                unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }.unwrap();
            descriptor.readable().await.unwrap().retain_ready();
        }
        Err(error) => assert_eq!(error, Errno::SRCH),
    }
}

#[cfg(not(target_os = "linux"))]
async fn exited(pid: u32) {
    poll_until("the process still runs", || alive(pid), |is_alive| !is_alive).await;
}

/// Waits until no process has the mark in its environment.
pub async fn until_no_mark(mark: &str) {
    let all_gone = async {
        while let Some(pid) = marked(mark).first() {
            exited(*pid).await;
        }
    };
    within(all_gone).await;
}

/// Returns the running processes that have the mark in their environment.
pub fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("EXEC_TEST_MARK={mark}\0");
    let has_mark = |pid: &u32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.windows(wanted.len()).any(|part| part == wanted.as_bytes()) && alive(*pid)
    };
    all_processes().filter(has_mark).collect()
}

pub fn all_processes() -> impl Iterator<Item = u32> {
    let names = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok())
}

/// Waits until none of the processes exists, not even as a zombie.
pub async fn until_reaped(pids: &[u32]) {
    let exists = |pid: &u32| Path::new(&format!("/proc/{pid}")).exists();
    let unreaped = || pids.iter().copied().filter(exists).collect::<Vec<_>>();
    poll_until("processes are not reaped", unreaped, Vec::is_empty).await;
}

/// Polls until `look` returns what is wanted. For changes that the kernel reports no event for: processes that are
/// reaped, started or blocked.
pub async fn poll_until<T: fmt::Debug>(
    complaint: &str,
    look: impl Fn() -> T,
    is_wanted: impl Fn(&T) -> bool,
) {
    let deadline = Instant::now() + PATIENCE;
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    loop {
        ticks.tick().await;
        let seen = look();
        if is_wanted(&seen) {
            return;
        }
        assert!(Instant::now() < deadline, "{complaint}: {seen:?}");
    }
}
