//! The network of confined commands: which hosts they reach through the server's proxy.
//!
//! Two places can switch the proxy on: the profile that `default_permissions` names, by its table `network`, and
//! the requirements of an administrator, by theirs. Of permission profiles only this table has a meaning here.

use std::collections::BTreeMap;

use codicil_protocol::{NetworkDomainPermission, NetworkRequirements};
use serde::{Deserialize, Deserializer};

use crate::{effective::EffectiveConfig, settings::closed};

/// `[permissions.NAME]`, as far as it is read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PermissionProfile {
    pub network: NetworkTable,
}

/// `[permissions.NAME.network]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NetworkTable {
    pub enabled: Option<bool>,
    pub mode: NetworkMode,
    pub domains: DomainTable,
    /// An older way to write `domains`.
    pub allowed_domains: Vec<String>,
    pub denied_domains: Vec<String>,
    pub allow_local_binding: Option<bool>,
}

/// `[permissions.NAME.network.domains]`: patterns and what may be done with the hosts that they match.
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

/// What may be done with hosts that are reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkMode {
    /// Requests that change nothing.
    Limited,
    #[default]
    Full,
}

/// What holds for the proxy, from everybody who has a say in it. Patterns are as they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkProxy {
    pub mode: NetworkMode,
    pub allowed: Vec<String>,
    pub denied: Vec<String>,
    /// Whether hosts that are not listed can be added by nobody.
    pub is_complete: bool,
    /// Whether this machine and its networks are hosts like others.
    pub local: bool,
}

impl EffectiveConfig {
    /// The proxy of confined commands; `None` when it is not switched on, and the sandbox policy alone says
    /// whether there is a network.
    pub fn network_proxy(&self) -> Option<NetworkProxy> {
        let profile = self.settings.default_permissions.as_ref();
        let table =
            profile.and_then(|name| self.settings.permissions.get(name)).map(|profile| &profile.network);
        resolve(table, self.requirements.network())
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
    }
    Some(proxy)
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
    fn the_profile_and_the_administrator_both_have_a_say() {
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
    fn an_administrator_switches_it_on_and_off() {
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
    fn a_permission_that_is_none_is_a_mistake() {
        assert!(toml::from_str::<NetworkTable>("[domains]\n\"a\" = \"maybe\"").is_err());
    }
}
