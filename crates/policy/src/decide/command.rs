//! Decisions about commands.

use std::path::{Path, PathBuf};

use codicil_protocol::{CommandExecutionApprovalDecision as Answer, normal_path};

use crate::{
    command_line::CommandLine,
    decide::{AccessGrant, DecisionPolicies, ThreadGrants, policies::QuestionTopic},
    rules::{RuleVerdict, proposed_amendment},
};

/// The question after a sandbox failure, which clients display unchanged.
const RETRY: &str = "command failed; retry without sandbox?";

/// A command that the model wants to run.
#[derive(Clone, Copy, Debug)]
pub struct CommandRequest<'a> {
    pub line: &'a CommandLine,
    pub cwd: &'a Path,
    pub permissions: &'a SandboxPermissions,
    /// The model's reason for the user.
    pub justification: Option<&'a str>,
    /// The model's suggestion of a rule for commands like this.
    pub prefix_rule: Option<&'a [String]>,
    /// The directories of the skills, absolute. A command that names a file in one of them runs a program of that skill.
    pub skill_folders: &'a [PathBuf],
}

impl CommandRequest<'_> {
    /// Returns the permissions of the command beyond the sandbox policy, once it may run in a sandbox: those granted earlier
    /// and those of the request.
    pub fn access(&self, grants: &ThreadGrants) -> AccessGrant {
        let mut access = grants.access();
        if let SandboxPermissions::WithAdditional(additional) = self.permissions {
            access.extend(additional);
        }
        access
    }

    /// Returns whether a program of a skill runs, by the words of the command.
    fn runs_skill(&self) -> bool {
        let is_inside = |word: &String| {
            let path = normal_path(&self.cwd.join(word));
            self.skill_folders.iter().any(|folder| path.starts_with(folder))
        };
        self.line.mentioned().iter().any(|command| command.words.iter().any(is_inside))
    }

    /// Returns the topic of a question about the sandbox of this command.
    fn sandbox_topic(&self) -> QuestionTopic {
        if self.runs_skill() { QuestionTopic::Skills } else { QuestionTopic::Sandbox }
    }
}

/// The sandbox that the model requests for a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SandboxPermissions {
    /// The sandbox of the policy.
    #[default]
    UseDefault,
    /// No sandbox.
    RequireEscalated,
    /// The sandbox with additional permissions.
    WithAdditional(AccessGrant),
}

/// The decision about a command.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandDecision {
    /// The command runs. `sandboxed` is also false if the policy has no sandbox of the server.
    Run {
        sandboxed: bool,
    },
    Ask(CommandQuestion),
    /// Nothing runs, and the model gets `why`.
    Refuse {
        why: String,
    },
}

/// A question to the user about a command.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandQuestion {
    pub reason: Option<String>,
    /// The words of a rule that would make this question unnecessary next time.
    pub amendment: Option<Vec<String>>,
    /// The answers to offer.
    pub decisions: Vec<Answer>,
    /// Whether the command runs in the sandbox once it is accepted.
    pub sandboxed: bool,
}

/// Decides whether a command may run.
pub fn decide_command(request: &CommandRequest<'_>, policies: &DecisionPolicies<'_>) -> CommandDecision {
    let verdict = policies.rules.verdict(request.line);
    let sandboxed = policies.confines() && *request.permissions != SandboxPermissions::RequireEscalated;
    match (approval_need(request, policies, &verdict), verdict) {
        (_, RuleVerdict::Forbidden { justification }) => forbid(request, justification),
        (_, RuleVerdict::Allowed) => CommandDecision::Run { sandboxed: false },
        // Commands that only read stay in the sandbox even if they request to leave it: they can read everything there.
        (None, _) => CommandDecision::Run { sandboxed: policies.confines() },
        (Some(_), _) if policies.grants.covers(request, sandboxed) => CommandDecision::Run { sandboxed },
        (Some(need), verdict) => ask(request, policies, need, &verdict, sandboxed),
    }
}

/// Decides whether a command that the sandbox made fail may run again without it. After a refusal the command has failed.
pub fn decide_retry(request: &CommandRequest<'_>, policies: &DecisionPolicies<'_>) -> CommandDecision {
    if policies.grants.covers(request, false) {
        return CommandDecision::Run { sandboxed: false };
    }
    if !policies.confines() || !policies.asks_after_failure(request.sandbox_topic()) {
        let why = "the sandbox stopped the command, and the approval policy does not allow to ask for more";
        return CommandDecision::Refuse { why: why.to_owned() };
    }
    // A command that was accepted for the session may run without the sandbox if it needs to.
    if policies.grants.covers(request, true) {
        return CommandDecision::Run { sandboxed: false };
    }
    let amendment = proposed_amendment(request.line, request.prefix_rule, policies.rules);
    CommandDecision::Ask(CommandQuestion::new(Some(RETRY.to_owned()), amendment, false))
}

/// Why a command needs an approval.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ApprovalNeed {
    /// A rule demands a question.
    Rule,
    /// It requests to run without the sandbox.
    Escape,
    /// It requests permissions that were not granted.
    Access,
    /// It could do harm.
    Caution,
    /// The policy trusts only commands that are known to only read.
    Trust,
}

fn approval_need(
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
        // A command that only reads gains nothing outside a sandbox in which it can read everything.
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
    (policies.asks_unless_known_safe() && !is_safe).then_some(ApprovalNeed::Trust)
}

/// Returns whether a command needs a question because it could do harm. In a sandbox, only for removals by force: other
/// accidents are confined, and questions about daily work are a nuisance. Without a sandbox, for every dangerous command,
/// unless the policy allows no questions: then all commands run.
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
    if let Some(cause) = policies.why_not_ask(need.topic(request)) {
        return CommandDecision::Refuse { why: format!("{cause}, and {}", need.obstacle()) };
    }
    let reason = match verdict {
        RuleVerdict::Prompt { justification } => Some(rule_reason(request.line, justification.as_deref())),
        _ => request.justification.map(str::to_owned),
    };
    let propose = || proposed_amendment(request.line, request.prefix_rule, policies.rules);
    CommandDecision::Ask(match need {
        // An answer cannot overrule the user's own rule.
        ApprovalNeed::Rule => CommandQuestion::new(reason, None, sandboxed),
        // A rule cannot grant permissions: it is named in the question, but not offered as an answer.
        ApprovalNeed::Access => {
            CommandQuestion { amendment: propose(), ..CommandQuestion::new(reason, None, sandboxed) }
        }
        ApprovalNeed::Escape | ApprovalNeed::Caution | ApprovalNeed::Trust => {
            CommandQuestion::new(reason, propose(), sandboxed)
        }
    })
}

impl ApprovalNeed {
    fn topic(self, request: &CommandRequest<'_>) -> QuestionTopic {
        match self {
            Self::Rule => QuestionTopic::Rules,
            // Permissions for one command belong to its sandbox. `QuestionTopic::Permissions` is for those that are
            // requested ahead of commands.
            Self::Escape | Self::Access | Self::Caution | Self::Trust => request.sandbox_topic(),
        }
    }

    /// Returns the reason for the model, which completes the sentence of `why_not_ask`, with an alternative if there is one.
    fn obstacle(self) -> &'static str {
        match self {
            Self::Rule => "a rule of the user requires approval for this command; do without it",
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
