//! Fixtures: a pool in a temporary home, servers, and waiting with a deadline.

use std::{future::Future, path::PathBuf, sync::Arc, time::Duration};

use codicil_mcp::{
    ClientIdentity, McpCall, PoolOptions, ServerPool, ServerTable, StartupObserver, ThreadServers,
    ToolOutcome,
};
use codicil_protocol::{McpServerStartupState, McpServerStatusUpdatedNotification};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use toml::Table;

/// Time after which a test fails. Long, because test machines are busy.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Awaits a future; fails the test if it takes too long.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(MAX_WAIT, future).await.expect("nothing happened")
}

pub struct World {
    pub pool: ServerPool,
    pub home: Arc<tempfile::TempDir>,
}

/// Startup reports of one thread, in order.
pub struct Reports(mpsc::UnboundedReceiver<McpServerStatusUpdatedNotification>);

impl World {
    pub fn new() -> World {
        World::with_environment(&[])
    }

    /// A second program with the same home.
    pub fn in_home_of(other: &World) -> World {
        let home = other.home.clone();
        World { pool: ServerPool::new(PoolOptions::new(home.path(), identity())), home }
    }

    pub fn with_environment(variables: &[(&str, &str)]) -> World {
        let home = Arc::new(tempfile::tempdir().unwrap());
        let mut options = PoolOptions::new(home.path(), identity());
        options.environment.extend(variables.iter().map(|(name, value)| (name.into(), value.into())));
        World { pool: ServerPool::new(options), home }
    }

    pub fn join(&self, config: &str) -> (ThreadServers, Reports) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let observer: StartupObserver = Arc::new(move |report| {
            let _ = sender.send(report);
        });
        (self.pool.join(&table(config), observer), Reports(receiver))
    }

    /// A thread with one test server called `test`.
    pub async fn plain(&self) -> ThreadServers {
        let (servers, mut reports) = self.join(&server("test", "plain", ""));
        reports.until("test", McpServerStartupState::Ready).await;
        servers
    }
}

fn identity() -> ClientIdentity {
    ClientIdentity { name: "codicil-test".to_owned(), version: "1.2.3".to_owned() }
}

impl Reports {
    pub async fn next(&mut self) -> McpServerStatusUpdatedNotification {
        soon(self.0.recv()).await.expect("the thread is gone")
    }

    /// Returns whether every report has been read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub async fn until(
        &mut self,
        name: &str,
        status: McpServerStartupState,
    ) -> McpServerStatusUpdatedNotification {
        loop {
            let report = self.next().await;
            if report.name == name && report.status == status {
                return report;
            }
            assert!(report.name != name || report.status == McpServerStartupState::Starting, "{report:?}");
        }
    }
}

pub fn table(config: &str) -> ServerTable {
    let table: Table = config.parse().unwrap();
    let empty = Table::new();
    let servers = table.get("mcp_servers").map_or(&empty, |servers| servers.as_table().unwrap());
    ServerTable::of(servers.iter().map(|(name, server)| (name.as_str(), server.as_table().unwrap()))).unwrap()
}

pub fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_mcp-test-server"))
}

/// A table for the test server.
pub fn server(name: &str, mode: &str, more: &str) -> String {
    format!(
        "[mcp_servers.{name}]\ncommand = {:?}\nargs = [{mode:?}]\n{more}\n",
        program().display().to_string()
    )
}

pub fn call(tool: &str, arguments: Value) -> McpCall {
    McpCall { server: "test".to_owned(), tool: tool.to_owned(), arguments, ..McpCall::default() }
}

/// A call of the tool that never returns, and a signal that the server has received it.
pub fn hanging() -> (McpCall, Arc<Notify>) {
    let begun = Arc::new(Notify::new());
    let signal = begun.clone();
    let hang = McpCall { progress: Some(Arc::new(move |_| signal.notify_one())), ..call("hang", json!({})) };
    (hang, begun)
}

/// The text of the first part of a result.
pub fn text(outcome: &ToolOutcome) -> String {
    outcome.result.content[0]["text"].as_str().unwrap().to_owned()
}

pub async fn ask_for(servers: &ThreadServers, tool: &str) -> String {
    text(&soon(servers.call(call(tool, json!({})))).await.unwrap())
}

/// Waits until a process has exited.
#[cfg(target_os = "linux")]
pub async fn gone(pid: u32) {
    use rustix::{
        event::{PollFd, PollFlags, Timespec, poll},
        process::{Pid, PidfdFlags, pidfd_open},
    };

    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    // Fails for a process that has been reaped already.
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    let max_wait = Timespec::try_from(MAX_WAIT).unwrap();
    let exited = tokio::task::spawn_blocking(move || {
        poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&max_wait)).unwrap()
    });
    assert_eq!(exited.await.unwrap(), 1, "process {pid:?} still runs");
}

/// Other systems have no `/proc`, so the tests cannot observe processes there.
#[cfg(not(target_os = "linux"))]
pub async fn gone(_: u32) {}

/// Returns whether a process runs. A zombie does not.
pub fn is_alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z')
}
