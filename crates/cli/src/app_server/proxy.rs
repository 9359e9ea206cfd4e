//! `codicil app-server proxy`: joins standard input and output to the server that listens on a unix socket.
//!
//! Bytes pass through unchanged, so a client may write lines or begin with a websocket upgrade. The end of standard input
//! becomes the end of the connection's input; the proxy ends when the server has sent everything and closes.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::Args;
use tokio::{
    io::{self, AsyncWriteExt},
    net::UnixStream,
};

use crate::shutdown::{EndSignals, ParentProcess};

#[derive(Debug, Args)]
pub struct ProxyArgs {
    /// The socket to connect to [default: the control socket of the home].
    #[arg(long, value_name = "PATH")]
    sock: Option<PathBuf>,
}

pub fn run(args: ProxyArgs) -> anyhow::Result<ExitCode> {
    let parent = ParentProcess::current();
    let socket = match args.sock {
        Some(path) => path,
        None => super::daemon::control_socket_of_home()?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let result = runtime.block_on(join_to(&socket, parent));
    // A thread may still be blocked in a read of standard input; it ends with the process.
    runtime.shutdown_background();
    result.map(|()| ExitCode::SUCCESS)
}

async fn join_to(socket: &Path, parent: ParentProcess) -> anyhow::Result<()> {
    let stream = UnixStream::connect(socket).await.with_context(|| {
        let path = socket.display();
        format!("cannot connect to {path}; `codicil app-server daemon start` starts a server there")
    })?;
    let mut signals = EndSignals::listen().context("cannot listen for signals")?;
    tokio::select! {
        result = pass_bytes(stream) => result.context("the connection failed"),
        _ = signals.received() => Ok(()),
        () = parent.exited() => Ok(()),
    }
}

/// Passes bytes in both directions until the server closes the connection or the client stops reading.
async fn pass_bytes(stream: UnixStream) -> io::Result<()> {
    let (mut from_server, mut to_server) = stream.into_split();
    let forward = async {
        // Fails if the server has closed; what it has sent still arrives.
        let _ = io::copy(&mut io::stdin(), &mut to_server).await;
        let _ = to_server.shutdown().await;
        std::future::pending::<()>().await
    };
    let backward = async {
        let mut stdout = io::stdout();
        match io::copy(&mut from_server, &mut stdout).await {
            Ok(_) => stdout.flush().await,
            // The client has gone.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            // The server has ended and left a message of the client unread.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => stdout.flush().await,
            Err(error) => Err(error),
        }
    };
    tokio::select! {
        result = backward => result,
        () = forward => Ok(()),
    }
}
