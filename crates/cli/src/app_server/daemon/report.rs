//! The server that listens on the control socket, and the reports that `daemon` commands print about it.

use std::{
    io::{self, BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use serde::Serialize;
use serde_json::{Value, json};

use super::DaemonFiles;
use crate::version;

/// How long the server may take to answer `initialize`, which has its version.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// The server that listens on a socket, and a connection to it.
pub struct RunningServer {
    /// The id of the listening process, where the system reports it.
    pub pid: Option<i32>,
    pub version: Option<String>,
    _connection: UnixStream,
}

impl RunningServer {
    /// Returns the server that listens on `socket`, if there is one.
    pub fn find(socket: &Path) -> Option<Self> {
        let connection = UnixStream::connect(socket).ok()?;
        let pid = peer_pid(&connection);
        let version = ask_version(&connection).ok().flatten();
        Some(Self { pid, version, _connection: connection })
    }
}

#[cfg(target_os = "linux")]
fn peer_pid(connection: &UnixStream) -> Option<i32> {
    let peer = rustix::net::sockopt::socket_peercred(connection).ok()?;
    Some(peer.pid.as_raw_nonzero().get())
}

/// Reads the lock of the control socket, which holds the id of its owner.
#[cfg(not(target_os = "linux"))]
fn peer_pid(connection: &UnixStream) -> Option<i32> {
    let address = connection.peer_addr().ok()?;
    let mut lock = address.as_pathname()?.as_os_str().to_owned();
    lock.push(".lock");
    std::fs::read_to_string(lock).ok()?.trim().parse().ok()
}

/// Asks for the version in the user agent: `name/VERSION (…)`.
fn ask_version(connection: &UnixStream) -> io::Result<Option<String>> {
    connection.set_read_timeout(Some(ANSWER_TIME))?;
    connection.set_write_timeout(Some(ANSWER_TIME))?;
    let client = json!({ "name": "codicil-daemon", "version": env!("CARGO_PKG_VERSION") });
    let request = json!({ "id": 0, "method": "initialize", "params": { "clientInfo": client } });
    let mut writer = connection;
    writer.write_all(format!("{request}\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(connection).read_line(&mut line)?;
    let answer: Value = serde_json::from_str(&line)?;
    let user_agent = answer.pointer("/result/userAgent").and_then(Value::as_str).unwrap_or_default();
    let version = user_agent.split_once('/').and_then(|(_, rest)| rest.split_whitespace().next());
    Ok(version.map(str::to_owned))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DaemonStatus {
    Started,
    AlreadyRunning,
    Running,
    Stopped,
    NotRunning,
}

/// The output of the commands. Members have the names of the reference's.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonReport {
    status: DaemonStatus,
    /// How the process is identified: always by its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    socket_path: PathBuf,
    log_path: PathBuf,
    cli_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    app_server_version: Option<String>,
}

impl DaemonReport {
    pub fn new(status: DaemonStatus, files: &DaemonFiles, running: Option<&RunningServer>) -> Self {
        Self {
            status,
            backend: running.map(|_| "pid"),
            pid: running.and_then(|running| running.pid),
            socket_path: files.socket.clone(),
            log_path: files.log.clone(),
            cli_version: version::protocol(),
            app_server_version: running.and_then(|running| running.version.clone()),
        }
    }

    pub fn print(&self) -> anyhow::Result<ExitCode> {
        println!("{}", serde_json::to_string(self)?);
        Ok(ExitCode::SUCCESS)
    }
}
