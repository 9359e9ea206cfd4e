//! Serves SOCKS5 (RFC 1928): the `CONNECT` command only, and without authentication, because only the command itself can
//! connect to the port.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr},
};

use codicil_policy::{HostName, NetworkDestination};
use codicil_protocol::NetworkApprovalProtocol as Protocol;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::TcpStream,
    time::timeout,
};

use crate::{
    AllowedMethods, HostGate,
    connect::{ConnectError, reach},
    proxy::HEAD_TIME,
};

const VERSION: u8 = 5;
const CONNECT: u8 = 1;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;

/// Reply codes.
const SUCCEEDED: u8 = 0;
const NOT_ALLOWED: u8 = 2;
const HOST_UNREACHABLE: u8 = 4;
const REFUSED: u8 = 5;
const COMMAND_NOT_SUPPORTED: u8 = 7;
const ADDRESS_NOT_SUPPORTED: u8 = 8;

/// Serves one connection.
pub(crate) async fn serve(
    client: &mut TcpStream,
    gate: &dyn HostGate,
    methods: AllowedMethods,
) -> io::Result<()> {
    let requested = match timeout(HEAD_TIME, handshake(client)).await {
        Ok(requested) => requested?,
        Err(_) => return Ok(()),
    };
    let to = match requested {
        Some(Ok(_)) if methods == AllowedMethods::ReadOnly => return reply(client, NOT_ALLOWED).await,
        Some(Ok(to)) => to,
        Some(Err(code)) => return reply(client, code).await,
        None => return Ok(()),
    };
    match reach(to, gate).await {
        Ok(mut host) => {
            reply(client, SUCCEEDED).await?;
            copy_bidirectional(client, &mut host).await.map(|_| ())
        }
        Err(error) => {
            let code = match error {
                ConnectError::Denied(_) | ConnectError::NotPublic(_) => NOT_ALLOWED,
                ConnectError::LookUp(..) => HOST_UNREACHABLE,
                ConnectError::Unreachable(..) => REFUSED,
            };
            reply(client, code).await
        }
    }
}

/// Reads the greeting and the request. Returns the destination, or the code to refuse the request with, or `None` if the
/// client's version or authentication is not supported.
async fn handshake(client: &mut TcpStream) -> io::Result<Option<Result<NetworkDestination, u8>>> {
    let [_, count] = read::<2>(client).await?;
    let mut methods = vec![0; usize::from(count)];
    client.read_exact(&mut methods).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        client.write_all(&[VERSION, NO_METHOD]).await?;
        return Ok(None);
    }
    client.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let [version, command, _, kind] = read::<4>(client).await?;
    if version != VERSION {
        return Ok(None);
    }
    let host = match kind {
        1 => Ipv4Addr::from(read::<4>(client).await?).to_string(),
        4 => Ipv6Addr::from(read::<16>(client).await?).to_string(),
        3 => {
            let [length] = read::<1>(client).await?;
            let mut name = vec![0; usize::from(length)];
            client.read_exact(&mut name).await?;
            String::from_utf8_lossy(&name).into_owned()
        }
        _ => return Ok(Some(Err(ADDRESS_NOT_SUPPORTED))),
    };
    let port = u16::from_be_bytes(read::<2>(client).await?);
    Ok(Some(match (command, HostName::parse(&host)) {
        (CONNECT, Some(host)) => Ok(NetworkDestination { host, port, protocol: Protocol::Socks5Tcp }),
        (CONNECT, None) => Err(ADDRESS_NOT_SUPPORTED),
        _ => Err(COMMAND_NOT_SUPPORTED),
    }))
}

async fn read<const N: usize>(client: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Sends a reply. Its address is always 0.0.0.0:0, because no client uses it.
async fn reply(client: &mut TcpStream, code: u8) -> io::Result<()> {
    client.write_all(&[VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]).await
}
