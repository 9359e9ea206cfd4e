//! The patterns of hosts in a configuration.

use super::HostName;

/// A pattern for one host, for hosts below a name, or for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainPattern {
    Exact(HostName),
    /// `*.name`: hosts below the name.
    Below(HostName),
    /// `**.name`: the name itself and hosts below it.
    Within(HostName),
    /// `*`: every host.
    All,
}

impl DomainPattern {
    /// Parses a pattern. Returns `None` if the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text == "*" {
            Some(Self::All)
        } else if let Some(name) = text.strip_prefix("**.") {
            HostName::parse(name).map(Self::Within)
        } else if let Some(name) = text.strip_prefix("*.") {
            HostName::parse(name).map(Self::Below)
        } else {
            HostName::parse(text).map(Self::Exact)
        }
    }

    fn matches(&self, host: &HostName) -> bool {
        let is_below = |name: &HostName| {
            let rest = host.as_str().strip_suffix(name.as_str());
            rest.is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
        };
        match self {
            Self::Exact(name) => name == host,
            Self::Below(name) => is_below(name),
            Self::Within(name) => name == host || is_below(name),
            Self::All => true,
        }
    }
}

/// The rules of the configuration for hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainRules {
    pub allowed: Vec<DomainPattern>,
    /// Denied hosts, which take precedence over every other rule.
    pub denied: Vec<DomainPattern>,
    /// Whether `allowed` is final: other hosts are refused, whatever the user's rules, grants or permissions say.
    pub is_complete: bool,
    /// Whether this machine and private networks are treated like other hosts.
    pub local: bool,
}

impl DomainRules {
    pub(crate) fn allows(&self, host: &HostName) -> bool {
        self.allowed.iter().any(|pattern| pattern.matches(host))
    }

    /// Returns whether a host is allowed by its own name, not by a pattern that includes it.
    pub fn allows_by_name(&self, host: &HostName) -> bool {
        self.allowed.iter().any(|pattern| matches!(pattern, DomainPattern::Exact(name) if name == host))
    }

    pub(crate) fn denies(&self, host: &HostName) -> bool {
        self.denied.iter().any(|pattern| pattern.matches(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_hosts() {
        let check = |pattern: &str, host: &str, expected: bool| {
            let pattern = DomainPattern::parse(pattern).unwrap();
            assert_eq!(pattern.matches(&HostName::parse(host).unwrap()), expected, "{pattern:?} {host}");
        };
        check("example.com", "EXAMPLE.com.", true);
        check("example.com", "a.example.com", false);
        check("*.example.com", "a.b.example.com", true);
        check("*.example.com", "example.com", false);
        check("*.example.com", "badexample.com", false);
        check("**.example.com", "example.com", true);
        check("**.example.com", "a.example.com", true);
        check("**.example.com", "badexample.com", false);
        check("*", "anything.example", true);
        check("127.0.0.1", "127.0.0.1", true);
        for wrong in ["", "*.", "a*.example.com", "http://example.com", "*.*.com"] {
            assert_eq!(DomainPattern::parse(wrong), None, "{wrong}");
        }
    }
}
