//! `codicil app-server daemon` and `codicil app-server proxy`: one server per home, in the background.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, getpgid, getsid, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::text;

const HELLO: &str = r#"{"id":1,"method":"initialize","params":{"clientInfo":{"name":"x","version":"1"}}}"#;

/// A home whose daemon is stopped at the end of the test.
struct DaemonHome(TempDir);

impl DaemonHome {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn socket(&self) -> PathBuf {
        self.path().join("app-server-control/app-server-control.sock")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
        command.arg("app-server").args(arguments).env("CODICIL_HOME", self.path()).env_remove("RUST_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn daemon(&self, arguments: &[&str]) -> Output {
        self.command(&[&["daemon"], arguments].concat()).output().unwrap()
    }

    /// Runs a command that succeeds, and returns what it prints.
    fn report(&self, arguments: &[&str]) -> Value {
        report(&self.daemon(arguments))
    }

    /// Waits until the socket and its lock are gone.
    fn wait_until_ended(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.socket().exists() || self.socket().with_extension("sock.lock").exists() {
            assert!(Instant::now() < deadline, "the daemon ends in time");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for DaemonHome {
    fn drop(&mut self) {
        self.daemon(&["stop"]);
    }
}

fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn pid(report: &Value) -> Pid {
    Pid::from_raw(i32::try_from(report["pid"].as_i64().unwrap()).unwrap()).unwrap()
}

#[test]
fn a_daemon_is_started_found_and_stopped() {
    let home = DaemonHome::new();
    let none = home.daemon(&["status"]);
    assert_eq!(none.status.code(), Some(3));
    assert_eq!(serde_json::from_slice::<Value>(&none.stdout).unwrap()["status"], "notRunning");
    assert!(!home.daemon(&["version"]).status.success());

    let started = home.report(&["start"]);
    assert_eq!(started["status"], "started");
    assert_eq!(started["socketPath"], home.socket().to_str().unwrap());
    let lock = fs::read_to_string(home.socket().with_extension("sock.lock")).unwrap();
    assert_eq!(lock.trim(), started["pid"].to_string(), "the lock is the pid file");
    for command in ["status", "version"] {
        let found = home.report(&[command]);
        assert_eq!((&found["status"], &found["pid"]), (&"running".into(), &started["pid"]));
        assert_eq!(found["appServerVersion"], found["cliVersion"]);
    }
    let again = home.report(&["start"]);
    assert_eq!((&again["status"], &again["pid"]), (&"alreadyRunning".into(), &started["pid"]));

    assert_eq!(home.report(&["stop"])["status"], "stopped");
    assert!(!home.socket().exists());
    assert_eq!(home.report(&["stop"])["status"], "notRunning");
    let log = fs::read_to_string(started["logPath"].as_str().unwrap()).unwrap();
    assert!(log.contains("is listening") && log.contains("shutting down: SIGTERM"), "{log}");
}

#[test]
fn a_daemon_has_left_the_session_of_its_starter() {
    let home = DaemonHome::new();
    let started = home.report(&["start"]);
    let daemon = pid(&started);
    assert_eq!(getsid(Some(daemon)).unwrap(), daemon);
    assert_eq!(getpgid(Some(daemon)).unwrap(), daemon);
    #[cfg(target_os = "linux")]
    {
        let process = PathBuf::from(format!("/proc/{}", daemon.as_raw_nonzero()));
        for stream in ["fd/0", "fd/1"] {
            assert_eq!(fs::read_link(process.join(stream)).unwrap(), Path::new("/dev/null"), "{stream}");
        }
        let log = fs::canonicalize(started["logPath"].as_str().unwrap()).unwrap();
        assert_eq!(fs::read_link(process.join("fd/2")).unwrap(), log);
        assert_ne!(fs::read_link(process.join("cwd")).unwrap(), std::env::current_dir().unwrap());
    }
}

#[test]
fn starts_at_the_same_time_make_one_daemon() {
    let home = DaemonHome::new();
    let starting: Vec<_> = (0..4).map(|_| home.command(&["daemon", "start"]).spawn().unwrap()).collect();
    let reports: Vec<_> =
        starting.into_iter().map(|child| report(&child.wait_with_output().unwrap())).collect();
    let started = reports.iter().filter(|report| report["status"] == "started").count();
    assert_eq!(started, 1, "{reports:?}");
    assert!(reports.iter().all(|report| report["pid"] == reports[0]["pid"]), "{reports:?}");
}

#[test]
fn a_second_server_on_the_control_socket_is_refused() {
    let home = DaemonHome::new();
    home.report(&["start"]);
    let second = home.command(&["--listen", "unix://"]).output().unwrap();
    assert!(!second.status.success());
    assert!(text(&second.stderr).contains("another server is listening on"), "{}", text(&second.stderr));
    home.report(&["status"]);
}

#[test]
fn the_socket_of_a_killed_daemon_is_taken_over() {
    let home = DaemonHome::new();
    let killed = home.report(&["start"]);
    kill_process(pid(&killed), Signal::KILL).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while home.daemon(&["status"]).status.success() {
        assert!(Instant::now() < deadline, "the process ends in time");
    }
    assert!(home.socket().exists(), "a killed process removes nothing");
    let started = home.report(&["start"]);
    assert_eq!(started["status"], "started");
    assert_ne!(started["pid"], killed["pid"]);
}

#[test]
fn a_daemon_without_clients_ends() {
    let home = DaemonHome::new();
    home.report(&["start", "--idle-exit", "1"]);
    home.wait_until_ended();
    let log = fs::read_to_string(home.path().join("app-server-daemon/daemon.log")).unwrap();
    assert!(log.contains("idle for 1 seconds"), "{log}");
}

#[test]
fn a_daemon_that_cannot_start_tells_why() {
    let home = DaemonHome::new();
    fs::create_dir_all(home.socket()).unwrap();
    let failed = home.daemon(&["start"]);
    assert!(!failed.status.success());
    let error = text(&failed.stderr);
    assert!(error.contains("the daemon did not start") && error.contains("cannot listen on"), "{error}");
}

#[test]
fn the_proxy_joins_standard_input_and_output_to_the_daemon() {
    let home = DaemonHome::new();
    home.report(&["start"]);
    let mut proxy = home.command(&["proxy"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = proxy.stdin.take().unwrap();
    input.write_all(format!("{HELLO}\n{{\"id\":2,\"method\":\"thread/loaded/list\"}}").as_bytes()).unwrap();
    // The last line ends with the input.
    drop(input);
    let output = proxy.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let answers = text(&output.stdout);
    let lines: Vec<_> = answers.lines().collect();
    assert!(lines.iter().any(|line| line.contains(r#""userAgent""#)), "{answers}");
    assert!(lines.iter().any(|line| line.starts_with(r#"{"id":2,"result":{"data":[]"#)), "{answers}");
}

#[test]
fn the_proxy_ends_with_the_daemon() {
    let home = DaemonHome::new();
    home.report(&["start"]);
    let mut proxy = home.command(&["proxy"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = proxy.stdin.take().unwrap();
    input.write_all(format!("{HELLO}\n").as_bytes()).unwrap();
    home.report(&["stop"]);
    let output = proxy.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn the_proxy_needs_a_server() {
    let home = DaemonHome::new();
    let output = home.command(&["proxy"]).output().unwrap();
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("codicil app-server daemon start"), "{}", text(&output.stderr));
}
