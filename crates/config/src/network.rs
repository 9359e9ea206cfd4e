//! The network access of sandboxed commands through the server's proxy.
//!
//! The proxy is enabled by the table `network` of a permission profile, or by the requirements of an administrator.

use std::{collections::BTreeMap, num::NonZeroU16};

use codicil_protocol::{NetworkDomainPermission, NetworkRequirements};
use serde::{Deserialize, Deserializer, de::Error as _};

use crate::{effective::EffectiveConfig, settings::closed};

/// `[permissions.NAME.network]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NetworkTable {
    pub enabled: Option<bool>,
    pub mode: NetworkMode,
    pub domains: DomainTable,
    /// An older form of `domains`.
    pub allowed_domains: Vec<String>,
    pub denied_domains: Vec<String>,
    pub allow_local_binding: Option<bool>,
    /// The port of this URL is that of the proxy in the command's own network; the rest of the URL is fixed.
    #[serde(deserialize_with = "url_port")]
    pub proxy_url: Option<NonZeroU16>,
    /// The port for SOCKS, in the same way.
    #[serde(deserialize_with = "url_port")]
    pub socks_url: Option<NonZeroU16>,
    pub enable_socks5: Option<bool>,
}

/// `[permissions.NAME.network.domains]`: permissions by host pattern.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DomainTable(pub BTreeMap<String, NetworkDomainPermission>);

impl<'de> Deserialize<'de> for DomainTable {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct DomainEntry(#[serde(deserialize_with = "closed")] Option<NetworkDomainPermission>);

        let entries = BTreeMap::<String, DomainEntry>::deserialize(from)?;
        Ok(Self(entries.into_iter().filter_map(|(name, entry)| Some((name, entry.0?))).collect()))
    }
}

/// The kinds of requests that the proxy permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkMode {
    /// Only requests that do not change anything.
    Limited,
    #[default]
    Full,
}

/// The settings of the proxy from all sources. Patterns are not normalised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkProxy {
    pub mode: NetworkMode,
    pub allowed: Vec<String>,
    pub denied: Vec<String>,
    /// Whether the list is final, so that users cannot allow further hosts.
    pub is_complete: bool,
    /// Whether this machine and its local networks can be reached.
    pub local: bool,
    /// The port of the proxy in the command's own network. Absent: the usual one.
    pub http_port: Option<NonZeroU16>,
    /// The port for SOCKS. Absent: the same as for HTTP.
    pub socks_port: Option<NonZeroU16>,
    pub socks: bool,
}

impl EffectiveConfig {
    /// Returns the proxy settings of a profile, or of the one that `default_permissions` names; `None` if the proxy is
    /// disabled and the sandbox policy alone determines network access.
    pub fn network_proxy(&self, profile: Option<&str>) -> Option<NetworkProxy> {
        resolve(self.network_rules(profile), self.requirements.network())
    }
}

fn resolve(table: Option<&NetworkTable>, required: Option<&NetworkRequirements>) -> Option<NetworkProxy> {
    let asked = table.is_some_and(|table| table.enabled == Some(true));
    let enabled = required.and_then(|required| required.enabled).unwrap_or(asked);
    if !enabled {
        return None;
    }
    let table = table.cloned().unwrap_or_default();
    let mut proxy = NetworkProxy {
        mode: table.mode,
        local: table.allow_local_binding.unwrap_or(false),
        allowed: table.allowed_domains,
        denied: table.denied_domains,
        is_complete: false,
        http_port: table.proxy_url,
        socks_port: table.socks_url,
        socks: table.enable_socks5.unwrap_or(true),
    };
    proxy.add(&table.domains.0);
    if let Some(required) = required {
        proxy.is_complete = required.managed_allowed_domains_only == Some(true);
        if proxy.is_complete {
            proxy.allowed.clear();
        }
        proxy.allowed.extend(required.allowed_domains.iter().flatten().cloned());
        proxy.denied.extend(required.denied_domains.iter().flatten().cloned());
        proxy.add(required.domains.as_ref().unwrap_or(&BTreeMap::new()));
        proxy.local = required.allow_local_binding.unwrap_or(proxy.local);
        // `Requirements` refuses the port 0.
        proxy.http_port = required.http_port.and_then(NonZeroU16::new).or(proxy.http_port);
        proxy.socks_port = required.socks_port.and_then(NonZeroU16::new).or(proxy.socks_port);
    }
    Some(proxy)
}

/// Reads the port of a URL such as `http://127.0.0.1:3128`.
fn url_port<'de, D: Deserializer<'de>>(from: D) -> Result<Option<NonZeroU16>, D::Error> {
    let url = String::deserialize(from)?;
    let authority = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
    let authority = authority.split('/').next().unwrap_or_default();
    let port = authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    port.map(Some).ok_or_else(|| D::Error::custom(format!("`{url}` has no port")))
}

impl NetworkProxy {
    fn add(&mut self, domains: &BTreeMap<String, NetworkDomainPermission>) {
        for (pattern, permission) in domains {
            match permission {
                NetworkDomainPermission::Allow => self.allowed.push(pattern.clone()),
                NetworkDomainPermission::Deny | NetworkDomainPermission::Unrecognized(_) => {
                    self.denied.push(pattern.clone());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> NetworkTable {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn the_profile_and_the_requirements_are_combined() {
        let written = table(
            "enabled = true\nmode = \"limited\"\nallowed_domains = [\"a\"]\nallow_local_binding = true\n\
             [domains]\n\"b\" = \"allow\"\n\"c\" = \"deny\"",
        );
        let proxy = resolve(Some(&written), None).unwrap();
        assert_eq!((proxy.mode, proxy.local, proxy.is_complete), (NetworkMode::Limited, true, false));
        assert_eq!((proxy.allowed, proxy.denied), (vec!["a".to_owned(), "b".into()], vec!["c".to_owned()]));
        let required = NetworkRequirements {
            managed_allowed_domains_only: Some(true),
            allowed_domains: Some(vec!["d".to_owned()]),
            allow_local_binding: Some(false),
            ..NetworkRequirements::default()
        };
        let proxy = resolve(Some(&written), Some(&required)).unwrap();
        assert_eq!((proxy.allowed, proxy.denied), (vec!["d".to_owned()], vec!["c".to_owned()]));
        assert!(proxy.is_complete && !proxy.local);
    }

    #[test]
    fn requirements_enable_and_disable_the_proxy() {
        let required = |enabled| NetworkRequirements { enabled, ..NetworkRequirements::default() };
        let on = table("enabled = true");
        assert!(resolve(None, None).is_none());
        assert!(resolve(Some(&table("")), None).is_none());
        assert!(resolve(Some(&on), None).is_some());
        assert!(resolve(Some(&on), Some(&required(None))).is_some());
        assert!(resolve(Some(&on), Some(&required(Some(false)))).is_none());
        assert!(resolve(None, Some(&required(Some(true)))).is_some());
    }

    #[test]
    fn the_ports_of_requirements_take_precedence() {
        let written = table(
            "enabled = true\nproxy_url = \"http://127.0.0.1:8080\"\nsocks_url = \"socks5h://127.0.0.1:1080/\"\n\
             enable_socks5 = false",
        );
        let ports = |proxy: NetworkProxy| [proxy.http_port, proxy.socks_port].map(|port| port.map(u16::from));
        let proxy = resolve(Some(&written), None).unwrap();
        assert!(!proxy.socks);
        assert_eq!(ports(proxy), [Some(8080), Some(1080)]);
        let required = NetworkRequirements { http_port: Some(9), ..NetworkRequirements::default() };
        assert_eq!(ports(resolve(Some(&written), Some(&required)).unwrap()), [Some(9), Some(1080)]);
        let default = resolve(Some(&table("enabled = true")), None).unwrap();
        assert!(default.socks);
        assert_eq!(ports(default), [None, None]);
        for url in ["http://127.0.0.1", "http://127.0.0.1:0", "http://127.0.0.1:x"] {
            assert!(toml::from_str::<NetworkTable>(&format!("proxy_url = {url:?}")).is_err(), "{url}");
        }
    }

    #[test]
    fn an_unknown_permission_is_an_error() {
        assert!(toml::from_str::<NetworkTable>("[domains]\n\"a\" = \"maybe\"").is_err());
    }
}
