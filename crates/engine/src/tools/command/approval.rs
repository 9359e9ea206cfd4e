//! May a command run? Looked up in the policies, and asked where these say so.

use std::path::PathBuf;

use codicil_policy::{
    ApprovalOutcome, CommandDecision, CommandLine, CommandQuestion, CommandRequest, CommandRules,
    DecisionPolicies, SandboxPermissions, ThreadGrants, append_rule, command_actions, decide_command,
    decide_retry, settle_command,
};
use codicil_protocol::{
    AdditionalPermissionProfile, AskForApproval, CommandExecutionApproval,
    CommandExecutionRequestApprovalParams, CommandExecutionStatus, SandboxPolicy,
};
use serde_json::json;

use super::{AssessedCommand, CommandEnd, CommandItem, RequestedCommand, TurnTools};
use crate::{
    clock::unix_now_ms,
    tools::{
        ask::{QuestionKind, QuestionReply},
        call::TurnCancelled,
        permissions::in_words,
    },
};

/// What was decided about a command.
pub(super) enum CommandVerdict {
    Run { sandboxed: bool },
    No { status: CommandExecutionStatus, why: String },
}

/// Who was asked about a command before it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskedReviewer {
    Nobody,
    /// Somebody, who agreed, and so to what the command takes.
    Agreed,
}

/// Everything a decision depends on, owned, so that it can be made where blocking is allowed.
struct DecisionInputs {
    approval: AskForApproval,
    sandbox: SandboxPolicy,
    rules: PathBuf,
    grants: ThreadGrants,
}

impl DecisionInputs {
    fn decide(&self, wanted: &RequestedCommand, line: &CommandLine, how: DecideFn) -> CommandDecision {
        let (rules, errors) = CommandRules::load(std::slice::from_ref(&self.rules));
        for error in errors {
            tracing::warn!("{error}");
        }
        let (approval, sandbox, grants) = (&self.approval, &self.sandbox, &self.grants);
        how(&request(wanted, line), &DecisionPolicies { approval, sandbox, rules: &rules, grants })
    }
}

type DecideFn = fn(&CommandRequest<'_>, &DecisionPolicies<'_>) -> CommandDecision;

fn request<'a>(wanted: &'a RequestedCommand, line: &'a CommandLine) -> CommandRequest<'a> {
    CommandRequest {
        line,
        cwd: &wanted.cwd,
        permissions: &wanted.permissions,
        justification: wanted.justification.as_deref(),
        prefix_rule: wanted.prefix_rule.as_deref(),
    }
}

impl TurnTools {
    /// Reads the command and finds out what the policies say about it.
    pub(super) async fn assess(&self, wanted: &RequestedCommand) -> Result<AssessedCommand, TurnCancelled> {
        let (circumstances, wanted) = (self.circumstances(), wanted.clone());
        let assess = move || {
            let line = CommandLine::new(wanted.argv.clone());
            let decision = circumstances.decide(&wanted, &line, decide_command);
            AssessedCommand { actions: command_actions(&line), line, decision }
        };
        // Only a panic ends up in the error; then nothing is known, and nothing runs.
        tokio::task::spawn_blocking(assess).await.map_err(|_| TurnCancelled)
    }

    fn circumstances(&self) -> DecisionInputs {
        DecisionInputs {
            approval: self.settings.approval_policy.clone(),
            sandbox: self.settings.sandbox.clone(),
            rules: self.kit.engine.config.home().rules_dir(),
            grants: self.kit.grants().clone(),
        }
    }

    /// Asks whether a command may run. A person who cancels ends the turn.
    pub(super) async fn ask_command(
        &self,
        wanted: &RequestedCommand,
        assessed: &AssessedCommand,
        item: &CommandItem,
        question: &CommandQuestion,
    ) -> Result<CommandVerdict, TurnCancelled> {
        if self.is_guarded() {
            let action = json!({ "tool": wanted.tool, "command": item.command, "cwd": item.cwd });
            return Ok(match self.consult_guardian(&item.id, action).await? {
                Ok(()) => CommandVerdict::Run { sandboxed: question.sandboxed },
                Err(why) => CommandVerdict::No { status: CommandExecutionStatus::Declined, why },
            });
        }
        let params = self.approval_params(wanted, item, question);
        let reply = self.ask::<CommandExecutionApproval>(params, QuestionKind::Approval).await?;
        let declined = |why: &str| {
            Ok(CommandVerdict::No { status: CommandExecutionStatus::Declined, why: why.to_owned() })
        };
        let answer = match reply {
            QuestionReply::Answer(response) => response.decision,
            QuestionReply::Nonsense => return declined("rejected by user"),
            QuestionReply::Error => {
                let why = "the client could not be asked for approval".to_owned();
                return Ok(CommandVerdict::No { status: CommandExecutionStatus::Failed, why });
            }
        };
        let request = request(wanted, &assessed.line);
        let outcome = settle_command(&answer, &request, question, &mut self.kit.grants());
        match outcome {
            ApprovalOutcome::Accepted { amendment: None } => {
                Ok(CommandVerdict::Run { sandboxed: question.sandboxed })
            }
            ApprovalOutcome::Accepted { amendment: Some(words) } => {
                self.amend_rules(words).await;
                Ok(CommandVerdict::Run { sandboxed: question.sandboxed })
            }
            ApprovalOutcome::Declined => declined("rejected by user"),
            ApprovalOutcome::Cancelled => {
                let end = CommandEnd::without_run(CommandExecutionStatus::Declined);
                self.say_ended(item, end).await;
                Err(self.interrupt())
            }
        }
    }

    /// Asks whether a command that the sandbox stopped may run without. `None` when nobody is to be asked.
    pub(super) async fn ask_retry(
        &self,
        wanted: &RequestedCommand,
        assessed: &AssessedCommand,
        item: &CommandItem,
        asked: AskedReviewer,
    ) -> Result<Option<CommandVerdict>, TurnCancelled> {
        let (circumstances, owned, line) = (self.circumstances(), wanted.clone(), assessed.line.clone());
        let decide = move || circumstances.decide(&owned, &line, decide_retry);
        match tokio::task::spawn_blocking(decide).await.map_err(|_| TurnCancelled)? {
            CommandDecision::Run { sandboxed } => Ok(Some(CommandVerdict::Run { sandboxed })),
            CommandDecision::Refuse { .. } => Ok(None),
            CommandDecision::Ask(_) if asked == AskedReviewer::Agreed => {
                Ok(Some(CommandVerdict::Run { sandboxed: false }))
            }
            CommandDecision::Ask(question) => {
                self.ask_command(wanted, assessed, item, &question).await.map(Some)
            }
        }
    }

    fn approval_params(
        &self,
        wanted: &RequestedCommand,
        item: &CommandItem,
        question: &CommandQuestion,
    ) -> CommandExecutionRequestApprovalParams {
        let additional = match &wanted.permissions {
            SandboxPermissions::WithAdditional(access) => {
                let (network, file_system) = in_words(access);
                Some(AdditionalPermissionProfile { network, file_system })
            }
            SandboxPermissions::UseDefault | SandboxPermissions::RequireEscalated => None,
        };
        CommandExecutionRequestApprovalParams {
            thread_id: self.kit.thread.clone(),
            turn_id: self.turn.clone(),
            item_id: item.id.clone(),
            started_at_ms: Some(unix_now_ms()),
            approval_id: None,
            reason: question.reason.clone(),
            network_approval_context: None,
            command: Some(item.command.clone()),
            cwd: Some(item.cwd.clone()),
            command_actions: Some(item.actions.clone()),
            additional_permissions: additional,
            proposed_execpolicy_amendment: question.amendment.clone(),
            proposed_network_policy_amendments: None,
            available_decisions: Some(question.decisions.clone()),
        }
    }

    /// Writes a rule that somebody agreed to. The command runs even if that fails: it was agreed to as well.
    async fn amend_rules(&self, words: Vec<String>) {
        let rules = self.kit.engine.config.home().rules_dir();
        let appended = tokio::task::spawn_blocking(move || append_rule(&rules, &words)).await;
        match appended {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::error!("a rule could not be kept: {error}"),
            Err(error) => tracing::error!("a rule could not be kept: {error}"),
        }
    }
}
