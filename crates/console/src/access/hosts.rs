//! The names under which the console answers.
//!
//! A page of another site can make its own name point to this machine (DNS rebinding). So a request must name an
//! address, `localhost`, or a host of the configuration. Addresses cannot be rebound.

use std::net::IpAddr;

use axum::http::{HeaderMap, header};

/// The hosts that requests may name.
#[derive(Clone, Debug, Default)]
pub struct AllowedHosts {
    /// Host names beside addresses and `localhost`, without ports.
    pub names: Vec<String>,
}

impl AllowedHosts {
    /// Returns whether a `Host` header names the console.
    pub fn allows(&self, host: &str) -> bool {
        let name = without_port(host);
        let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        is_address
            || name == "localhost"
            || self.names.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
    }

    /// Returns whether the `Origin` of a request is the console itself, whose `Host` was checked before.
    pub fn is_same_origin(headers: &HeaderMap) -> bool {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let (Some(origin), Some(host)) = (text(header::ORIGIN), text(header::HOST)) else { return false };
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_sites_are_refused() {
        let hosts = AllowedHosts { names: vec!["console.example".to_owned()] };
        let check = |host: &str, expected: bool| assert_eq!(hosts.allows(host), expected, "{host}");
        check("127.0.0.1:4510", true);
        check("localhost:4510", true);
        check("localhost", true);
        check("[::1]:4510", true);
        check("[::1]", true);
        check("Console.Example", true);
        check("console.example:443", true);
        check("evil.example:4510", false);
        check("localhost.evil.example", false);
        check("127.0.0.1.evil.example:80", false);
        check("", false);
    }

    #[test]
    fn an_origin_must_be_the_host() {
        let check = |origin: Option<&str>, expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, "127.0.0.1:4510".parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            assert_eq!(AllowedHosts::is_same_origin(&headers), expected, "{origin:?}");
        };
        check(Some("http://127.0.0.1:4510"), true);
        check(Some("https://127.0.0.1:4510"), true);
        check(Some("http://127.0.0.1:4511"), false);
        check(Some("http://localhost:4510"), false);
        check(Some("null"), false);
        check(None, false);
    }
}
