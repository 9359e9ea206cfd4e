//! The network settings of a command's proxy, from the configuration, and the variables that announce the proxy to
//! programs.

use std::net::SocketAddr;

use codicil_config::{NetworkMode, NetworkProxy};
use codicil_policy::{DomainPattern, DomainRules, HostName};
use thiserror::Error;

/// The names of the command's own loopback interface, which connections through the proxy do not lead to.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The hosts that a command may connect to without a question, and the requests that it may make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyConfig {
    pub domains: DomainRules,
    pub methods: AllowedMethods,
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
#[error("the network of commands is not set up: `{0}` is not a pattern of hosts")]
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
        Ok(Self { domains, methods })
    }

    /// Returns the variables that announce the proxy at `proxy` to programs. A loopback name that the configuration
    /// allows means this machine instead of the command's own loopback interface, and goes through the proxy.
    pub fn environment(&self, proxy: SocketAddr) -> Vec<(&'static str, String)> {
        let is_named = |name: &str| HostName::parse(name).is_some_and(|host| self.domains.names(&host));
        proxy_variables(proxy, is_named)
    }
}

/// Returns the variables for a proxy. Loopback names for which `is_proxied` holds are not excluded from it.
fn proxy_variables(proxy: SocketAddr, is_proxied: impl Fn(&str) -> bool) -> Vec<(&'static str, String)> {
    let http = format!("http://{proxy}");
    let socks = format!("socks5h://{proxy}");
    let direct: Vec<_> = LOOPBACK_NAMES.into_iter().filter(|name| !is_proxied(name)).collect();
    let direct = direct.join(",");
    vec![
        ("HTTP_PROXY", http.clone()),
        ("http_proxy", http.clone()),
        ("HTTPS_PROXY", http.clone()),
        ("https_proxy", http),
        ("ALL_PROXY", socks.clone()),
        ("all_proxy", socks),
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
            let variables = proxy_variables("127.0.0.1:3128".parse().unwrap(), |name| name == allowed);
            variables.into_iter().find(|(name, _)| *name == "NO_PROXY").unwrap().1
        };
        assert_eq!(no_proxy(""), "localhost,127.0.0.1,::1");
        assert_eq!(no_proxy("localhost"), "127.0.0.1,::1");
    }
}
