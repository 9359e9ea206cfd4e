//! Rules for commands and for hosts.

use codicil_protocol::NetworkApprovalProtocol as Protocol;

use crate::{
    command_line::is_system_program, decide::NetworkDestination, network::HostName, rules::tokens::quote,
};

/// The decision of a rule about what it matches. The stricter one is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleDecision {
    /// Runs without a question and without a sandbox.
    Allow,
    /// The user is asked.
    Prompt,
    /// Never runs.
    Forbidden,
}

/// A rule for commands that begin with certain words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRule {
    /// For each position the words that match. Never empty.
    pub pattern: Vec<Vec<String>>,
    pub decision: RuleDecision,
    /// The user's reason, displayed with the question or the refusal.
    pub justification: Option<String>,
}

impl CommandRule {
    /// Returns a rule that allows commands beginning with these words.
    pub fn allow(prefix: &[String]) -> Self {
        let pattern = prefix.iter().map(|word| vec![word.clone()]).collect();
        Self { pattern, decision: RuleDecision::Allow, justification: None }
    }

    /// Returns whether a command begins with the pattern. A program called by its path matches its name; a rule that allows
    /// matches only paths of the system's programs.
    pub fn matches(&self, words: &[String]) -> bool {
        let (Some((programs, pattern)), Some((program, arguments))) =
            (self.pattern.split_first(), words.split_first())
        else {
            return false;
        };
        let is_match = |(alternatives, word): (&Vec<String>, &String)| alternatives.contains(word);
        programs.iter().any(|name| self.is_program(name, program))
            && arguments.len() >= pattern.len()
            && pattern.iter().zip(arguments).all(is_match)
    }

    /// Returns the rule as a line of a rules file.
    pub(super) fn to_line(&self) -> String {
        let list = |words: &[String]| words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(", ");
        let element = |words: &Vec<String>| match words.as_slice() {
            [word] => quote(word),
            words => format!("[{}]", list(words)),
        };
        let pattern: Vec<_> = self.pattern.iter().map(element).collect();
        let decision = match self.decision {
            RuleDecision::Allow => "allow",
            RuleDecision::Prompt => "prompt",
            RuleDecision::Forbidden => "forbidden",
        };
        format!("prefix_rule(pattern=[{}], decision=\"{decision}\")", pattern.join(", "))
    }

    fn is_program(&self, name: &str, program: &str) -> bool {
        let is_named = program.rsplit('/').next() == Some(name);
        name == program || (is_named && (self.decision > RuleDecision::Allow || is_system_program(program)))
    }
}

/// A rule for a host that commands may want to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkRule {
    pub host: HostName,
    /// The protocol, or `None` for all.
    pub protocol: Option<Protocol>,
    pub decision: RuleDecision,
    pub justification: Option<String>,
}

impl NetworkRule {
    /// Returns the rule for the user's answer about a host, with the justification that the reference server writes.
    pub(crate) fn amendment(to: &NetworkDestination, decision: RuleDecision) -> Self {
        let verb = if decision == RuleDecision::Allow { "Allow" } else { "Deny" };
        let protocol = match protocol_name(&to.protocol) {
            "https" => "https_connect",
            other => other,
        };
        Self {
            host: to.host.clone(),
            protocol: Some(to.protocol.clone()),
            decision,
            justification: Some(format!("{verb} {protocol} access to {}", to.host)),
        }
    }

    /// Returns whether the rule applies to a host. A rule that denies applies to every protocol; other rules apply to their
    /// own protocol only.
    pub(super) fn matches(&self, host: &HostName, protocol: &Protocol) -> bool {
        let is_protocol = self.protocol.as_ref().is_none_or(|own| own == protocol);
        self.host == *host && (is_protocol || self.decision == RuleDecision::Forbidden)
    }

    /// Returns the rule as a line of a rules file.
    pub(super) fn to_line(&self) -> String {
        let decision = match self.decision {
            RuleDecision::Allow => "allow",
            RuleDecision::Prompt => "prompt",
            RuleDecision::Forbidden => "deny",
        };
        let protocol = self.protocol.as_ref().map(protocol_name);
        let named = |name: &str, value: &str| format!("{name}={}", quote(value));
        let mut arguments = vec![named("host", self.host.as_str())];
        arguments.extend(protocol.map(|protocol| named("protocol", protocol)));
        arguments.push(named("decision", decision));
        arguments.extend(self.justification.as_deref().map(|text| named("justification", text)));
        format!("network_rule({})", arguments.join(", "))
    }
}

/// Returns the name of a protocol in rules files.
pub(crate) fn protocol_name(protocol: &Protocol) -> &'static str {
    match protocol {
        Protocol::Http => "http",
        Protocol::Https => "https",
        Protocol::Socks5Tcp => "socks5_tcp",
        Protocol::Socks5Udp => "socks5_udp",
        Protocol::Unrecognized(_) => "unknown",
    }
}

/// Returns the protocol of a name in rules files, including the other names that the reference server accepts.
pub(super) fn protocol_named(name: &str) -> Option<Protocol> {
    match name {
        "http" => Some(Protocol::Http),
        "https" | "https_connect" | "http-connect" => Some(Protocol::Https),
        "socks5_tcp" => Some(Protocol::Socks5Tcp),
        "socks5_udp" => Some(Protocol::Socks5Udp),
        _ => None,
    }
}
