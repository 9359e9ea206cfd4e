//! The verdict of the rules about a command line.

use codicil_protocol::NetworkApprovalProtocol;

use crate::{
    command_line::{CommandConnector, CommandLine, PlainCommand, is_system_program},
    network::HostName,
    rules::{CommandRule, CommandRules, RuleDecision},
};

/// The strictest decision of any rule about any part of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleVerdict {
    /// The rules do not decide.
    Unmatched,
    /// Every command of the line is allowed by a rule, or has no effect that a sandbox would confine.
    Allowed,
    Prompt {
        justification: Option<String>,
    },
    Forbidden {
        justification: Option<String>,
    },
}

impl CommandRules {
    /// Returns the verdict about a line. One command anywhere in it is enough to forbid it or to demand a question. To
    /// allow it, all of its commands must be known.
    pub fn verdict(&self, line: &CommandLine) -> RuleVerdict {
        match self.strictest(line) {
            Some(CommandRule { decision: RuleDecision::Forbidden, justification, .. }) => {
                RuleVerdict::Forbidden { justification: justification.clone() }
            }
            Some(CommandRule { decision: RuleDecision::Prompt, justification, .. }) => {
                RuleVerdict::Prompt { justification: justification.clone() }
            }
            // Checked before a rule may allow the line: a stricter rule could match a part that was not parsed.
            _ if line.has_unparsed_part() && self.restricts() => {
                let justification =
                    "it is too long or too deeply nested to be checked against the rules".to_owned();
                RuleVerdict::Prompt { justification: Some(justification) }
            }
            _ if self.allows_all(line) => RuleVerdict::Allowed,
            _ => RuleVerdict::Unmatched,
        }
    }

    /// Returns the strictest decision of any rule about a host.
    pub(crate) fn decision_for_host(
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

    /// Returns the strictest matching rule, and among equally strict ones the one with the longest pattern.
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

/// Returns whether a command has no effect that a sandbox would confine: it prints its own words, changes the shell's
/// directory, or forwards its input. Commands that read files are not inert, because a sandbox may restrict reading, nor
/// are commands whose options could write a file or run a program.
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
