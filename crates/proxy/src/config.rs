//! The network settings of a command's proxy, from the configuration, and the variables that announce the proxy to
//! programs.

use std::{net::SocketAddr, num::NonZeroU16};

use codicil_config::{NetworkMode, NetworkProxy};
use codicil_policy::{DomainPattern, DomainRules, HostName};
use thiserror::Error;

/// The names of the command's own loopback interface, which connections through the proxy do not lead to.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The hosts that a command may connect to without a question, and the requests that it may make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyConfig {
    pub domains: DomainRules,
    pub rules: ProxyRules,
    /// The ports that the configuration names.
    pub http_port: Option<NonZeroU16>,
    pub socks_port: Option<NonZeroU16>,
}

/// What the proxy serves, whatever the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyRules {
    pub methods: AllowedMethods,
    pub socks: SocksSupport,
}

/// Whether SOCKS connections are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SocksSupport {
    #[default]
    Served,
    Refused,
}

/// The requests that a command may make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllowedMethods {
    #[default]
    All,
    /// Requests that change nothing. Tunnels are refused, because the proxy cannot see what they carry.
    ReadOnly,
}

/// A pattern that cannot be parsed. It is not ignored, because then less could be denied than was configured.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cannot set up the network of commands: `{0}` is not a pattern of hosts")]
pub struct BadPattern(String);

impl ProxyConfig {
    /// Converts the proxy settings of the configuration.
    pub fn new(settings: &NetworkProxy) -> Result<Self, BadPattern> {
        let parse_all = |patterns: &Vec<String>| {
            let parse = |text: &String| DomainPattern::parse(text).ok_or_else(|| BadPattern(text.clone()));
            patterns.iter().map(parse).collect::<Result<Vec<_>, _>>()
        };
        let domains = DomainRules {
            allowed: parse_all(&settings.allowed)?,
            denied: parse_all(&settings.denied)?,
            is_complete: settings.is_complete,
            local: settings.local,
        };
        let methods = match settings.mode {
            NetworkMode::Full => AllowedMethods::All,
            NetworkMode::Limited => AllowedMethods::ReadOnly,
        };
        let socks = if settings.socks { SocksSupport::Served } else { SocksSupport::Refused };
        let rules = ProxyRules { methods, socks };
        Ok(Self { domains, rules, http_port: settings.http_port, socks_port: settings.socks_port })
    }

    /// Returns the variables that announce the proxy at these addresses to programs. A loopback name that the configuration
    /// allows means this machine instead of the command's own loopback interface, and goes through the proxy.
    pub fn environment(&self, http: SocketAddr, socks: SocketAddr) -> Vec<(&'static str, String)> {
        let is_proxied =
            |name: &str| HostName::parse(name).is_some_and(|host| self.domains.allows_by_name(&host));
        let socks = match self.rules.socks {
            SocksSupport::Served => format!("socks5h://{socks}"),
            SocksSupport::Refused => format!("http://{http}"),
        };
        proxy_variables(&format!("http://{http}"), &socks, is_proxied)
    }
}

/// Returns the variables for a proxy with these URLs, of which `other` is for all protocols except HTTP. Programs connect
/// to a loopback name directly unless `is_proxied` holds for it.
fn proxy_variables(
    http: &str,
    other: &str,
    is_proxied: impl Fn(&str) -> bool,
) -> Vec<(&'static str, String)> {
    let direct: Vec<_> = LOOPBACK_NAMES.into_iter().filter(|name| !is_proxied(name)).collect();
    let direct = direct.join(",");
    vec![
        ("HTTP_PROXY", http.to_owned()),
        ("http_proxy", http.to_owned()),
        ("HTTPS_PROXY", http.to_owned()),
        ("https_proxy", http.to_owned()),
        ("ALL_PROXY", other.to_owned()),
        ("all_proxy", other.to_owned()),
        ("NO_PROXY", direct.clone()),
        ("no_proxy", direct),
        // Node reads the variables above only with this one.
        ("NODE_USE_ENV_PROXY", "1".to_owned()),
        // Scripts look for this name, which is that of the reference server.
        ("CODEX_NETWORK_PROXY_ACTIVE", "1".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_names_bypass_the_proxy_unless_they_are_allowed() {
        let no_proxy = |allowed: &str| {
            let variables = proxy_variables("http://a:1", "http://a:1", |name| name == allowed);
            variables.into_iter().find(|(name, _)| *name == "NO_PROXY").unwrap().1
        };
        assert_eq!(no_proxy(""), "localhost,127.0.0.1,::1");
        assert_eq!(no_proxy("localhost"), "127.0.0.1,::1");
    }

    #[test]
    fn programs_are_pointed_at_the_ports_that_are_served() {
        let check = |socks: bool, expected: [&str; 2]| {
            let config = ProxyConfig::new(&NetworkProxy { socks, ..NetworkProxy::default() }).unwrap();
            let variables =
                config.environment("127.0.0.1:8080".parse().unwrap(), "127.0.0.1:1080".parse().unwrap());
            let found = ["HTTPS_PROXY", "all_proxy"]
                .map(|name| variables.iter().find(|(variable, _)| *variable == name).unwrap().1.as_str());
            assert_eq!(found, expected);
        };
        check(true, ["http://127.0.0.1:8080", "socks5h://127.0.0.1:1080"]);
        check(false, ["http://127.0.0.1:8080", "http://127.0.0.1:8080"]);
    }
}
