//! Asks a [`HostGate`] about a destination, looks up its name and connects.

use std::{io, net::SocketAddr, pin::Pin, time::Duration};

use codicil_policy::{AddressReach, NetworkDestination, is_public};
use thiserror::Error;
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};

/// How long a look-up, and each attempt to connect, may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// How many addresses of a host are tried.
const MAX_ADDRESSES: usize = 4;

/// Decides which hosts one command may connect to.
pub trait HostGate: Send + Sync + 'static {
    /// Decides about a destination before its name is looked up. The connection waits for the decision, even if the
    /// client disconnects meanwhile. The future is dropped with the proxy.
    fn decide(&self, to: NetworkDestination) -> GateFuture<'_>;
}

/// The future of a decision.
pub type GateFuture<'a> = Pin<Box<dyn Future<Output = GateDecision> + Send + 'a>>;

/// A decision about a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateDecision {
    Allowed(AddressReach),
    /// The reason, which the command sees.
    Denied(String),
}

/// Why a connection to a host could not be made.
#[derive(Debug, Error)]
pub(crate) enum ConnectError {
    #[error("{0}")]
    Denied(String),
    #[error("{0} has no public address")]
    NotPublic(String),
    #[error("{0} could not be looked up: {1}")]
    LookUp(String, io::Error),
    #[error("{0} could not be reached: {1}")]
    Unreachable(String, io::Error),
}

/// Asks the gate about a destination and connects if it allows that.
pub(crate) async fn reach(to: NetworkDestination, gate: &dyn HostGate) -> Result<TcpStream, ConnectError> {
    match gate.decide(to.clone()).await {
        GateDecision::Allowed(reach) => connect(&to, reach).await,
        GateDecision::Denied(reason) => Err(ConnectError::Denied(reason)),
    }
}

/// Looks the name up once and connects to one of the addresses found, so that the checked address is the one used.
async fn connect(to: &NetworkDestination, reach: AddressReach) -> Result<TcpStream, ConnectError> {
    let name = to.host.to_string();
    let found = match look_up(to).await {
        Ok(found) => found,
        Err(error) => return Err(ConnectError::LookUp(name, error)),
    };
    let is_reachable = |address: &SocketAddr| reach == AddressReach::Anywhere || is_public(address.ip());
    let mut last_error = None;
    for address in found.into_iter().filter(is_reachable).take(MAX_ADDRESSES) {
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last_error = Some(error),
            Err(_) => last_error = Some(io::ErrorKind::TimedOut.into()),
        }
    }
    Err(match last_error {
        Some(error) => ConnectError::Unreachable(name, error),
        None => ConnectError::NotPublic(name),
    })
}

async fn look_up(to: &NetworkDestination) -> io::Result<Vec<SocketAddr>> {
    if let Some(address) = to.host.address() {
        return Ok(vec![SocketAddr::new(address, to.port)]);
    }
    match timeout(CONNECT_TIMEOUT, lookup_host((to.host.as_str(), to.port))).await {
        Ok(found) => Ok(found?.collect()),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}
