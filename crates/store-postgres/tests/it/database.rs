//! A PostgreSQL server of the tests: started from the programs of the system, with a unix socket in a temporary directory.
//!
//! PostgreSQL refuses to run as root. `setpriv` starts it as another user then, and in any case ends it with the thread that
//! started it, should the tests be killed.

use std::{
    fs,
    io::{BufRead, BufReader, Write, stderr},
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Weak, mpsc},
    thread,
};

use codicil_store_postgres::{
    DatabaseAddress, Epoch, LineBatch, NewThread, NodeIdentity, NodeLease, NodeSettings, PostgresStore,
    RowChange,
};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls, Row};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

/// The server that tests share as long as one of them needs it.
static SHARED: Mutex<Weak<TestPostgres>> = Mutex::new(Weak::new());

/// A running server.
pub struct TestPostgres {
    directory: TempDir,
    programs: PathBuf,
    user: Option<ServerUser>,
    process: Mutex<Option<Child>>,
}

/// The user that runs the server in place of root.
#[derive(Clone)]
struct ServerUser {
    uid: u32,
    gid: u32,
}

/// The tables of one test: a schema of the server's database, which is faster to create than a database.
pub struct TestDatabase {
    pub server: Arc<TestPostgres>,
    name: String,
}

/// A connection for what the store does not offer.
pub struct RawConnection {
    pub client: Client,
    _task: AbortOnDropHandle<()>,
}

impl TestPostgres {
    /// Returns the shared server. Prints that the test is skipped and returns `None` where PostgreSQL is missing.
    pub fn shared() -> Option<Arc<Self>> {
        let mut shared = SHARED.lock();
        if let Some(server) = shared.upgrade() {
            return Some(server);
        }
        let server = Arc::new(Self::start()?);
        *shared = Arc::downgrade(&server);
        Some(server)
    }

    /// Starts a server for one test.
    pub fn start() -> Option<Self> {
        let server = Self::prepare()?;
        server.start_process(&[]);
        Some(server)
    }

    /// Starts a server that accepts TLS on a port, with the certificate and key of the caller.
    pub fn start_tls(port: u16, certificate: &str, key: &str) -> Option<Self> {
        let server = Self::prepare()?;
        for (name, pem) in [("server.crt", certificate), ("server.key", key)] {
            let path = server.data().join(name);
            fs::write(&path, pem).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            if let Some(user) = &server.user {
                chown(&path, Some(user.uid), Some(user.gid)).unwrap();
            }
        }
        server.start_process(&["ssl=on", "listen_addresses=127.0.0.1", &format!("port={port}")]);
        Some(server)
    }

    /// Creates the files of a server.
    fn prepare() -> Option<Self> {
        let Some((programs, user)) = find_programs().zip(server_user()) else {
            skipped("initdb, postgres, setpriv or a user to run them is missing");
            return None;
        };
        let directory = tempfile::Builder::new().prefix("codicil-pg-").tempdir().unwrap();
        if let Some(user) = &user {
            chown(directory.path(), Some(user.uid), Some(user.gid)).unwrap();
        }
        let server = Self { directory, programs, user, process: Mutex::default() };
        let mut initdb = server.command("initdb");
        initdb.args(["--auth=trust", "--username=postgres", "--locale=C", "--encoding=UTF8", "--no-sync"]);
        let output = initdb.arg("-D").arg(server.data()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(server)
    }

    /// Kills the server like a crash of the machine would, and starts it again.
    pub fn crash_and_restart(&self) {
        self.stop();
        self.start_again();
    }

    /// Starts the server after [`stop`](Self::stop).
    pub fn start_again(&self) {
        self.start_process(&[]);
    }

    /// Stops the server at once, as a crash would.
    pub fn stop(&self) {
        if let Some(mut process) = self.process.lock().take() {
            // An immediate shutdown: no checkpoint, every connection is cut.
            let _ = kill_process(Pid::from_child(&process), Signal::QUIT);
            process.wait().unwrap();
        }
    }

    /// Starts the server and waits until it accepts connections.
    fn start_process(&self, more: &[&str]) {
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(self.directory.path());
        let settings = [
            "listen_addresses=",
            // Crashes of the server lose nothing that the kernel has.
            "fsync=off",
            "max_connections=60",
            "shared_buffers=16MB",
            "autovacuum=off",
        ];
        for setting in settings.iter().chain(more) {
            command.args(["-c", setting]);
        }
        command.stderr(Stdio::piped());
        let (sender, started) = mpsc::channel();
        // The thread reads the messages of the server until it ends. It also starts it, because the server ends with the
        // thread that has started it.
        thread::spawn(move || {
            let mut process = command.spawn().unwrap();
            let messages = BufReader::new(process.stderr.take().unwrap());
            let mut process = Some(process);
            for line in messages.lines().map_while(Result::ok) {
                if line.contains("ready to accept connections")
                    && let Some(process) = process.take()
                {
                    let _ = sender.send(process);
                }
            }
        });
        *self.process.lock() = Some(started.recv().expect("the server starts"));
    }

    /// Returns the command of a program, as the user of the server.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "QUIT"]);
        if let Some(ServerUser { uid, gid }) = &self.user {
            command.args(["--reuid", &uid.to_string(), "--regid", &gid.to_string(), "--clear-groups"]);
        }
        command.arg(self.programs.join(program));
        command.current_dir("/").env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub fn socket_directory(&self) -> &Path {
        self.directory.path()
    }

    fn address(&self) -> String {
        format!("host={} user=postgres dbname=postgres sslmode=disable", self.directory.path().display())
    }
}

impl Drop for TestPostgres {
    fn drop(&mut self) {
        self.stop();
    }
}

impl TestDatabase {
    /// Creates a schema on the shared server.
    pub async fn create() -> Option<Self> {
        Some(Self::create_on(TestPostgres::shared()?).await)
    }

    pub async fn create_on(server: Arc<TestPostgres>) -> Self {
        let name = format!("test_{}", Uuid::now_v7().simple());
        let raw = RawConnection::open(&server.address()).await;
        raw.run(&format!("create schema {name}")).await;
        Self { server, name }
    }

    pub fn address(&self) -> String {
        format!("{} {}", self.server.address(), self.options())
    }

    /// Returns the address through a proxy.
    pub fn address_at(&self, port: u16) -> String {
        let options = self.options();
        format!("host=127.0.0.1 port={port} user=postgres dbname=postgres sslmode=disable {options}")
    }

    fn options(&self) -> String {
        format!("application_name={0} options='-c search_path={0}'", self.name)
    }

    pub async fn open_store(&self) -> PostgresStore {
        open_store(&self.address()).await
    }

    pub async fn raw(&self) -> RawConnection {
        RawConnection::open(&self.address()).await
    }

    /// Waits until `count` connections of this test wait for a lock.
    pub async fn until_waiting(&self, count: i64) {
        let raw = self.raw().await;
        let sql = "select count(*) from pg_stat_activity
            where application_name = current_setting('application_name') and wait_event_type = 'Lock'";
        while raw.client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) < count {
            tokio::task::yield_now().await;
        }
    }

    /// Checks that nothing is wrong with the tables.
    pub async fn check(&self) {
        assert_eq!(self.open_store().await.find_violations().await.unwrap(), []);
    }
}

impl RawConnection {
    async fn open(address: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
        let task = tokio::spawn(async move { connection.await.unwrap_or_default() });
        Self { client, _task: AbortOnDropHandle::new(task) }
    }

    pub async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap();
    }

    pub async fn row(&self, sql: &str) -> Row {
        self.client.query_one(sql, &[]).await.unwrap()
    }
}

pub async fn open_store(address: &str) -> PostgresStore {
    PostgresStore::open(DatabaseAddress::parse(address).unwrap()).await.unwrap()
}

/// Registers a node whose lease does not end during a test.
pub async fn register(store: &PostgresStore, name: &str) -> NodeLease {
    NodeLease::register(store, node_settings(name, 600)).await.unwrap()
}

pub fn node_settings(name: &str, seconds: u64) -> NodeSettings {
    NodeSettings {
        name: name.to_owned(),
        url: format!("ws://{name}:1"),
        places: vec![name.to_owned()],
        ttl: std::time::Duration::from_secs(seconds),
    }
}

/// Lets the lease of a node end, as if it had not been renewed.
pub async fn expire(database: &TestDatabase, node: &NodeIdentity) {
    let sql =
        format!("update codicil_node set until = now() - interval '1 second' where run = '{}'", node.run);
    database.raw().await.run(&sql).await;
}

/// Returns a thread with one line.
pub fn new_thread() -> NewThread {
    NewThread {
        id: Uuid::now_v7(),
        parent: None,
        place: "a".to_owned(),
        created_at: 1_794_772_800,
        updated_at: 1_794_772_800,
        source_kind: "cli".to_owned(),
        model_provider: "mock".to_owned(),
        cwd: "/work".to_owned(),
        name: None,
        preview: None,
        details: "{}".to_owned(),
        facts: "{}".to_owned(),
        open_requests: 0,
        lines: b"{\"ordinal\":0}\n".to_vec(),
    }
}

/// Returns a batch with one line.
pub fn batch(thread: Uuid, epoch: Epoch, ordinal: u64) -> LineBatch {
    LineBatch {
        thread,
        epoch,
        ordinals: ordinal..ordinal + 1,
        lines: format!("{{\"ordinal\":{ordinal}}}\n").into_bytes(),
        change: RowChange::default(),
    }
}

/// Returns all lines of a thread as text.
pub async fn read_all(store: &PostgresStore, thread: Uuid) -> String {
    let mut text = Vec::new();
    let mut from = 0;
    loop {
        let page = store.read_lines(thread, from).await.unwrap();
        text.extend(page.lines);
        from = page.next;
        if !page.has_more {
            return String::from_utf8(text).unwrap();
        }
    }
}

/// Prints which test is skipped and why, past the test harness, which hides the output of tests that pass.
pub fn skipped(why: &str) {
    let thread = thread::current();
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("a test"));
    let _ = stderr().write_all(line.as_bytes());
}

/// Returns the directory with the newest programs.
fn find_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<PathBuf> = versions.flatten().map(|version| version.path().join("bin")).collect();
    found.retain(|programs| programs.join("initdb").is_file() && programs.join("postgres").is_file());
    found.sort();
    found.pop().filter(|_| Command::new("setpriv").arg("--version").output().is_ok())
}

/// Returns the user of the server: `Some(None)` if the tests do not run as root.
fn server_user() -> Option<Option<ServerUser>> {
    if !rustix::process::getuid().is_root() {
        return Some(None);
    }
    let passwd = fs::read_to_string("/etc/passwd").ok()?;
    let user = |name: &str| {
        let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut ids = line.split(':').skip(2).map_while(|id| id.parse().ok());
        Some(ServerUser { uid: ids.next()?, gid: ids.next()? })
    };
    user("postgres").or_else(|| user("nobody")).map(Some)
}
