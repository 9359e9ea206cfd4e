//! Hosts that commands want to reach: their names, their addresses, and lists of them.

mod address;
mod domains;
mod host;

pub use {
    address::is_public,
    domains::{DomainPattern, DomainRules},
    host::HostName,
};
