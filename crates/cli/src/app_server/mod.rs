//! `codicil app-server`: serves clients until it is asked to end.

mod daemon;
mod generate;
mod proxy;

use std::{env, net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use codicil_config::{ConfigQuery, ConfigStore};
use codicil_protocol::ProtocolGeneration;
use codicil_sandbox::MachineProbe;
use codicil_server::{ListenAddress, Server, ServerSetup, WsAuth};
use codicil_telemetry::{ExportSettings, TraceExport};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::level_filters::LevelFilter;

use self::{
    daemon::{DaemonCommand, DetachedProcess},
    generate::GenerateCommand,
    proxy::ProxyArgs,
};
use crate::{
    args::OverrideArgs,
    console::{self, ConsoleAddress, ConsoleProxyArgs, RunningConsole},
    database::DatabaseArgs,
    logging,
    shutdown::{EndSignals, ParentProcess},
    version,
};

/// Tolerated difference between clocks when signed tokens are checked.
const DEFAULT_CLOCK_SKEW_SECONDS: u64 = 30;

/// The limit of open files to ask for where the hard limit is higher or missing.
const ENOUGH_DESCRIPTORS: u64 = 1 << 20;

/// The limit that some systems enforce whatever hard limit they report (`OPEN_MAX` of macOS).
const FALLBACK_DESCRIPTORS: u64 = 10_240;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AppServerArgs {
    #[command(subcommand)]
    command: Option<AppServerCommand>,
    /// Where to listen: stdio://, ws://IP:PORT, unix://PATH, or unix:// for the control socket of the home.
    #[arg(long, value_name = "URL", default_value = "stdio://")]
    listen: ListenAddress,
    /// Listen on standard input and output (the same as --listen stdio://).
    #[arg(long, conflicts_with = "listen")]
    stdio: bool,
    /// The generation of the protocol for clients that do not choose one: 0.118 or 0.166.
    #[arg(long, value_name = "GENERATION")]
    protocol: Option<ProtocolGeneration>,
    #[command(flatten)]
    auth: WsAuthArgs,
    #[command(flatten)]
    database: DatabaseArgs,
    /// Also show the server in browsers, at http://IP:PORT. The link is printed to standard error.
    #[arg(long, value_name = "URL")]
    console: Option<ConsoleAddress>,
    /// The file with the token that signs in to the console, needed unless it listens on loopback.
    #[arg(long, value_name = "PATH", requires = "console")]
    console_token_file: Option<PathBuf>,
    #[command(flatten)]
    console_proxy: ConsoleProxyArgs,
    /// Serve the numbers of the server to Prometheus at /metrics: at this address, or without one on the listener
    /// of the clients, with their authentication.
    #[arg(long, value_name = "IP:PORT", num_args = 0..=1)]
    metrics: Option<Option<SocketAddr>>,
    /// Accepted for clients that pass it. Codicil sends no analytics.
    #[arg(long, hide = true)]
    analytics_default_enabled: bool,
    /// End after this many seconds without a client and without work; 0 means never. For listeners.
    #[arg(long, value_name = "SECONDS", default_value_t = 0, hide_default_value = true)]
    idle_exit: u64,
    /// Leave the session and the directory of the starter, and write a line when ready. Used by `daemon start`.
    #[arg(long, hide = true)]
    detached: bool,
}

#[derive(Debug, Subcommand)]
enum AppServerCommand {
    #[command(flatten)]
    Generate(GenerateCommand),
    /// Manage the server of this home that runs in the background.
    #[command(subcommand)]
    Daemon(DaemonCommand),
    /// Join standard input and output to the server that listens on a unix socket.
    Proxy(ProxyArgs),
}

/// How websocket clients prove that they may connect.
#[derive(Debug, Args)]
struct WsAuthArgs {
    /// How websocket clients authenticate. They send `Authorization: Bearer TOKEN` with the handshake.
    #[arg(long, value_name = "MODE", value_enum)]
    ws_auth: Option<WsAuthMode>,
    /// The file with the token, for --ws-auth capability-token.
    #[arg(long, value_name = "PATH")]
    ws_token_file: Option<PathBuf>,
    /// The file with the secret (at least 32 bytes) that signs HS256 tokens, for --ws-auth
    /// signed-bearer-token.
    #[arg(long, value_name = "PATH")]
    ws_shared_secret_file: Option<PathBuf>,
    /// The issuer that signed tokens must name.
    #[arg(long, value_name = "ISSUER")]
    ws_issuer: Option<String>,
    /// The audience that signed tokens must name.
    #[arg(long, value_name = "AUDIENCE")]
    ws_audience: Option<String>,
    /// Tolerated difference between clocks when signed tokens are checked [default: 30].
    #[arg(long, value_name = "SECONDS")]
    ws_max_clock_skew_seconds: Option<u64>,
    /// Accept clients without authentication on a listener that is not on loopback, because something else
    /// protects it.
    #[arg(long)]
    ws_allow_unauthenticated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WsAuthMode {
    /// Clients that know the token.
    CapabilityToken,
    /// Clients with a token signed by the shared secret.
    SignedBearerToken,
}

pub fn run(overrides: &OverrideArgs, args: AppServerArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        Some(AppServerCommand::Generate(command)) => return generate::run(command),
        Some(AppServerCommand::Daemon(command)) => return daemon::run(overrides, &command),
        Some(AppServerCommand::Proxy(args)) => return proxy::run(args),
        None => {}
    }
    if args.idle_exit > 0 && args.listen == ListenAddress::Stdio {
        bail!("--idle-exit is for listeners; over stdio the server ends with its client");
    }
    if args.metrics == Some(None) && args.listen == ListenAddress::Stdio {
        bail!("--metrics needs an address over stdio, such as --metrics 127.0.0.1:9464");
    }
    let parent = ParentProcess::current();
    let detached = if args.detached { Some(DetachedProcess::begin()?) } else { None };
    let config = overrides.config_store()?;
    let traces = start_logging(if args.detached { LevelFilter::INFO } else { LevelFilter::WARN }, &config);
    raise_descriptor_limit();
    log_confinement();
    let auth = ws_auth(&args.auth)?;
    codicil_config::remove_leftovers(config.home().path());
    let cwd = match &detached {
        Some(detached) => detached.leave_directory()?,
        None => env::current_dir().context("the current directory is gone")?,
    };
    let console = match args.console {
        Some(ConsoleAddress(listen)) => {
            let token = args.console_token_file.as_deref().map(console::read_token).transpose()?;
            Some(console::console_options(listen, token, &args.console_proxy, config.home().path())?)
        }
        None => None,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let traces = traces.map(|traces| traces.start(runtime.handle()));
    let setup = ServerSetup {
        protocol: version::protocol_defaults(args.protocol, &config),
        cwd,
        store: runtime.block_on(args.database.open_store(&config, &args.listen))?,
        config,
        allow_unauthenticated: args.auth.ws_allow_unauthenticated,
    };
    let server = Server::new(setup);
    if let Some(detached) = detached {
        // Ends with the runtime.
        runtime.spawn(detached.announce(server.clone()));
    }
    if args.metrics == Some(None) {
        server.show_metrics();
    }
    let metrics = args.metrics.flatten();
    let life = ServerLife { listen: args.listen, auth, parent, idle_exit: args.idle_exit };
    let result = runtime.block_on(async {
        if let Some(address) = metrics {
            server.serve_metrics(address).await?;
        }
        let Some(options) = console else { return serve(server, life).await };
        let console = RunningConsole::start(console::in_process(&server), options).await?;
        // Standard output is for the protocol.
        eprintln!("codicil: the console is at {} (the link works once)", console.link());
        console.warn_about_network();
        let served = serve(server, life).await;
        console.stop().await.and(served)
    });
    if let Some(traces) = traces {
        runtime.block_on(traces.finish());
    }
    // A thread may still be blocked in a read of standard input; it ends with the process.
    runtime.shutdown_background();
    result.map(|()| ExitCode::SUCCESS)
}

/// Starts to log. Returns the export of traces, if there is one: that is read from the configuration without projects.
fn start_logging(level: LevelFilter, config: &ConfigStore) -> Option<TraceExport> {
    // A configuration that cannot be read is reported to clients. The variables apply all the same.
    let otel = config.load(&ConfigQuery::default()).map(|config| config.settings.otel.clone());
    let settings = ExportSettings::of_process(&otel.unwrap_or_default());
    let traces = settings.as_ref().ok().cloned().flatten().map(TraceExport::new);
    logging::init_with(level, traces.as_ref());
    if let Err(error) = settings {
        tracing::warn!("traces are not exported: {error}");
    }
    traces
}

/// Where the server listens, and what ends it beside signals.
struct ServerLife {
    listen: ListenAddress,
    auth: WsAuth,
    parent: ParentProcess,
    /// Seconds without clients and work; 0 means never.
    idle_exit: u64,
}

async fn serve(server: Server, life: ServerLife) -> anyhow::Result<()> {
    let ServerLife { listen, auth, parent, idle_exit } = life;
    let mut signals = EndSignals::listen().context("cannot listen for signals")?;
    let over_stdio = listen == ListenAddress::Stdio;
    let stop = async {
        tokio::select! {
            _ = signals.received() => {}
            () = parent.exited(), if over_stdio => {}
            () = server.idle(Duration::from_secs(idle_exit)), if idle_exit > 0 => {
                tracing::info!("shutting down: idle for {idle_exit} seconds");
            }
        }
    };
    let serving = server.serve(listen, auth);
    tokio::pin!(serving);
    tokio::select! {
        result = &mut serving => Ok(result?),
        () = stop => {
            server.begin_stop();
            Ok(serving.await?)
        }
    }
}

fn ws_auth(args: &WsAuthArgs) -> anyhow::Result<WsAuth> {
    let signed_only = [
        ("--ws-shared-secret-file", args.ws_shared_secret_file.is_some()),
        ("--ws-issuer", args.ws_issuer.is_some()),
        ("--ws-audience", args.ws_audience.is_some()),
        ("--ws-max-clock-skew-seconds", args.ws_max_clock_skew_seconds.is_some()),
    ];
    let first_given =
        |flags: &[(&'static str, bool)]| flags.iter().find(|(_, given)| *given).map(|(flag, _)| *flag);
    match args.ws_auth {
        None => match first_given(&[("--ws-token-file", args.ws_token_file.is_some())])
            .or(first_given(&signed_only))
        {
            Some(flag) => bail!("{flag} needs --ws-auth"),
            None => Ok(WsAuth::None),
        },
        Some(WsAuthMode::CapabilityToken) => {
            if let Some(flag) = first_given(&signed_only) {
                bail!("{flag} is for --ws-auth signed-bearer-token");
            }
            let file =
                args.ws_token_file.as_ref().context("--ws-auth capability-token needs --ws-token-file")?;
            Ok(WsAuth::capability(file)?)
        }
        Some(WsAuthMode::SignedBearerToken) => {
            if args.ws_token_file.is_some() {
                bail!("--ws-token-file is for --ws-auth capability-token");
            }
            let file = (args.ws_shared_secret_file.as_ref())
                .context("--ws-auth signed-bearer-token needs --ws-shared-secret-file")?;
            let skew = args.ws_max_clock_skew_seconds.unwrap_or(DEFAULT_CLOCK_SKEW_SECONDS);
            Ok(WsAuth::signed(file, args.ws_issuer.clone(), args.ws_audience.clone(), skew)?)
        }
    }
}

/// Logs how commands are confined, if that level is enabled: the probe starts processes. The thread ends by
/// itself.
fn log_confinement() {
    let log = || match MachineProbe::cached().kind() {
        Ok(_) => tracing::info!("commands are confined by {}", MachineProbe::cached().summary()),
        Err(_) => tracing::warn!("confinement of commands: {}", MachineProbe::cached().summary()),
    };
    if tracing::enabled!(tracing::Level::INFO) {
        // The server works without this log line.
        let _ = std::thread::Builder::new().name("probe".into()).spawn(log);
    }
}

/// Raises the soft limit of open files to the hard limit: clients, commands and MCP servers take several
/// each. Commands start with the original limit. A failure is ignored: the original limit is enough for fewer
/// clients.
fn raise_descriptor_limit() {
    let Rlimit { current: original, maximum } = getrlimit(Resource::Nofile);
    let Some(original) = original else { return };
    codicil_exec::set_command_file_limit(Rlimit { current: Some(original), maximum });
    for wanted in [maximum.unwrap_or(u64::MAX).min(ENOUGH_DESCRIPTORS), FALLBACK_DESCRIPTORS] {
        if wanted <= original {
            return;
        }
        if setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).is_ok() {
            tracing::info!("raised the limit of open files from {original} to {wanted}");
            return;
        }
    }
}
