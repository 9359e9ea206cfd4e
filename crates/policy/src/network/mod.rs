//! The hosts that commands want to connect to: names, addresses, and lists of patterns.

mod address;
mod domains;
mod host;

pub use {
    address::is_public,
    domains::{DomainPattern, DomainRules},
    host::HostName,
};
