//! Decisions about commands.

use std::path::Path;

use codicil_protocol::CommandExecutionApprovalDecision as Answer;

use crate::{
    decide::{AccessGrant, DecisionPolicies, ThreadGrants, policy::QuestionTopic},
    line::CommandLine,
    rules::{RuleVerdict, proposed_amendment},
};

/// The question after a sandbox failure; clients show it as it is.
const RETRY: &str = "command failed; retry without sandbox?";

/// A command that the model wants to run.
#[derive(Clone, Copy, Debug)]
pub struct CommandRequest<'a> {
    pub line: &'a CommandLine,
    pub cwd: &'a Path,
    pub permissions: &'a SandboxPermissions,
    /// The model's words to whoever is asked.
    pub justification: Option<&'a str>,
    /// The model's idea of a rule for commands like this.
    pub prefix_rule: Option<&'a [String]>,
}

impl CommandRequest<'_> {
    /// What the command has beyond the sandbox policy, once it may run in a sandbox: everything that was
    /// granted earlier, and what it asks for itself.
    pub fn access(&self, grants: &ThreadGrants) -> AccessGrant {
        let mut access = grants.access();
        if let SandboxPermissions::WithAdditional(additional) = self.permissions {
            access.extend(additional);
        }
        access
    }
}

/// What the model says a command needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SandboxPermissions {
    /// The sandbox as it is.
    #[default]
    UseDefault,
    /// No sandbox.
    RequireEscalated,
    /// The sandbox with more in it.
    WithAdditional(AccessGrant),
}

/// What is to happen to a command.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandDecision {
    /// `sandboxed` is false also when the policy has no sandbox of ours.
    Run {
        sandboxed: bool,
    },
    Ask(CommandQuestion),
    /// The model is told `why`; nothing runs.
    Refuse {
        why: String,
    },
}

/// What somebody is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandQuestion {
    pub reason: Option<String>,
    /// A rule that would make the question unnecessary next time.
    pub amendment: Option<Vec<String>>,
    /// The answers to offer.
    pub decisions: Vec<Answer>,
    /// How it runs once accepted.
    pub sandboxed: bool,
}

/// May this command run?
pub fn decide_command(request: &CommandRequest<'_>, policies: &DecisionPolicies<'_>) -> CommandDecision {
    let verdict = policies.rules.judge(request.line);
    let sandboxed = policies.confines() && *request.permissions != SandboxPermissions::RequireEscalated;
    match (need(request, policies, &verdict), verdict) {
        (_, RuleVerdict::Forbidden { justification }) => forbid(request, justification),
        (_, RuleVerdict::Allowed) => CommandDecision::Run { sandboxed: false },
        // Safe commands stay inside even when they ask to leave: there they can read all they need.
        (None, _) => CommandDecision::Run { sandboxed: policies.confines() },
        (Some(_), _) if policies.grants.covers(request, sandboxed) => CommandDecision::Run { sandboxed },
        (Some(need), verdict) => ask(request, policies, need, &verdict, sandboxed),
    }
}

/// The sandbox has stopped a command: may it run again, without? A refusal leaves the failure as it is.
pub fn decide_retry(request: &CommandRequest<'_>, policies: &DecisionPolicies<'_>) -> CommandDecision {
    if policies.grants.covers(request, false) {
        return CommandDecision::Run { sandboxed: false };
    }
    if !policies.confines() || !policies.asks_after_failure() {
        let why = "the sandbox stopped the command, and the approval policy does not allow to ask for more";
        return CommandDecision::Refuse { why: why.to_owned() };
    }
    // Whoever agreed to the command for the session agreed to what it takes.
    if policies.grants.covers(request, true) {
        return CommandDecision::Run { sandboxed: false };
    }
    let amendment = proposed_amendment(request.line, request.prefix_rule, policies.rules);
    CommandDecision::Ask(CommandQuestion::new(Some(RETRY.to_owned()), amendment, false))
}

/// Why a command cannot just run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ApprovalNeed {
    Rule,
    Escape,
    Access,
    Caution,
    Trust,
}

fn need(
    request: &CommandRequest<'_>,
    policies: &DecisionPolicies<'_>,
    verdict: &RuleVerdict,
) -> Option<ApprovalNeed> {
    if matches!(verdict, RuleVerdict::Prompt { .. }) {
        return Some(ApprovalNeed::Rule);
    }
    let is_safe = request.line.is_known_safe();
    let confines = policies.confines();
    match request.permissions {
        // What only reads gains nothing by leaving a sandbox that lets it read everything.
        SandboxPermissions::RequireEscalated if confines && !(is_safe && policies.reads_everything()) => {
            return Some(ApprovalNeed::Escape);
        }
        SandboxPermissions::WithAdditional(access)
            if confines && !policies.grants.access().covers(access) =>
        {
            return Some(ApprovalNeed::Access);
        }
        _ => {}
    }
    if needs_caution(request.line, policies) {
        return Some(ApprovalNeed::Caution);
    }
    (policies.trusts_nothing() && !is_safe).then_some(ApprovalNeed::Trust)
}

/// In a sandbox the usual accidents are few, and questions about daily work are a nuisance. Without one all
/// that could do harm is asked about, unless there are no questions either: then everything goes.
fn needs_caution(line: &CommandLine, policies: &DecisionPolicies<'_>) -> bool {
    if policies.confines() { line.removes_by_force() } else { line.is_dangerous() && !policies.never_asks() }
}

fn ask(
    request: &CommandRequest<'_>,
    policies: &DecisionPolicies<'_>,
    need: ApprovalNeed,
    verdict: &RuleVerdict,
    sandboxed: bool,
) -> CommandDecision {
    if let Some(cause) = policies.why_not_ask(need.topic()) {
        return CommandDecision::Refuse { why: format!("{cause}, and {}", need.obstacle()) };
    }
    let reason = match verdict {
        RuleVerdict::Prompt { justification } => Some(rule_reason(request.line, justification.as_deref())),
        _ => request.justification.map(str::to_owned),
    };
    let propose = || proposed_amendment(request.line, request.prefix_rule, policies.rules);
    CommandDecision::Ask(match need {
        // The user's own rule is not overruled in passing.
        ApprovalNeed::Rule => CommandQuestion::new(reason, None, sandboxed),
        // Permissions are not a matter of rules: one is named, and not to be chosen.
        ApprovalNeed::Access => {
            CommandQuestion { amendment: propose(), ..CommandQuestion::new(reason, None, sandboxed) }
        }
        ApprovalNeed::Escape | ApprovalNeed::Caution | ApprovalNeed::Trust => {
            CommandQuestion::new(reason, propose(), sandboxed)
        }
    })
}

impl ApprovalNeed {
    fn topic(self) -> QuestionTopic {
        match self {
            Self::Rule => QuestionTopic::Rules,
            // Permissions for one command are a matter of its sandbox; the other switch is about those that
            // are asked for ahead.
            Self::Escape | Self::Access | Self::Caution | Self::Trust => QuestionTopic::Sandbox,
        }
    }

    /// For the model, with the way out where there is one.
    fn obstacle(self) -> &'static str {
        match self {
            Self::Rule => "a rule of the user wants to be asked about this command; do without it",
            Self::Escape => {
                "the command asks to leave the sandbox; run it without `sandbox_permissions`, or find another way"
            }
            Self::Access => {
                "the command asks for more permissions than the sandbox gives; run it without them, or find another way"
            }
            Self::Caution => "the command could do harm that cannot be undone; find a gentler way",
            Self::Trust => "the command is not known to only read; do without it",
        }
    }
}

impl CommandQuestion {
    fn new(reason: Option<String>, amendment: Option<Vec<String>>, sandboxed: bool) -> Self {
        let mut decisions = vec![Answer::Accept];
        decisions.extend(
            amendment
                .clone()
                .map(|words| Answer::AcceptWithExecpolicyAmendment { execpolicy_amendment: words }),
        );
        decisions.push(Answer::Cancel);
        Self { reason, amendment, decisions, sandboxed }
    }
}

fn rule_reason(line: &CommandLine, justification: Option<&str>) -> String {
    match justification {
        Some(justification) => format!("`{}` requires approval: {justification}", line.display()),
        None => format!("`{}` requires approval by policy", line.display()),
    }
}

fn forbid(request: &CommandRequest<'_>, justification: Option<String>) -> CommandDecision {
    let justification = justification.map(|text| format!(": {text}")).unwrap_or_default();
    CommandDecision::Refuse {
        why: format!("`{}` is forbidden by a rule of the user{justification}", request.line.display()),
    }
}
