//! One rule.

use crate::{line::is_system_program, rules::tokens::quote};

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
pub struct Rule {
    /// For each place the words that fit. Never empty.
    pub pattern: Vec<Vec<String>>,
    pub decision: RuleDecision,
    /// Why, in the user's words; shown with the question or the refusal.
    pub justification: Option<String>,
}

impl Rule {
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
    pub host: String,
    /// All protocols when there is none.
    pub protocol: Option<String>,
    pub decision: RuleDecision,
    pub justification: Option<String>,
}
