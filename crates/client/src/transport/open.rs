//! Opens a link to an endpoint.

use tokio::net::UnixStream;

use super::{Link, Sink, Source, child, stream, websocket};
use crate::{
    endpoint::{Address, Endpoint, Kind, Open, shown},
    error::ClientError,
    options::Limits,
};

pub async fn open(endpoint: Endpoint, limits: &Limits) -> Result<Link, ClientError> {
    match endpoint.0 {
        Kind::Address(address) => dial(address, limits).await,
        Kind::Open(Open::Lines { reader, writer }) => Ok(stream::link(reader, writer, limits)),
        Kind::Open(Open::Channels { to_server, from_server }) => Ok(Link {
            source: Source::Channel { receiver: from_server, ready: None },
            sink: Sink::Channel(to_server),
        }),
    }
}

async fn dial(address: Address, limits: &Limits) -> Result<Link, ClientError> {
    match address {
        Address::Launch(launch) => {
            let failed = |error: codicil_exec::SpawnError| failure(launch.program(), error);
            child::spawn(&launch, limits).await.map_err(failed)
        }
        Address::WebSocket(socket) => {
            let failed = |reason: String| failure(shown(&socket.url), reason);
            websocket::connect(&socket, limits).await.map_err(failed)
        }
        Address::Unix(socket) => {
            let failed = |error: std::io::Error| failure(socket.0.display().to_string(), error);
            let (reader, writer) = UnixStream::connect(&socket.0).await.map_err(failed)?.into_split();
            Ok(stream::link(Box::new(reader), Box::new(writer), limits))
        }
    }
}

fn failure(to: String, reason: impl ToString) -> ClientError {
    ClientError::Connect { to, reason: reason.to_string() }
}
