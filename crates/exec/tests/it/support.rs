//! Short ways to start commands and to look at what became of them.

use std::{
    env, fs,
    path::Path,
    time::{Duration, Instant},
};

use codicil_exec::{
    CaptureLimit, CapturedOutput, InputSource, Process, ProcessEnvironment, ProcessOutput, ProcessSpec,
};

/// Far more than anything here takes; only a failure waits that long.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn environment() -> ProcessEnvironment {
    let kept = ["PATH", "HOME", "TMPDIR"];
    env::vars_os().filter(|(name, _)| kept.iter().any(|kept| name == *kept)).collect()
}

/// A line for `sh`.
pub fn sh(line: &str) -> ProcessSpec {
    ProcessSpec::new(["sh", "-c", line], "/", environment())
}

pub fn with_stdin(spec: ProcessSpec) -> ProcessSpec {
    ProcessSpec { stdin: InputSource::Piped, ..spec }
}

pub async fn start(spec: ProcessSpec) -> Process {
    Process::spawn(spec).await.unwrap()
}

/// Runs to the end and keeps everything.
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

/// The process ids in a line of output.
pub fn pids(text: &str) -> Vec<u32> {
    let pids: Vec<u32> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(!pids.is_empty(), "{text:?}");
    pids
}

pub async fn within<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, wait).await.expect("it took too long")
}

/// Whether a process runs. One that has ended and was not waited for by its parent does not.
pub fn alive(pid: u32) -> bool {
    state(pid).is_some_and(|state| state != 'Z' && state != 'X')
}

fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Waits until none of the processes runs.
pub async fn until_dead(pids: &[u32]) {
    until("processes still run", || pids.iter().copied().filter(|pid| alive(*pid)).collect()).await;
}

/// Waits until none of the processes exists, not even as a zombie.
pub async fn until_reaped(pids: &[u32]) {
    let exists = |pid: &u32| Path::new(&format!("/proc/{pid}")).exists();
    until("processes were not reaped", || pids.iter().copied().filter(exists).collect()).await;
}

/// Waits until no process carries the mark in its environment.
pub async fn until_no_mark(mark: &str) {
    until("marked processes still run", || marked(mark)).await;
}

pub fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("EXEC_TEST_MARK={mark}\0");
    let carries = |pid: &u32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.windows(wanted.len()).any(|part| part == wanted.as_bytes()) && alive(*pid)
    };
    let names = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).filter(carries).collect()
}

async fn until(complaint: &str, left: impl Fn() -> Vec<u32>) {
    eventually(complaint, || match left() {
        left if left.is_empty() => Ok(()),
        left => Err(left),
    })
    .await;
}

/// Processes that come and go send nobody an event, so this one looks again and again.
pub async fn eventually<T>(complaint: &str, look: impl Fn() -> Result<T, Vec<u32>>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => assert!(Instant::now() < deadline, "{complaint}: {seen:?}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
