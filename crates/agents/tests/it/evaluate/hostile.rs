//! Servers as processes: a well-behaved one, and some that exit, hang, flood or send garbage.
//!
//! Each one is a shell script that speaks the protocol line by line, run as `sh app-server` in its own directory.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use codicil_agents::evaluate::{
    ClientConfig, EvaluateError, EvaluationCause, EvaluationPhase, Evaluator, ModelConfig, Prompt,
    STDERR_TAIL,
};
use tempfile::TempDir;

use super::soon;

/// The handshake, the thread and the start of the turn.
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

/// Creates a directory with a server script.
fn script(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("app-server"), text).unwrap();
    folder
}

fn config(folder: &TempDir) -> ClientConfig {
    ClientConfig {
        program: "sh".into(),
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

/// Evaluates with a short timeout and returns the error. On a loaded machine the timeout may pass before the turn has
/// started; then a longer one is tried.
async fn evaluate_past_the_turn(config: &ClientConfig) -> EvaluateError {
    for seconds in [4, 12] {
        let error = evaluate(config.clone(), Duration::from_secs(seconds)).await.unwrap_err();
        assert!(error.is_deadline(), "{error}");
        if error.failed().is_some_and(|failed| failed.turn_id.is_some()) {
            return error;
        }
    }
    evaluate(config.clone(), LONG).await.unwrap_err()
}

/// Waits until all processes that a script recorded have ended.
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

/// Returns whether a process is running. A zombie is not.
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
async fn a_server_that_exits_during_a_turn_is_an_error_with_its_stderr() {
    let folder = script(&format!("{OPENING}echo 'out of cheese' >&2; exit 3"));
    let error = evaluate(config(&folder), LONG).await.unwrap_err();
    assert_eq!(error.phase(), Some(EvaluationPhase::Request));
    assert_eq!(
        error.to_string(),
        "request: the server exited with code 3; last line of its standard error: out of cheese"
    );
    let failed = error.failed().unwrap();
    assert!(matches!(failed.cause, EvaluationCause::Client(_)));
    assert_eq!((&*failed.stderr_tail, failed.turn_id.as_deref()), ("out of cheese\n", Some("u")));
    all_gone(&folder).await;
}

#[tokio::test]
async fn a_server_that_exits_at_once_is_an_error_with_its_stderr() {
    let folder = script("echo $$ > pids; echo 'no home' >&2; exit 1");
    let error = evaluate(config(&folder), LONG).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "request: the server exited with code 1; last line of its standard error: no home"
    );
    assert_eq!(error.failed().unwrap().stderr_tail, "no home\n");
    all_gone(&folder).await;
}

#[tokio::test]
async fn a_server_that_hangs_past_the_deadline_is_killed_with_its_children() {
    let hang =
        "trap '' TERM INT HUP PIPE; sleep 1000 & echo $! >> pids\necho 'busy' >&2\nwhile :; do sleep 1; done";
    let folder = script(&format!("{OPENING}{hang}"));
    let error = evaluate_past_the_turn(&config(&folder)).await;
    let failed = error.failed().unwrap();
    assert_eq!((&*failed.stderr_tail, failed.turn_id.as_deref()), ("busy\n", Some("u")));
    all_gone(&folder).await;
}

#[tokio::test]
async fn a_silent_server_is_killed() {
    let folder = script("echo $$ >> pids; echo 'thinking' >&2; sleep 1000 & echo $! >> pids; wait");
    let config = ClientConfig { startup_timeout: Duration::from_secs(2), ..config(&folder) };
    let error = evaluate(config, LONG).await.unwrap_err();
    assert_eq!(error.to_string(), "request: initialize was not answered within 2s");
    assert_eq!(error.failed().unwrap().stderr_tail, "thinking\n");
    all_gone(&folder).await;
}

#[tokio::test]
async fn a_server_that_does_not_exit_after_its_answer_is_killed_and_the_answer_is_returned() {
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
async fn a_flood_of_events_does_not_postpone_the_deadline() {
    let delta = r#"{"method":"item/agentMessage/delta","params":{"threadId":"t","turnId":"u","itemId":"i","delta":"x"}}"#;
    let folder = script(&format!("{OPENING}while :; do echo '{delta}'; done"));
    let error = evaluate(config(&folder), Duration::from_secs(4)).await.unwrap_err();
    assert!(error.is_deadline(), "{error}");
    all_gone(&folder).await;
}

#[tokio::test]
async fn garbage_between_the_messages_is_skipped() {
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

/// Run by the next test in a separate process.
#[tokio::test]
#[ignore = "run by stderr_is_forwarded_when_it_is_not_suppressed"]
async fn forwards_stderr() {
    let folder = script(&format!("{OPENING}{ANSWER}\necho 'server output' >&2\nread -r rest"));
    let config = ClientConfig { suppress_stderr: false, ..config(&folder) };
    assert_eq!(evaluate(config, LONG).await.unwrap(), "echo");
}

#[test]
fn stderr_is_forwarded_when_it_is_not_suppressed() {
    let test = std::env::current_exe().unwrap();
    let output = Command::new(test)
        .args(["--exact", "evaluate::hostile::forwards_stderr", "--ignored", "--nocapture"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && shown.contains("server output"), "{shown}");
}
