//! What the rules say about a command line.

use codicil_protocol::NetworkApprovalProtocol;

use crate::{
    line::{CommandConnector, CommandLine, PlainCommand, is_system_program},
    network::HostName,
    rules::{CommandRule, CommandRules, RuleDecision},
};

/// The strictest thing that any rule says about any part of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleVerdict {
    /// Nothing that settles it.
    Unmatched,
    /// Every command of the line is allowed by a rule, or does nothing that a sandbox would matter for.
    Allowed,
    Prompt {
        justification: Option<String>,
    },
    Forbidden {
        justification: Option<String>,
    },
}

impl CommandRules {
    /// Judges a line. To forbid it or to ask about it one command anywhere in it is enough; to allow it,
    /// all of its commands must be known.
    pub fn judge(&self, line: &CommandLine) -> RuleVerdict {
        match self.strictest(line) {
            Some(CommandRule { decision: RuleDecision::Forbidden, justification, .. }) => {
                RuleVerdict::Forbidden { justification: justification.clone() }
            }
            Some(CommandRule { decision: RuleDecision::Prompt, justification, .. }) => {
                RuleVerdict::Prompt { justification: justification.clone() }
            }
            // Before a rule may allow it: a stricter rule could be about what was not seen.
            _ if line.is_unread() && self.restricts() => {
                let justification =
                    "it is too long or too deeply nested to be checked against the rules".to_owned();
                RuleVerdict::Prompt { justification: Some(justification) }
            }
            _ if self.allows_all(line) => RuleVerdict::Allowed,
            _ => RuleVerdict::Unmatched,
        }
    }

    /// The strictest thing that any rule says about reaching a host.
    pub(crate) fn judge_host(
        &self,
        host: &HostName,
        protocol: &NetworkApprovalProtocol,
    ) -> Option<RuleDecision> {
        let matching = self.networks.iter().filter(|rule| rule.matches(host, protocol));
        matching.map(|rule| rule.decision).max()
    }

    pub(crate) fn allows(&self, words: &[String]) -> bool {
        self.commands.iter().any(|rule| rule.decision == RuleDecision::Allow && rule.matches(words))
    }

    /// Among equally strict rules the one that says most about the command.
    fn strictest(&self, line: &CommandLine) -> Option<&CommandRule> {
        let is_mentioned = |rule: &&CommandRule| {
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

/// Whether a command does nothing that a sandbox would matter for: it prints its own words, changes the shell's
/// directory, or passes on what it is piped. What reads files is not among them, because a sandbox may restrict
/// reading, and neither is anything whose options could write or run something.
fn is_inert(command: &PlainCommand) -> bool {
    if command.expands || !command.words.first().is_some_and(|program| is_system_program(program)) {
        return false;
    }
    let words: Vec<&str> = command.arguments().iter().map(String::as_str).collect();
    let is_number = |word: &str| word.trim_start_matches('+').chars().all(|c| c.is_ascii_digit());
    match (command.program(), words.as_slice()) {
        ("echo" | "true" | "false" | "cd" | "pwd", _) => true,
        ("head" | "tail" | "wc", _) if command.connector != CommandConnector::Pipe => false,
        ("head" | "tail" | "wc", []) | ("wc", ["-l" | "-w" | "-c" | "-m"]) => true,
        ("head" | "tail", ["-n" | "-c", count]) => is_number(count),
        ("head" | "tail", [option]) => {
            option.strip_prefix('-').is_some_and(|count| is_number(count.trim_start_matches(['n', 'c'])))
        }
        _ => false,
    }
}
