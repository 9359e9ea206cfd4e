//! The name or the address of a host, written in one way only.

use std::{fmt, net::IpAddr};

use super::is_public;

/// The longest name that there can be.
const LONGEST: usize = 253;

/// A host as rules and questions know it: in small letters, without a final dot, an address without brackets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

impl HostName {
    /// `None` for what is not a host: a name in other letters must come in its ASCII form.
    pub fn parse(written: &str) -> Option<Self> {
        let bare = written.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(written).parse::<IpAddr>() {
            return Some(Self(address.to_canonical().to_string()));
        }
        let name = written.strip_suffix('.').unwrap_or(written).to_ascii_lowercase();
        let is_label = |label: &str| !label.is_empty() && label.len() <= 63;
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | '_');
        let is_name = name.len() <= LONGEST && name.chars().all(is_letter) && name.split('.').all(is_label);
        is_name.then_some(Self(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The address, if that is what it is.
    pub fn address(&self) -> Option<IpAddr> {
        self.0.parse().ok()
    }

    /// Whether it is this machine, or an address of a network that is not public. Of other names only their
    /// addresses tell, which nobody has looked up yet.
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
