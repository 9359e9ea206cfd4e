//! What the rules say about a command line.

use codicil_protocol::NetworkApprovalProtocol;

use crate::{
    line::{CommandLine, PlainCommand},
    network::Host,
    rules::{Rule, RuleDecision, Rules},
    safe::is_known_safe,
};

/// The strictest thing that any rule says about any part of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing that settles it.
    Unmatched,
    /// Every command of the line is allowed by a rule, or only reads.
    Allowed,
    Prompt {
        justification: Option<String>,
    },
    Forbidden {
        justification: Option<String>,
    },
}

impl Rules {
    /// Judges a line. To forbid it or to ask about it one command anywhere in it is enough; to allow it,
    /// all of its commands must be known.
    pub fn judge(&self, line: &CommandLine) -> Verdict {
        match self.strictest(line) {
            Some(Rule { decision: RuleDecision::Forbidden, justification, .. }) => {
                Verdict::Forbidden { justification: justification.clone() }
            }
            Some(Rule { decision: RuleDecision::Prompt, justification, .. }) => {
                Verdict::Prompt { justification: justification.clone() }
            }
            _ if self.allows_all(line) => Verdict::Allowed,
            _ if line.is_unread() && self.restricts() => {
                let justification =
                    "it is too long or too deeply nested to be checked against the rules".to_owned();
                Verdict::Prompt { justification: Some(justification) }
            }
            _ => Verdict::Unmatched,
        }
    }

    /// The strictest thing that any rule says about reaching a host.
    pub(crate) fn judge_host(&self, host: &Host, protocol: &NetworkApprovalProtocol) -> Option<RuleDecision> {
        let matching = self.networks.iter().filter(|rule| rule.matches(host, protocol));
        matching.map(|rule| rule.decision).max()
    }

    pub(crate) fn allows(&self, words: &[String]) -> bool {
        self.commands.iter().any(|rule| rule.decision == RuleDecision::Allow && rule.matches(words))
    }

    /// Among equally strict rules the one that says most about the command.
    fn strictest(&self, line: &CommandLine) -> Option<&Rule> {
        let is_mentioned = |rule: &&Rule| {
            rule.matches(line.argv()) || line.mentioned().iter().any(|command| rule.matches(&command.words))
        };
        let matching = self.commands.iter().filter(is_mentioned);
        matching.max_by_key(|rule| (rule.decision, rule.pattern.len()))
    }

    fn restricts(&self) -> bool {
        self.commands.iter().any(|rule| rule.decision > RuleDecision::Allow)
    }

    fn allows_all(&self, line: &CommandLine) -> bool {
        let Some(commands) = line.plain() else { return self.allows(line.argv()) };
        let is_allowed = |command: &PlainCommand| self.allows(&command.words);
        self.allows(line.argv())
            || (commands.iter().any(is_allowed)
                && commands.iter().all(|command| is_allowed(command) || is_inert(command)))
    }
}

/// Safe to run outside the sandbox. Git only reads, but it may run what a repository's configuration names.
fn is_inert(command: &PlainCommand) -> bool {
    is_known_safe(command) && command.program() != "git"
}
