//! Whether a command may run: decided by the policies, and asked where these say so.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use codicil_config::EffectiveConfig;
use codicil_extensions::Extensions;
use codicil_policy::{
    ApprovalOutcome, CommandDecision, CommandLine, CommandQuestion, CommandRequest, CommandRules,
    DecisionPolicies, SandboxPermissions, ThreadGrants, append_rule, command_actions, decide_command,
    decide_retry, settle_command,
};
use codicil_protocol::{
    AdditionalPermissionProfile, AskForApproval, CommandAction, CommandExecutionApproval,
    CommandExecutionApprovalKind, CommandExecutionRequestApprovalParams, CommandExecutionStatus,
    SandboxPolicy,
};
use codicil_telemetry::spans::in_current_span;
use serde_json::json;

use super::{CommandRun, RequestedCommand, SandboxMode};
use crate::{
    clock::unix_now_ms,
    tools::{
        LOCAL_ENVIRONMENT, TurnTools,
        ask::{AskingCall, QuestionKind, QuestionReply},
        call::TurnCancelled,
        guardian,
        request_permissions::WirePermissions,
    },
};

/// A parsed command and the policies' decision about it.
pub(super) struct AssessedCommand {
    pub line: CommandLine,
    pub actions: Vec<CommandAction>,
    pub decision: CommandDecision,
}

/// What an approval is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskedAbout {
    /// Nothing has happened yet, so the request outlives the process.
    FirstRun,
    /// The command has run in the sandbox and may run again without it.
    Retry,
}

/// The user's or the guardian's decision about a command.
pub(super) enum CommandVerdict {
    Run(SandboxMode),
    Rejected { status: CommandExecutionStatus, why: String },
}

/// Parses a command and looks up the policies.
pub(super) async fn assess(
    turn: &TurnTools,
    request: &RequestedCommand,
) -> Result<AssessedCommand, TurnCancelled> {
    let inputs = DecisionInputs::new(turn);
    let request = request.clone();
    let own_shell = turn.thread.engine.shell().await;
    let assess = move || {
        let own_shell = own_shell.path().to_string_lossy();
        let line = CommandLine::with_own_shell(request.argv.clone(), &own_shell);
        let decision = inputs.decide(&request, &line, decide_command);
        AssessedCommand { actions: command_actions(&line), line, decision }
    };
    // A panic means that nothing is decided, so the command must not run.
    tokio::task::spawn_blocking(in_current_span(assess)).await.map_err(|_panic| TurnCancelled)
}

/// Everything that a decision depends on, owned, so that it can be made on a blocking thread.
struct DecisionInputs {
    approval: AskForApproval,
    sandbox: SandboxPolicy,
    rules: PathBuf,
    grants: ThreadGrants,
    skills: SkillSources,
}

/// Where the skills of the thread are found.
struct SkillSources {
    extensions: Extensions,
    cwd: PathBuf,
    config: Arc<EffectiveConfig>,
}

impl SkillSources {
    /// Returns the directories of the skills. Only the policy `granular` distinguishes their commands. Blocks.
    fn folders(&self, approval: &AskForApproval) -> Vec<PathBuf> {
        if !matches!(approval, AskForApproval::Granular { .. }) {
            return Vec::new();
        }
        let found = self.extensions.skills.at(&self.cwd, &self.config).skills;
        found
            .iter()
            .filter_map(|skill| Path::new(&skill.metadata.path).parent())
            .map(Path::to_owned)
            .collect()
    }
}

type DecideFn = fn(&CommandRequest<'_>, &DecisionPolicies<'_>) -> CommandDecision;

impl DecisionInputs {
    fn new(turn: &TurnTools) -> Self {
        Self {
            approval: turn.settings.approval_policy.clone(),
            sandbox: turn.settings.sandbox.clone(),
            rules: turn.thread.engine.config.home().rules_dir(),
            grants: turn.thread.grants().clone(),
            skills: SkillSources {
                extensions: turn.thread.engine.extensions.clone(),
                cwd: turn.settings.cwd.clone(),
                config: turn.config.clone(),
            },
        }
    }

    /// Reads the rules from disk and decides. Blocks.
    fn decide(&self, request: &RequestedCommand, line: &CommandLine, decide: DecideFn) -> CommandDecision {
        let (rules, errors) = CommandRules::load(std::slice::from_ref(&self.rules));
        for error in errors {
            tracing::warn!("{error}");
        }
        let policies = DecisionPolicies {
            approval: &self.approval,
            sandbox: &self.sandbox,
            rules: &rules,
            grants: &self.grants,
        };
        let skill_folders = self.skills.folders(&self.approval);
        decide(&policy_request(request, line, &skill_folders), &policies)
    }
}

fn policy_request<'a>(
    request: &'a RequestedCommand,
    line: &'a CommandLine,
    skill_folders: &'a [PathBuf],
) -> CommandRequest<'a> {
    CommandRequest {
        line,
        cwd: &request.cwd,
        permissions: &request.permissions,
        justification: request.justification.as_deref(),
        prefix_rule: request.prefix_rule.as_deref(),
        skill_folders,
    }
}

impl CommandRun<'_> {
    /// Asks whether the command may run. If the user cancels, the turn is interrupted.
    pub(super) async fn ask(
        &self,
        question: &CommandQuestion,
        about: AskedAbout,
    ) -> Result<CommandVerdict, TurnCancelled> {
        let run = || Ok(CommandVerdict::Run(SandboxMode::new(question.sandboxed)));
        let declined =
            |why: String| Ok(CommandVerdict::Rejected { status: CommandExecutionStatus::Declined, why });
        let turn = self.turn;
        if guardian::is_enabled(turn) {
            let action = json!({
                "tool": self.request.tool,
                "command": self.item.command,
                "cwd": self.item.cwd,
            });
            return match guardian::review(turn, &self.item.id, action).await? {
                Ok(()) => run(),
                Err(why) => declined(why),
            };
        }
        let params = self.approval_params(question);
        let reply = match about {
            AskedAbout::FirstRun => {
                let asker = AskingCall { call_id: &self.item.id, item: Some(self.item.started()) };
                turn.ask_durably::<CommandExecutionApproval>(params, QuestionKind::Approval, asker).await?
            }
            AskedAbout::Retry => turn.ask::<CommandExecutionApproval>(params, QuestionKind::Approval).await?,
        };
        let decision = match reply {
            QuestionReply::Answer(response) => response.decision,
            QuestionReply::Unreadable => return declined("rejected by user".to_owned()),
            QuestionReply::Error => {
                return Ok(CommandVerdict::Rejected {
                    status: CommandExecutionStatus::Failed,
                    why: "the client could not be asked for approval".to_owned(),
                });
            }
        };
        // The answer counts whatever the question was about.
        let request = policy_request(self.request, &self.line, &[]);
        let outcome = settle_command(&decision, &request, question, &mut turn.thread.grants());
        match outcome {
            ApprovalOutcome::Accepted { amendment } => {
                if let Some(prefix) = amendment {
                    store_rule(turn, prefix).await;
                }
                run()
            }
            ApprovalOutcome::Declined => declined("rejected by user".to_owned()),
            ApprovalOutcome::Cancelled => {
                self.emit_not_run(CommandExecutionStatus::Declined).await;
                Err(turn.interrupt())
            }
        }
    }

    /// Asks whether a command that the sandbox stopped may run without it. `None` if the policies do not allow the
    /// question. A command that was approved before it ran is not asked about again.
    pub(super) async fn ask_retry(&self) -> Result<Option<CommandVerdict>, TurnCancelled> {
        let inputs = DecisionInputs::new(self.turn);
        let request = self.request.clone();
        let line = self.line.clone();
        let decide = move || inputs.decide(&request, &line, decide_retry);
        match tokio::task::spawn_blocking(in_current_span(decide)).await.map_err(|_panic| TurnCancelled)? {
            CommandDecision::Run { sandboxed } => Ok(Some(CommandVerdict::Run(SandboxMode::new(sandboxed)))),
            CommandDecision::Refuse { .. } => Ok(None),
            CommandDecision::Ask(_) if self.is_approved => {
                Ok(Some(CommandVerdict::Run(SandboxMode::Unsandboxed)))
            }
            CommandDecision::Ask(question) => self.ask(&question, AskedAbout::Retry).await.map(Some),
        }
    }

    fn approval_params(&self, question: &CommandQuestion) -> CommandExecutionRequestApprovalParams {
        let additional_permissions = match &self.request.permissions {
            SandboxPermissions::WithAdditional(access) => {
                let WirePermissions { network, file_system } = WirePermissions::from(access);
                Some(AdditionalPermissionProfile { network, file_system })
            }
            SandboxPermissions::UseDefault | SandboxPermissions::RequireEscalated => None,
        };
        CommandExecutionRequestApprovalParams {
            kind: CommandExecutionApprovalKind::Command,
            thread_id: self.turn.thread_id(),
            turn_id: self.turn.turn_id.clone(),
            item_id: self.item.id.clone(),
            started_at_ms: Some(unix_now_ms()),
            approval_id: None,
            environment_id: Some(LOCAL_ENVIRONMENT.to_owned()),
            reason: question.reason.clone(),
            network_approval_context: None,
            command: Some(self.item.command.clone()),
            cwd: Some(self.item.cwd.clone()),
            command_actions: Some(self.item.actions.clone()),
            additional_permissions,
            proposed_execpolicy_amendment: question.amendment.clone(),
            proposed_network_policy_amendments: None,
            available_decisions: Some(question.decisions.clone()),
        }
    }
}

/// Stores a rule that the user accepted. The command runs even if that fails, because it was approved as well.
async fn store_rule(turn: &TurnTools, prefix: Vec<String>) {
    let rules = turn.thread.engine.config.home().rules_dir();
    match tokio::task::spawn_blocking(move || append_rule(&rules, &prefix)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::error!("failed to store a command rule: {error}"),
        Err(error) => tracing::error!("failed to store a command rule: {error}"),
    }
}
