//! Lists of hosts, as a configuration has them.

use super::HostName;

/// One host, or all below a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainPattern {
    Exact(HostName),
    /// `*.name`: what is below the name.
    Below(HostName),
    /// `**.name`: the name and what is below it.
    Within(HostName),
    /// `*`: every host.
    All,
}

impl DomainPattern {
    /// `None` for what is no pattern.
    pub fn parse(written: &str) -> Option<Self> {
        match written.trim() {
            "*" => Some(Self::All),
            name => {
                if let Some(name) = name.strip_prefix("**.") {
                    HostName::parse(name).map(Self::Within)
                } else if let Some(name) = name.strip_prefix("*.") {
                    HostName::parse(name).map(Self::Below)
                } else {
                    HostName::parse(name).map(Self::Exact)
                }
            }
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

/// What the configuration says about hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainRules {
    pub allowed: Vec<DomainPattern>,
    /// Counts before everything else.
    pub denied: Vec<DomainPattern>,
    /// Whether hosts that are not listed can be added by nobody.
    pub is_complete: bool,
    /// Whether this machine and its networks are hosts like others.
    pub local: bool,
}

impl DomainRules {
    pub(crate) fn allow(&self, host: &HostName) -> bool {
        self.allowed.iter().any(|pattern| pattern.matches(host))
    }

    /// By its own name, and not by a pattern that happens to include it.
    pub fn name(&self, host: &HostName) -> bool {
        self.allowed.iter().any(|pattern| matches!(pattern, DomainPattern::Exact(name) if name == host))
    }

    pub(crate) fn deny(&self, host: &HostName) -> bool {
        self.denied.iter().any(|pattern| pattern.matches(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_what_they_say() {
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
