//! A server within this process, and a client that is connected to it through channels instead of a pipe.

use std::path::PathBuf;

use codicil_client::{Client, ClientBuilder, ClientError, Endpoint, EventStream};
use codicil_config::ConfigStore;
use codicil_protocol::SessionSource;
use codicil_server::{Server, ServerSetup, connect};
use codicil_store::Store;

use crate::version;

/// Creates the server. It opens the store, and does nothing else before the first request. The source of its
/// threads is `exec`.
pub fn serve(config: ConfigStore, cwd: PathBuf) -> anyhow::Result<Server> {
    let store = Store::open(config.home().path().to_path_buf())?;
    let protocol = version::protocol_defaults(None, &config);
    let setup = ServerSetup { config, store, cwd, protocol, allow_unauthenticated: false };
    Ok(Server::with_source(setup, SessionSource::Exec))
}

/// Connects a client. Returns it with the stream of its notifications.
pub async fn client(server: &Server, builder: ClientBuilder) -> Result<(Client, EventStream), ClientError> {
    let (to_server, from_server) = connect(server).split();
    builder.connect_with_events(Endpoint::channels(to_server, from_server)).await
}
