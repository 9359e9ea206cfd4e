//! The proxy through which confined commands reach the hosts that they may.
//!
//! A command behind a proxy has one port to connect to, and no network besides (`codicil-sandbox`). Here is what
//! answers there: HTTP requests in their absolute form, `CONNECT` tunnels and SOCKS5. Each connection names its
//! host; a [`HostGate`] says whether it may be reached, and may take its time to ask somebody. The name is looked up
//! once, here, and the connection goes to an address of that look-up: a name that leads to this machine or its
//! networks leads nowhere, unless the gate says so ([`Reach`](codicil_policy::Reach)).
//!
//! | file | what |
//! |---|---|
//! | `proxy.rs` | accepting, within a ceiling |
//! | `http.rs`, `head.rs`, `chunks.rs`, `socks.rs` | the two protocols |
//! | `connect.rs` | from a name to a connection |
//! | `gate.rs` | who decides |
//! | `terms.rs` | what the configuration says |
//! | `environment.rs` | how programs learn of it |
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod chunks;
mod connect;
mod environment;
mod gate;
mod head;
mod http;
mod proxy;
mod socks;
mod terms;

pub use {
    gate::{AllowedMethods, GateDecision, GateFuture, HostGate},
    proxy::CommandProxy,
    terms::{BadPattern, ProxyConfig},
};
