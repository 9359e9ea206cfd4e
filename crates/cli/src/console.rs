//! `codicil console`: the server in a browser. Also the console of `codicil app-server --console` and of
//! `codicil demo --console`.

use std::{
    env,
    ffi::OsStr,
    fs::{self, OpenOptions},
    io::{self, Write},
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    str::FromStr,
};

use anyhow::{Context, bail};
use clap::Args;
use codicil_client::{InProcessServer, ServerAddress, WebSocket};
use codicil_config::{ConfigStore, HomeDirectory};
use codicil_console::{ConsoleOptions, ConsoleServer, SessionKey, SignIn};
use codicil_server::{ClusterDuty, Server, ServerSetup, connect};
use codicil_store::Store;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{args::OverrideArgs, database::OwnServerArgs, logging, shutdown::EndSignals, version};

/// The file in the home that `--open` gives to the browser.
const OPEN_FILE: &str = "console-open.html";

/// The file in the home with the key that signs sessions.
const KEY_FILE: &str = "console.key";

#[derive(Debug, Args)]
pub struct ConsoleArgs {
    /// Where browsers reach the console.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:4510")]
    listen: SocketAddr,
    /// Open the console in the browser.
    #[arg(long)]
    open: bool,
    /// Show the server at this address, ws:// or wss://, instead of one in this process.
    #[arg(long, value_name = "URL", conflicts_with_all = ["store", "node"])]
    connect: Option<String>,
    /// The file with the token that signs in, needed unless the console listens on loopback. With --connect it is also the
    /// token for that server.
    #[arg(long, value_name = "PATH")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    proxy: ConsoleProxyArgs,
    #[command(flatten)]
    database: OwnServerArgs,
}

/// How browsers reach a console through a proxy.
#[derive(Clone, Debug, Default, Args)]
pub struct ConsoleProxyArgs {
    /// A host name under which a proxy makes the console available. May be repeated.
    #[arg(long = "console-host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Browsers reach the console over TLS, through a proxy: cookies are restricted to TLS.
    #[arg(long = "console-tls")]
    tls: bool,
}

/// The value of `--console`: `http://IP:PORT`.
#[derive(Clone, Copy, Debug)]
pub struct ConsoleAddress(pub SocketAddr);

impl FromStr for ConsoleAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || format!("`{text}` is not an address of a console: use `http://IP:PORT`");
        let address = text.strip_prefix("http://").ok_or_else(invalid)?;
        address.trim_end_matches('/').parse().map(Self).map_err(|_| invalid())
    }
}

pub fn run(overrides: &OverrideArgs, args: ConsoleArgs) -> anyhow::Result<ExitCode> {
    logging::init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        let mut signals = EndSignals::listen().context("cannot listen for signals")?;
        match &args.connect {
            Some(url) => show_elsewhere(url, &args, &mut signals).await,
            None => show_own(overrides, &args, &mut signals).await,
        }
    });
    runtime.shutdown_background();
    result.map(|()| ExitCode::SUCCESS)
}

/// Shows a server elsewhere.
async fn show_elsewhere(url: &str, args: &ConsoleArgs, signals: &mut EndSignals) -> anyhow::Result<()> {
    let token = args.token_file.as_deref().map(read_token).transpose()?;
    let socket = WebSocket::new(url);
    let socket = match &token {
        Some(token) => socket.bearer(token),
        None => socket,
    };
    let home = HomeDirectory::from_env()?;
    home.ensure().context("cannot create the home")?;
    let options = console_options(args.listen, token, &args.proxy, home.path())?;
    let console = RunningConsole::start(socket.into(), options).await?;
    let home: &Path = home.path();
    console.announce(args.open.then_some(home))?;
    signals.received().await;
    console.stop().await
}

/// Runs a server and shows it.
async fn show_own(
    overrides: &OverrideArgs,
    args: &ConsoleArgs,
    signals: &mut EndSignals,
) -> anyhow::Result<()> {
    let config = overrides.config_store()?;
    codicil_config::remove_leftovers(config.home().path());
    let token = args.token_file.as_deref().map(read_token).transpose()?;
    let options = console_options(args.listen, token, &args.proxy, config.home().path())?;
    let config_home = config.home().path().to_path_buf();
    let store = args.database.open_store(&config).await?;
    let server = server(config, store)?;
    let shown =
        show_until_signal(&server, options, args.open.then_some(config_home.as_path()), signals).await;
    server.stop().await;
    shown
}

async fn show_until_signal(
    server: &Server,
    options: ConsoleOptions,
    open_from: Option<&Path>,
    signals: &mut EndSignals,
) -> anyhow::Result<()> {
    let console = RunningConsole::start(in_process(server), options).await?;
    console.announce(open_from)?;
    signals.received().await;
    console.stop().await
}

/// Creates a server for this process.
pub fn server(config: ConfigStore, store: Store) -> anyhow::Result<Server> {
    let server = Server::new(ServerSetup {
        protocol: version::protocol_defaults(None, &config),
        cwd: env::current_dir().context("the current directory is gone")?,
        store,
        config,
        allow_unauthenticated: false,
    });
    server.join_cluster(ClusterDuty::AllThreads);
    Ok(server)
}

/// Returns the address of a server in this process.
pub fn in_process(server: &Server) -> ServerAddress {
    let server = server.clone();
    InProcessServer::new(move || connect(&server).split()).into()
}

/// Returns the options of a console. One that others can reach needs a token.
pub fn console_options(
    listen: SocketAddr,
    token: Option<String>,
    proxy: &ConsoleProxyArgs,
    home: &Path,
) -> anyhow::Result<ConsoleOptions> {
    if !listen.ip().is_loopback() && token.is_none() {
        bail!(
            "refusing to show the console on {listen} without a token: anyone who reaches this address could run \
             commands as you. Give the file with the token (--token-file, with app-server --console-token-file), or \
             listen on 127.0.0.1"
        );
    }
    let key = SessionKey::at(&home.join(KEY_FILE))
        .context("cannot read or create the key of the console's sessions")?;
    Ok(ConsoleOptions {
        listen,
        sign_in: token.map_or(SignIn::Links, SignIn::Token),
        key,
        host_names: proxy.hosts.clone(),
        is_behind_tls: proxy.tls,
    })
}

/// Reads the token of a file.
pub fn read_token(path: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let token = text.trim();
    if token.len() < 16 {
        bail!("{} has no token of at least 16 characters", path.display());
    }
    Ok(token.to_owned())
}

/// A console and the task that serves it.
pub struct RunningConsole {
    link: String,
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<io::Result<()>>,
}

impl RunningConsole {
    pub async fn start(server: ServerAddress, options: ConsoleOptions) -> anyhow::Result<Self> {
        let console = ConsoleServer::start(server, options).await?;
        let link = console.sign_in_link()?;
        let address = console.address();
        let stop = CancellationToken::new();
        let task = tokio::spawn(console.serve(stop.clone()));
        Ok(Self { link, address, stop, task })
    }

    /// Returns the link that signs in, once.
    pub fn link(&self) -> &str {
        &self.link
    }

    /// Prints the link. With a home, opens the link in a browser.
    pub fn announce(&self, open_from: Option<&Path>) -> anyhow::Result<()> {
        let text =
            format!("The console is at {}\nThe link works once. Ctrl-C ends the console.\n", self.link);
        match io::stdout().write_all(text.as_bytes()) {
            // A program that reads only the link may have closed the pipe.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            written => written.context("cannot print the link")?,
        }
        self.warn_about_network();
        if let Some(home) = open_from {
            open_in_browser(&write_redirect(home, &self.link)?)?;
        }
        Ok(())
    }

    /// Says that a console on a network needs TLS in front.
    pub fn warn_about_network(&self) {
        if !self.address.ip().is_loopback() {
            eprintln!(
                "codicil: the console listens on {} without encryption. Everyone on the way can read the token and run \
                 commands as you. Put a proxy with TLS in front of it (docs/console.md).",
                self.address
            );
        }
    }

    pub async fn stop(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.task.await.context("the console has failed")?.context("the console has failed")
    }
}

/// Writes a page that leads to the link. Only its owner can read it, while everyone can read the arguments of a program.
fn write_redirect(home: &Path, link: &str) -> anyhow::Result<PathBuf> {
    let path = home.join(OPEN_FILE);
    let written = match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).and_then(|mut file| {
            write!(
                file,
                "<!doctype html><meta charset=utf-8><meta http-equiv=refresh content=\"0;url={link}\">"
            )
        }),
    };
    written.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn open_in_browser(page: &Path) -> anyhow::Result<()> {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let started = Command::new(OsStr::new(program))
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    // Not waited for: the browser may stay open longer than the console.
    started.map(drop).with_context(|| format!("cannot open a browser with {program}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_the_owner_can_read_the_page_that_signs_in() {
        let home = tempfile::tempdir().unwrap();
        for link in ["http://127.0.0.1:1/sign-in?token=a", "http://127.0.0.1:1/sign-in?token=b"] {
            let page = write_redirect(home.path(), link).unwrap();
            assert!(fs::read_to_string(&page).unwrap().contains(link));
            assert_eq!(fs::metadata(&page).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
