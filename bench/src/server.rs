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

/// How long a server may trail behind its last answer before its use is read.
const SETTLE: Duration = Duration::from_millis(300);

/// A server to measure.
#[derive(Clone, Debug)]
pub struct Spec {
    pub name: String,
    pub binary: PathBuf,
}

impl FromStr for Spec {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, path) = text.split_once('=').ok_or_else(|| anyhow!("expected NAME=PATH"))?;
        let binary = PathBuf::from(path).canonicalize().with_context(|| format!("no binary at {path}"))?;
        Ok(Self { name: name.to_owned(), binary })
    }
}

/// What all cases share.
pub struct Bench {
    scratch: PathBuf,
    model_url: String,
    pub quick: bool,
    homes: AtomicUsize,
}

impl Bench {
    pub fn new(scratch: PathBuf, model_url: String, quick: bool) -> Self {
        Self { scratch, model_url, quick, homes: AtomicUsize::new(0) }
    }

    /// A size of the full run, or a tenth of it.
    pub fn size(&self, full: usize) -> usize {
        if self.quick { (full / 10).max(1) } else { full }
    }

    /// A new home with its `config.toml`.
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

    /// A directory of that name, shared by all servers.
    pub fn directory(&self, name: &str) -> Result<String> {
        let path = self.scratch.join(name);
        fs::create_dir_all(&path)?;
        path.into_os_string().into_string().map_err(|_| anyhow!("the scratch directory is not UTF-8"))
    }

    /// The directory in which threads work.
    pub fn workspace(&self) -> Result<String> {
        self.directory("work")
    }

    /// A server over stdio that has been greeted.
    pub async fn start(&self, spec: &Spec) -> Result<(Server, Wire)> {
        self.start_in(spec, &self.home()?).await
    }

    pub async fn start_in(&self, spec: &Spec, home: &Path) -> Result<(Server, Wire)> {
        let mut server = self.spawn(spec, home, &[])?;
        let mut wire = server.wire()?;
        wire.initialize().await?;
        Ok((server, wire))
    }

    /// It starts in the workspace, as an editor starts it: its own directory is writable for commands, and they
    /// must not be slower or faster by what happens to lie around the harness.
    fn spawn(&self, spec: &Spec, home: &Path, arguments: &[&str]) -> Result<Server> {
        let mut command = Command::new(&spec.binary);
        command.arg("app-server").args(arguments).current_dir(self.workspace()?);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.envs([("CODEX_HOME", home), ("HOME", home), ("TMPDIR", &home.join("tmp"))]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("{} does not start", spec.binary.display()))?;
        let pid = child.id().context("the server has ended")?;
        Ok(Server { child, pid })
    }

    /// A server that listens for websockets, and its port.
    pub async fn listen(&self, spec: &Spec) -> Result<(Server, u16)> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let server = self.spawn(spec, &self.home()?, &["--listen", &format!("ws://127.0.0.1:{port}")])?;
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            anyhow::ensure!(began.elapsed() < Duration::from_secs(20), "the server does not listen");
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
    /// Its standard streams; there is one such connection.
    pub fn wire(&mut self) -> Result<Wire> {
        let to = self.child.stdin.take().context("stdio is taken")?;
        let from = self.child.stdout.take().context("stdio is taken")?;
        Ok(Wire::stdio(to, from))
    }

    /// Memory in use, in KiB, once the server is quiet.
    pub async fn resident_kib(&self) -> Result<f64> {
        sleep(SETTLE).await;
        self.resident_kib_now()
    }

    pub fn resident_kib_now(&self) -> Result<f64> {
        meter::resident_kib(self.pid)
    }

    /// Processor time and disk writes so far, once the server is quiet.
    pub async fn used(&self) -> Result<Used> {
        sleep(SETTLE).await;
        Ok(Used { cpu_ms: meter::cpu_ms(self.pid)?, written: meter::written_bytes(self.pid)? })
    }

    /// Ends it in good order, so that what it stores is complete.
    pub async fn end(mut self, wire: Wire) -> Result<()> {
        drop(wire);
        if tokio::time::timeout(Duration::from_secs(10), self.child.wait()).await.is_err() {
            self.child.kill().await?;
        }
        Ok(())
    }
}

/// What a server has used.
pub struct Used {
    pub cpu_ms: f64,
    pub written: f64,
}
