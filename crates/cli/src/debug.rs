//! `codicil debug app-server send-message-v2`: runs one turn on a server within this process and prints every message of
//! the connection, `>` for what the client sends and `<` for what the server sends.

use std::{
    env,
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context;
use clap::{Args, Subcommand};
use codicil_client::{Client, Endpoint, turn};
use codicil_protocol::{ThreadStart, ThreadStartParams};
use codicil_server::{ClusterDuty, Server, ServerSetup, connect};
use tokio::sync::mpsc;
use tracing::level_filters::LevelFilter;

use crate::{args::OverrideArgs, database::OwnServerArgs, logging, version};

/// Messages that may wait in each direction.
const QUEUE: usize = 64;

#[derive(Debug, Args)]
pub struct DebugArgs {
    #[command(subcommand)]
    subject: DebugSubject,
    #[command(flatten)]
    database: OwnServerArgs,
}

#[derive(Debug, Subcommand)]
enum DebugSubject {
    /// Debug the app-server.
    AppServer(DebugServerArgs),
}

#[derive(Debug, Args)]
struct DebugServerArgs {
    #[command(subcommand)]
    action: DebugServerAction,
}

#[derive(Debug, Subcommand)]
enum DebugServerAction {
    /// Send a message to a new thread and print every message of the connection. Approvals are declined.
    #[command(name = "send-message-v2")]
    SendMessage {
        /// The user's message.
        message: String,
    },
}

pub fn run(overrides: &OverrideArgs, args: DebugArgs) -> anyhow::Result<ExitCode> {
    let DebugSubject::AppServer(DebugServerArgs { action: DebugServerAction::SendMessage { message } }) =
        args.subject;
    logging::init_at(LevelFilter::ERROR);
    let config = overrides.config_store()?;
    let cwd = env::current_dir().context("the current directory is gone")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        let server = Server::new(ServerSetup {
            protocol: version::protocol_defaults(None, &config),
            cwd,
            store: args.database.open_store(&config).await?,
            config,
            allow_unauthenticated: false,
        });
        server.join_cluster(ClusterDuty::OwnThreads);
        let result = send_message(&server, &message).await;
        server.stop().await;
        result
    });
    // Threads that still block end with the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    result.map(|()| ExitCode::SUCCESS)
}

/// Runs the turn. A turn that fails is an error.
async fn send_message(server: &Server, message: &str) -> anyhow::Result<()> {
    let (to_server, from_server) = connect(server).split();
    let (to_relay, from_client) = mpsc::channel(QUEUE);
    let (to_client, from_relay) = mpsc::channel(QUEUE);
    let relay = relay(from_client, to_server, from_server, to_client);
    let exchange = async {
        let builder = Client::builder().name("codicil_debug", env!("CARGO_PKG_VERSION")).turn_timeout(None);
        let client = builder.connect(Endpoint::channels(to_relay, from_relay)).await?;
        let thread = client.call::<ThreadStart>(ThreadStartParams::default()).await?.thread;
        client.run_turn(turn(&thread.id, message)).await?;
        client.close().await;
        anyhow::Ok(())
    };
    // The client's end closes the relay.
    let (exchanged, relayed) = tokio::join!(exchange, relay);
    exchanged?;
    Ok(relayed?)
}

/// Forwards messages in both directions and prints them, until the client has closed its end.
async fn relay<M: AsRef<[u8]>>(
    mut from_client: mpsc::Receiver<M>,
    to_server: mpsc::Sender<M>,
    mut from_server: mpsc::Receiver<M>,
    to_client: mpsc::Sender<M>,
) -> io::Result<()> {
    loop {
        let (mark, message, to) = tokio::select! {
            message = from_client.recv() => match message {
                Some(message) => (b"> ", message, &to_server),
                None => return Ok(()),
            },
            Some(message) = from_server.recv() => (b"< ", message, &to_client),
        };
        let line = [mark, message.as_ref(), b"\n"].concat();
        io::stdout().write_all(&line)?;
        // An end that is gone reads nothing more.
        let _ = to.send(message).await;
    }
}
