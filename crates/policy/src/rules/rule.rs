//! One rule.

use codicil_protocol::NetworkApprovalProtocol as Protocol;

use crate::{decide::NetworkDestination, line::is_system_program, network::HostName, rules::tokens::quote};

/// What a rule says about the commands it matches; the stricter is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleDecision {
    /// Runs without a question, outside the sandbox.
    Allow,
    /// Somebody is asked.
    Prompt,
    /// Never runs.
    Forbidden,
}

/// A rule about commands that begin with certain words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRule {
    /// For each place the words that fit. Never empty.
    pub pattern: Vec<Vec<String>>,
    pub decision: RuleDecision,
    /// Why, in the user's words; shown with the question or the refusal.
    pub justification: Option<String>,
}

impl CommandRule {
    /// Lets commands that begin with these words run.
    pub fn allow(prefix: &[String]) -> Self {
        let pattern = prefix.iter().map(|word| vec![word.clone()]).collect();
        Self { pattern, decision: RuleDecision::Allow, justification: None }
    }

    /// Whether a command begins as the rule says. A program called by its path counts as the program of
    /// that name; only to allow it, the path has to be one of the system's.
    pub fn matches(&self, words: &[String]) -> bool {
        let (Some((programs, pattern)), Some((program, arguments))) =
            (self.pattern.split_first(), words.split_first())
        else {
            return false;
        };
        let fits = |(alternatives, word): (&Vec<String>, &String)| alternatives.contains(word);
        programs.iter().any(|name| self.is_program(name, program))
            && arguments.len() >= pattern.len()
            && pattern.iter().zip(arguments).all(fits)
    }

    /// The line that a rules file has for it.
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

/// A rule about a host that commands may want to reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkRule {
    pub host: HostName,
    /// All protocols when there is none.
    pub protocol: Option<Protocol>,
    pub decision: RuleDecision,
    pub justification: Option<String>,
}

impl NetworkRule {
    /// What somebody decided about a host on the way, with the words that the reference keeps it with.
    pub(crate) fn amendment(to: &NetworkDestination, decision: RuleDecision) -> Self {
        let verb = if decision == RuleDecision::Allow { "Allow" } else { "Deny" };
        let how = match protocol_name(&to.protocol) {
            "https" => "https_connect",
            other => other,
        };
        Self {
            host: to.host.clone(),
            protocol: Some(to.protocol.clone()),
            decision,
            justification: Some(format!("{verb} {how} access to {}", to.host)),
        }
    }

    /// Whether the rule is about this. A host that is denied in one way is denied in every way; to allow it, or
    /// to ask about it, the way must be the same.
    pub(super) fn matches(&self, host: &HostName, protocol: &Protocol) -> bool {
        let is_way = self.protocol.as_ref().is_none_or(|own| own == protocol);
        self.host == *host && (is_way || self.decision == RuleDecision::Forbidden)
    }

    /// The line that a rules file has for it.
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

/// A protocol as rules files name it.
pub(crate) fn protocol_name(protocol: &Protocol) -> &'static str {
    match protocol {
        Protocol::Http => "http",
        Protocol::Https => "https",
        Protocol::Socks5Tcp => "socks5_tcp",
        Protocol::Socks5Udp => "socks5_udp",
        Protocol::Unrecognized(_) => "unknown",
    }
}

/// The reverse, with the other names that the reference accepts.
pub(super) fn protocol_named(name: &str) -> Option<Protocol> {
    match name {
        "http" => Some(Protocol::Http),
        "https" | "https_connect" | "http-connect" => Some(Protocol::Https),
        "socks5_tcp" => Some(Protocol::Socks5Tcp),
        "socks5_udp" => Some(Protocol::Socks5Udp),
        _ => None,
    }
}
