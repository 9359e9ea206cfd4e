//! The servers of a run. A server that ends by itself is started again, as a service manager would do it.

use std::{fs, net::TcpListener, path::Path, time::Duration};

use codicil_testkit::{ServerProcess, TestHome};
use parking_lot::Mutex as SyncMutex;
use tokio::{
    sync::{Mutex, MutexGuard},
    time::sleep,
};

use crate::database::TestDatabase;

const NODES: usize = 3;
/// The time between two looks at a server that starts.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The lines of a log that a failure shows.
const SHOWN_LINES: usize = 80;

pub struct ChaosNodes {
    nodes: Vec<Mutex<ChaosNode>>,
    /// The addresses of the servers that listen.
    addresses: SyncMutex<Vec<Option<String>>>,
}

/// One server.
pub struct ChaosNode {
    number: usize,
    home: TestHome,
    arguments: Vec<String>,
    pub process: ServerProcess,
    /// What earlier processes have logged.
    earlier: String,
}

impl ChaosNodes {
    pub async fn start(database: &TestDatabase, model: &str, workspace: &Path, resumes: bool) -> Self {
        fs::create_dir_all(workspace.join("home")).unwrap();
        let mut nodes = Vec::new();
        for number in 0..NODES {
            let cut_off = if resumes { "resume" } else { "interrupt" };
            let config = format!(
                "approval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n[codicil]\n\
                 cut_off_turns = \"{cut_off}\"\n[codicil.store.places]\nwork = {workspace:?}\n"
            );
            let home = TestHome::new(&config, Some(model.to_owned()), "");
            // The address is announced to the other servers, so it is chosen before the server starts.
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let listen = format!("ws://127.0.0.1:{port}");
            let arguments: Vec<_> =
                ["app-server", "--listen", &listen, "--store", &database.address(), "--node"]
                    .map(str::to_owned)
                    .into_iter()
                    .chain([name(number)])
                    .collect();
            let process = spawn(&home, &arguments);
            nodes.push(ChaosNode { number, home, arguments, process, earlier: String::new() });
        }
        let started = Self {
            nodes: nodes.into_iter().map(Mutex::new).collect(),
            addresses: SyncMutex::new(vec![None; NODES]),
        };
        for number in 0..NODES {
            started.await_listening(&mut *started.nodes[number].lock().await).await;
        }
        started
    }

    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the address of a server, if it listens.
    pub fn address(&self, number: usize) -> Option<String> {
        self.addresses.lock()[number].clone()
    }

    /// Returns the number of the server with this name.
    pub fn number(&self, node: &str) -> Option<usize> {
        (0..self.count()).find(|number| name(*number) == node)
    }

    /// Takes a server to do something with it; `None` if something is being done.
    pub fn try_take(&self, number: usize) -> Option<MutexGuard<'_, ChaosNode>> {
        self.nodes[number].try_lock().ok()
    }

    /// Starts a server again that has ended or is about to.
    pub async fn restart(&self, node: &mut ChaosNode) {
        self.addresses.lock()[node.number] = None;
        node.process.wait().await;
        node.start_again();
        self.await_listening(node).await;
    }

    async fn await_listening(&self, node: &mut ChaosNode) {
        loop {
            let log = node.process.stderr();
            if let Some(address) = log.lines().find_map(|line| line.split_once("listening on: ws://")) {
                self.addresses.lock()[node.number] = Some(address.1.to_owned());
                return;
            }
            if node.process.has_ended() {
                // Without a database, a server does not start.
                node.start_again();
            }
            sleep(LOOK_EVERY).await;
        }
    }

    pub async fn stop(&self) {
        for node in &self.nodes {
            let mut node = node.lock().await;
            node.process.terminate();
            node.process.expect_success().await;
        }
    }

    /// Returns the last lines of all logs.
    pub fn logs(&self) -> String {
        let mut text = String::new();
        for node in &self.nodes {
            let Ok(node) = node.try_lock() else { continue };
            let log = format!("{}{}", node.earlier, node.process.stderr());
            let skipped = log.lines().count().saturating_sub(SHOWN_LINES);
            text += &format!("--- {}\n", name(node.number));
            log.lines().skip(skipped).for_each(|line| text += &format!("{line}\n"));
        }
        text
    }
}

impl ChaosNode {
    fn start_again(&mut self) {
        self.earlier += &self.process.stderr();
        self.process = spawn(&self.home, &self.arguments);
    }
}

fn name(number: usize) -> String {
    format!("node-{number}")
}

fn spawn(home: &TestHome, arguments: &[String]) -> ServerProcess {
    ServerProcess::spawn_with(home.path(), arguments, |command| {
        command.env("RUST_LOG", "info");
    })
}
