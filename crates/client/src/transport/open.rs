//! Opens a link to an endpoint.

use tokio::net::UnixStream;

use super::{MessageSink, MessageSource, TransportLink, child, stream, websocket};
use crate::{
    endpoint::{Endpoint, EndpointKind, OpenEnds, ServerAddress, shown},
    error::ClientError,
    options::ClientLimits,
};

pub async fn open(endpoint: Endpoint, limits: &ClientLimits) -> Result<TransportLink, ClientError> {
    match endpoint.0 {
        EndpointKind::Address(address) => dial(address, limits).await,
        EndpointKind::Open(OpenEnds::Lines { reader, writer }) => Ok(stream::link(reader, writer, limits)),
        EndpointKind::Open(OpenEnds::Channels { to_server, from_server }) => Ok(TransportLink {
            source: MessageSource::Channel { receiver: from_server, ready: None },
            sink: MessageSink::Channel(to_server),
        }),
    }
}

async fn dial(address: ServerAddress, limits: &ClientLimits) -> Result<TransportLink, ClientError> {
    match address {
        ServerAddress::Launch(launch) => {
            let failed = |error: codicil_exec::SpawnError| failure(launch.program(), error);
            child::spawn(&launch, limits).await.map_err(failed)
        }
        ServerAddress::WebSocket(socket) => {
            let failed = |reason: String| failure(shown(&socket.url), reason);
            websocket::connect(&socket, limits).await.map_err(failed)
        }
        ServerAddress::Unix(socket) => {
            let failed = |error: std::io::Error| failure(socket.0.display().to_string(), error);
            let (reader, writer) = UnixStream::connect(&socket.0).await.map_err(failed)?.into_split();
            Ok(stream::link(Box::new(reader), Box::new(writer), limits))
        }
    }
}

fn failure(to: String, reason: impl ToString) -> ClientError {
    ClientError::Connect { to, reason: reason.to_string() }
}
