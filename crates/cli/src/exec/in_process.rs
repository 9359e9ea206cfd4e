//! A server within this process, and a client that is connected to it through channels instead of a pipe.

use std::path::PathBuf;

use codicil_client::{Client, ClientBuilder, ClientError, Endpoint, EventStream};
use codicil_config::ConfigStore;
use codicil_protocol::SessionSource;
use codicil_server::{ClusterDuty, Server, ServerSetup, connect};

use crate::{database::OwnServerArgs, version};

/// Creates the server. It opens the store, and does nothing else before the first request. The source of its
/// threads is `exec`.
pub async fn serve(config: ConfigStore, database: &OwnServerArgs, cwd: PathBuf) -> anyhow::Result<Server> {
    let store = database.open_store(&config).await?;
    let protocol = version::protocol_defaults(None, &config);
    let setup = ServerSetup { config, store, cwd, protocol, allow_unauthenticated: false };
    let server = Server::with_source(setup, SessionSource::Exec);
    server.join_cluster(ClusterDuty::OwnThreads);
    Ok(server)
}

/// Connects a client. Returns it with the stream of its notifications.
pub async fn client(server: &Server, builder: ClientBuilder) -> Result<(Client, EventStream), ClientError> {
    let (to_server, from_server) = connect(server).split();
    builder.connect_with_events(Endpoint::channels(to_server, from_server)).await
}
