//! The name or the address of a host in a canonical form.

use std::{fmt, net::IpAddr};

use super::is_public;

/// The length of the longest name in DNS.
const LONGEST_NAME: usize = 253;

/// A host in the form that rules and questions use: lower case, without a final dot, an address without brackets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

impl HostName {
    /// Parses a host. Returns `None` if the text is not one. A name with letters outside ASCII must be in its ASCII form.
    pub fn parse(text: &str) -> Option<Self> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(text).parse::<IpAddr>() {
            return Some(Self(address.to_canonical().to_string()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let is_label = |label: &str| !label.is_empty() && label.len() <= 63;
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | '_');
        let is_name =
            name.len() <= LONGEST_NAME && name.chars().all(is_letter) && name.split('.').all(is_label);
        is_name.then_some(Self(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the address, or `None` for a name.
    pub fn address(&self) -> Option<IpAddr> {
        self.0.parse().ok()
    }

    /// Returns whether the host is this machine or an address that is not public. Other names are not looked up: they may
    /// have local addresses as well.
    pub fn is_local(&self) -> bool {
        let is_localhost = self.0 == "localhost" || self.0.ends_with(".localhost");
        is_localhost || self.address().is_some_and(|address| !is_public(address))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_written_in_one_way() {
        let check = |written: &str, expected: Option<&str>| {
            assert_eq!(HostName::parse(written).as_ref().map(HostName::as_str), expected, "{written}");
        };
        check("Example.COM.", Some("example.com"));
        check("[::1]", Some("::1"));
        check("0:0:0:0:0:0:0:1", Some("::1"));
        check("::ffff:127.0.0.1", Some("127.0.0.1"));
        check("xn--bcher-kva.example", Some("xn--bcher-kva.example"));
        check("a_b.example", Some("a_b.example"));
        check("b\u{fc}cher.example", None);
        check("*.example.com", None);
        check("a..b", None);
        check("a b", None);
        check("a/b", None);
        check("", None);
        check(".", None);
        check(&"a".repeat(64), None);
    }

    #[test]
    fn local_hosts_are_known_by_name_and_address() {
        for local in ["localhost", "a.localhost", "127.0.0.1", "::1", "10.1.2.3", "169.254.169.254"] {
            assert!(HostName::parse(local).unwrap().is_local(), "{local}");
        }
        for other in ["example.com", "localhost.example", "1.1.1.1", "2606:4700::1111"] {
            assert!(!HostName::parse(other).unwrap().is_local(), "{other}");
        }
    }
}
