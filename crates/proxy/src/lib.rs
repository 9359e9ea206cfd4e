//! The proxy through which confined commands connect to the hosts that they are allowed to reach.
//!
//! A command behind a proxy has one port to connect to and no other network (see `codicil-sandbox`). A [`CommandProxy`]
//! serves that port: HTTP requests in absolute form, `CONNECT` tunnels, and SOCKS5. Each connection names its host, and a
//! [`HostGate`] decides whether it may be reached, possibly after asking the user. The name is then
//! looked up once, and the connection goes to an address of that look-up. Addresses of this machine and of private
//! networks are refused, unless the gate allows them ([`AddressReach`](codicil_policy::AddressReach)).
//!
//! | file | contents |
//! |---|---|
//! | `proxy.rs` | accepts connections, within a limit |
//! | `http.rs`, `request_head.rs`, `chunks.rs` | HTTP requests and tunnels |
//! | `socks.rs` | SOCKS5 |
//! | `connect.rs` | asks the gate, looks up names, connects |
//! | `config.rs` | settings from the configuration, and variables for programs |
//!
//! The HTTP side is written by hand on top of `httparse`. A general HTTP library would parse requests leniently and reuse
//! connections; here, a request that two parsers could read differently must be refused, and a connection must carry
//! exactly one request, so that the host that was decided about is the host that gets the bytes.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod proxy;

mod chunks;
mod http;
mod request_head;
mod socks;

mod config;
mod connect;

#[cfg(fuzzing)]
pub mod fuzzing;

pub use {
    config::{AllowedMethods, BadPattern, ProxyConfig, ProxyRules, SocksSupport},
    connect::{GateDecision, GateFuture, HostGate},
    proxy::CommandProxy,
};
