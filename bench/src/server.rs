//! The servers that are compared, each in a fresh home with the same configuration.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Stdio,
    str::FromStr,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use tokio::{
    net::TcpStream,
    process::{Child, Command},
    time::sleep,
};

use crate::{meter, wire::Wire};

/// Time after the last answer before usage is read, for work that the server still does.
const SETTLE: Duration = Duration::from_millis(300);

/// A server to measure.
#[derive(Clone, Debug)]
pub struct ServerSpec {
    pub name: String,
    pub binary: PathBuf,
    /// The database with its threads.
    pub store: Option<String>,
}

impl ServerSpec {
    /// Returns the same server with its threads in a database.
    pub fn over(&self, store: &str) -> Self {
        Self { store: Some(store.to_owned()), ..self.clone() }
    }
}

impl FromStr for ServerSpec {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, path) = text.split_once('=').ok_or_else(|| anyhow!("expected NAME=PATH"))?;
        let binary = PathBuf::from(path).canonicalize().with_context(|| format!("no binary at {path}"))?;
        Ok(Self { name: name.to_owned(), binary, store: None })
    }
}

/// State that all cases share.
pub struct Bench {
    scratch: PathBuf,
    model_url: String,
    pub quick: bool,
    /// The database for the cases of clusters.
    store: Option<String>,
    homes: AtomicUsize,
}

impl Bench {
    pub fn new(scratch: PathBuf, model_url: String, quick: bool, store: Option<String>) -> Self {
        Self { scratch, model_url, quick, store, homes: AtomicUsize::new(0) }
    }

    /// Returns the database for the cases of clusters.
    pub fn store(&self) -> Result<&str> {
        self.store.as_deref().context("this case needs --store URL")
    }

    /// Returns a size of the full run, or a tenth of it.
    pub fn size(&self, full: usize) -> usize {
        if self.quick { (full / 10).max(1) } else { full }
    }

    /// Creates a home with its `config.toml`.
    pub fn home(&self) -> Result<PathBuf> {
        let number = self.homes.fetch_add(1, Ordering::Relaxed);
        let home = self.scratch.join(format!("home-{number}"));
        fs::create_dir_all(home.join("tmp"))?;
        let url = &self.model_url;
        let config = format!(
            "model_provider = \"bench\"\napproval_policy = \"never\"\nsandbox_mode = \"workspace-write\"\n\n\
             [model_providers.bench]\nname = \"bench\"\nbase_url = \"{url}\"\nwire_api = \"responses\"\n\
             request_max_retries = 0\nstream_max_retries = 0\n"
        );
        fs::write(home.join("config.toml"), config)?;
        Ok(home)
    }

    /// Creates a directory that all servers share.
    pub fn directory(&self, name: &str) -> Result<String> {
        let path = self.scratch.join(name);
        fs::create_dir_all(&path)?;
        path.into_os_string().into_string().map_err(|_| anyhow!("the scratch directory is not UTF-8"))
    }

    /// Returns the working directory of threads.
    pub fn workspace(&self) -> Result<String> {
        self.directory("work")
    }

    /// Starts a server over stdio and initializes the connection.
    pub async fn start(&self, spec: &ServerSpec) -> Result<(Server, Wire)> {
        self.start_in(spec, &self.home()?).await
    }

    /// Starts a server over stdio whose connection is not initialized.
    pub fn spawn_plain(&self, spec: &ServerSpec) -> Result<Server> {
        self.spawn(spec, &self.home()?, &[])
    }

    pub async fn start_in(&self, spec: &ServerSpec, home: &Path) -> Result<(Server, Wire)> {
        let mut server = self.spawn(spec, home, &[])?;
        let mut wire = server.wire()?;
        wire.initialize().await?;
        Ok((server, wire))
    }

    /// Starts a server in the workspace, as an editor does. Its directory is writable for commands, so the
    /// speed must not depend on the files around the harness.
    fn spawn(&self, spec: &ServerSpec, home: &Path, arguments: &[&str]) -> Result<Server> {
        let mut command = Command::new(&spec.binary);
        command.arg("app-server").args(arguments).current_dir(self.workspace()?);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        if let Some(store) = &spec.store {
            command.env("CODICIL_STORE", store);
        }
        command.envs([("CODEX_HOME", home), ("HOME", home), ("TMPDIR", &home.join("tmp"))]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("cannot start {}", spec.binary.display()))?;
        let pid = child.id().context("the server has ended")?;
        Ok(Server { child, pid })
    }

    /// Starts a server that listens for websockets. Returns it with its port.
    pub async fn listen(&self, spec: &ServerSpec) -> Result<(Server, u16)> {
        self.listen_in(spec, &self.home()?).await
    }

    pub async fn listen_in(&self, spec: &ServerSpec, home: &Path) -> Result<(Server, u16)> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let server = self.spawn(spec, home, &["--listen", &format!("ws://127.0.0.1:{port}")])?;
        let started_at = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            anyhow::ensure!(started_at.elapsed() < Duration::from_secs(20), "the server does not listen");
            sleep(Duration::from_millis(20)).await;
        }
        Ok((server, port))
    }
}

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    pid: u32,
}

impl Server {
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the connection over the standard streams. There is only one.
    pub fn wire(&mut self) -> Result<Wire> {
        let to = self.child.stdin.take().context("stdio is taken")?;
        let from = self.child.stdout.take().context("stdio is taken")?;
        Ok(Wire::stdio(to, from))
    }

    /// Returns memory in use, in KiB, after the server is idle.
    pub async fn resident_kib(&self) -> Result<f64> {
        sleep(SETTLE).await;
        self.resident_kib_now()
    }

    pub fn resident_kib_now(&self) -> Result<f64> {
        meter::resident_kib(self.pid)
    }

    /// Returns processor time and disk writes so far, after the server is idle.
    pub async fn usage(&self) -> Result<ResourceUsage> {
        sleep(SETTLE).await;
        Ok(ResourceUsage { cpu_ms: meter::cpu_ms(self.pid)?, written: meter::written_bytes(self.pid)? })
    }

    /// Ends the server gracefully, so that its files are complete.
    pub async fn end(mut self, wire: Wire) -> Result<()> {
        drop(wire);
        if tokio::time::timeout(Duration::from_secs(10), self.child.wait()).await.is_err() {
            self.child.kill().await?;
        }
        Ok(())
    }
}

/// The resource usage of a server.
pub struct ResourceUsage {
    pub cpu_ms: f64,
    pub written: f64,
}
