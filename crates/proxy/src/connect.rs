//! From a destination to a connection.

use std::{io, net::SocketAddr, time::Duration};

use codicil_policy::{AddressReach, NetworkDestination, is_public};
use thiserror::Error;
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};

use crate::{GateDecision, HostGate};

/// How long a look-up, and each attempt to connect, may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// How many addresses of a host are tried.
const MOST_ADDRESSES: usize = 4;

/// Why there is no connection.
#[derive(Debug, Error)]
pub(crate) enum NoConnection {
    #[error("{0}")]
    Shut(String),
    #[error("{0} leads to an address that is not public")]
    NotPublic(String),
    #[error("{0} could not be looked up: {1}")]
    Unknown(String, io::Error),
    #[error("{0} could not be reached: {1}")]
    Unreachable(String, io::Error),
}

/// Asks the gate, and connects if it says so.
pub(crate) async fn reach(to: NetworkDestination, gate: &dyn HostGate) -> Result<TcpStream, NoConnection> {
    match gate.pass(to.clone()).await {
        GateDecision::Open(reach) => connect(&to, reach).await,
        GateDecision::Shut(why) => Err(NoConnection::Shut(why)),
    }
}

/// The name is looked up once: what was found suitable is what is connected to.
async fn connect(to: &NetworkDestination, reach: AddressReach) -> Result<TcpStream, NoConnection> {
    let name = to.host.to_string();
    let found = match look_up(to).await {
        Ok(found) => found,
        Err(error) => return Err(NoConnection::Unknown(name, error)),
    };
    let suitable = |address: &SocketAddr| reach == AddressReach::Anywhere || is_public(address.ip());
    let mut failure = None;
    for address in found.into_iter().filter(suitable).take(MOST_ADDRESSES) {
        match timeout(PATIENCE, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failure = Some(error),
            Err(_) => failure = Some(io::ErrorKind::TimedOut.into()),
        }
    }
    Err(match failure {
        Some(error) => NoConnection::Unreachable(name, error),
        None => NoConnection::NotPublic(name),
    })
}

async fn look_up(to: &NetworkDestination) -> io::Result<Vec<SocketAddr>> {
    if let Some(address) = to.host.address() {
        return Ok(vec![SocketAddr::new(address, to.port)]);
    }
    match timeout(PATIENCE, lookup_host((to.host.as_str(), to.port))).await {
        Ok(found) => Ok(found?.collect()),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}
