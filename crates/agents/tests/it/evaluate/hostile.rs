//! Servers as processes: one that behaves, and some that die, hang, flood or talk nonsense.
//!
//! Each is a shell script that speaks the protocol line by line. `sh app-server` runs it, in its own directory.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use codicil_agents::evaluate::{
    ClientConfig, EvaluateError, EvaluationCause, EvaluationPhase, Evaluator, ModelConfig, Prompt,
    STDERR_TAIL,
};
use tempfile::TempDir;

use super::soon;

/// The handshake, the thread and the turn, up to where it runs.
const OPENING: &str = r#"
echo $$ >> pids
read -r hello; printf '%s\n' "$hello" >> log
echo '{"id":0,"result":{"userAgent":"mock"}}'
read -r initialized; printf '%s\n' "$initialized" >> log
read -r thread; printf '%s\n' "$thread" >> log
echo '{"id":1,"result":{"thread":{"id":"t"}}}'
read -r turn; printf '%s\n' "$turn" >> log
echo '{"id":2,"result":{"turn":{"id":"u","items":[],"status":"inProgress"}}}'
"#;

const ANSWER: &str = r#"
echo '{"method":"item/completed","params":{"threadId":"t","turnId":"u","item":{"type":"agentMessage","id":"i","text":"echo"}}}'
echo '{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","items":[],"status":"completed"}}}'
"#;

/// A directory with a server in it.
fn script(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("app-server"), text).unwrap();
    folder
}

fn config(folder: &TempDir) -> ClientConfig {
    ClientConfig {
        codex_bin: "sh".into(),
        cwd: Some(folder.path().canonicalize().unwrap()),
        stop_timeout: Duration::from_millis(300),
        ..ClientConfig::default()
    }
}

async fn evaluate(config: ClientConfig, timeout: Duration) -> Result<String, EvaluateError> {
    let evaluator = Evaluator::new(config, ModelConfig::default()).unwrap();
    let prompt = Prompt::text("Hi");
    let answer = soon(evaluator.evaluate(&prompt).timeout(timeout).text()).await;
    answer.map(|answer| answer.text)
}

/// Waits until none of the processes that a script noted is left.
async fn all_gone(folder: &TempDir) {
    let pids = std::fs::read_to_string(folder.path().join("pids")).unwrap();
    let pids: Vec<i32> = pids.lines().map(|pid| pid.trim().parse().unwrap()).collect();
    assert!(!pids.is_empty());
    soon(async {
        while pids.iter().any(|pid| is_alive(*pid)) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Whether a process runs. One that has ended and only waits to be noticed by its parent does not.
fn is_alive(pid: i32) -> bool {
    if Path::new("/proc/self/stat").exists() {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        return state.is_some_and(|state| !"ZXx".contains(state));
    }
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::test_kill_process(pid).is_ok()
}

const LONG: Duration = Duration::from_secs(50);

/// Unit test: a mock server, lines over standard input and output.
#[tokio::test]
async fn mock_server_over_stdio() {
    let folder = script(&format!("{OPENING}{ANSWER}\nread -r rest"));
    assert_eq!(evaluate(config(&folder), LONG).await.unwrap(), "echo");
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    let methods: Vec<String> = log
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["method"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(methods, ["initialize", "initialized", "thread/start", "turn/start"]);
    all_gone(&folder).await;
}

#[tokio::test]
async fn a_server_that_dies_in_the_middle_of_a_turn_is_an_error_with_its_last_words() {
    let folder = script(&format!("{OPENING}echo 'out of cheese' >&2; exit 3"));
    let error = evaluate(config(&folder), LONG).await.unwrap_err();
    assert_eq!(error.phase(), Some(EvaluationPhase::Request));
    assert_eq!(error.to_string(), "request: the server exited with code 3; its last words: out of cheese");
    let failed = error.failed().unwrap();
    assert!(matches!(failed.cause, EvaluationCause::Client(_)));
    assert_eq!((&*failed.stderr_tail, failed.turn_id.as_deref()), ("out of cheese\n", Some("u")));
    all_gone(&folder).await;
}

#[tokio::test]
async fn a_server_that_dies_at_once_is_an_error_with_its_last_words() {
    let folder = script("echo $$ > pids; echo 'no home' >&2; exit 1");
    let error = evaluate(config(&folder), LONG).await.unwrap_err();
    assert_eq!(error.to_string(), "request: the server exited with code 1; its last words: no home");
    assert_eq!(error.failed().unwrap().stderr_tail, "no home\n");
    all_gone(&folder).await;
}

#[tokio::test]
async fn a_server_that_hangs_past_the_deadline_is_killed_with_all_that_it_started() {
    let hang =
        "trap '' TERM INT HUP PIPE; sleep 1000 & echo $! >> pids\necho 'busy' >&2\nwhile :; do sleep 1; done";
    let folder = script(&format!("{OPENING}{hang}"));
    let began = Instant::now();
    let error = evaluate(config(&folder), Duration::from_secs(6)).await.unwrap_err();
    assert!(error.is_deadline(), "{error}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let failed = error.failed().unwrap();
    assert_eq!((&*failed.stderr_tail, failed.turn_id.as_deref()), ("busy\n", Some("u")));
    all_gone(&folder).await;
}

#[tokio::test]
async fn a_server_that_never_greets_is_killed() {
    let folder = script("echo $$ >> pids; echo 'thinking' >&2; sleep 1000 & echo $! >> pids; wait");
    let config = ClientConfig { startup_timeout: Duration::from_secs(2), ..config(&folder) };
    let error = evaluate(config, LONG).await.unwrap_err();
    assert_eq!(error.to_string(), "request: initialize was not answered within 2s");
    assert_eq!(error.failed().unwrap().stderr_tail, "thinking\n");
    all_gone(&folder).await;
}

#[tokio::test]
async fn a_server_that_does_not_end_after_its_answer_is_killed_and_the_answer_counts() {
    let folder = script(&format!("{OPENING}{ANSWER}\ntrap '' TERM HUP\nwhile :; do sleep 1; done"));
    assert_eq!(evaluate(config(&folder), LONG).await.unwrap(), "echo");
    all_gone(&folder).await;
}

#[tokio::test]
async fn a_flood_on_standard_error_leaves_a_bounded_tail() {
    let flood = "i=0; while [ $i -lt 2000 ]; do echo \"$i ................................................\" >&2; i=$((i+1)); done; exit 1";
    let folder = script(&format!("{OPENING}{flood}"));
    let error = evaluate(config(&folder), LONG).await.unwrap_err();
    let tail = &error.failed().unwrap().stderr_tail;
    assert!(tail.len() <= STDERR_TAIL && tail.contains("\n1999 ..."), "{}", tail.len());
}

#[tokio::test]
async fn a_flood_of_events_does_not_put_off_the_deadline() {
    let delta = r#"{"method":"item/agentMessage/delta","params":{"threadId":"t","turnId":"u","itemId":"i","delta":"x"}}"#;
    let folder = script(&format!("{OPENING}while :; do echo '{delta}'; done"));
    let began = Instant::now();
    let error = evaluate(config(&folder), Duration::from_secs(4)).await.unwrap_err();
    assert!(error.is_deadline(), "{error}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    all_gone(&folder).await;
}

#[tokio::test]
async fn nonsense_between_the_messages_is_survived() {
    let nonsense = r#"
echo 'hello, world'
echo '{"method":"item/completed","params":{"threadId":"t","turnId":"u","item":{"type":"fromTheFuture","id":"x"}}}'
echo '{"method":"codex/event/task_complete","params":{}}'
echo '{"method":"item/completed","params":7}'
echo '{"id":77,"result":{}}'
"#;
    let folder = script(&format!("{OPENING}{nonsense}{ANSWER}\nread -r rest"));
    assert_eq!(evaluate(config(&folder), LONG).await.unwrap(), "echo");
}

/// The other half of the next test, which runs it in a process of its own.
#[tokio::test]
#[ignore = "run by stderr_is_shown_when_it_is_not_suppressed"]
async fn shows_stderr() {
    let folder = script(&format!("{OPENING}{ANSWER}\necho 'words of the server' >&2\nread -r rest"));
    let config = ClientConfig { suppress_stderr: false, ..config(&folder) };
    assert_eq!(evaluate(config, LONG).await.unwrap(), "echo");
}

#[test]
fn stderr_is_shown_when_it_is_not_suppressed() {
    let test = std::env::current_exe().unwrap();
    let output = Command::new(test)
        .args(["--exact", "evaluate::hostile::shows_stderr", "--ignored", "--nocapture"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && shown.contains("words of the server"), "{shown}");
}
