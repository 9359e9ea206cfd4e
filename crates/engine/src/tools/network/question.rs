//! Asking whether a command may reach a host. Equal questions of a thread are asked once.

use std::collections::HashMap;

use codicil_policy::{
    AddressReach, HostName, NetworkDestination, NetworkOutcome, NetworkQuestion, NetworkRule,
    append_network_rule, settle_network,
};
use codicil_protocol::{
    CommandExecutionApproval, CommandExecutionApprovalKind, CommandExecutionRequestApprovalParams,
    NetworkApprovalContext, NetworkApprovalProtocol as Protocol,
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;

use super::CommandGate;
use crate::{
    clock::unix_now_ms,
    tools::{
        LOCAL_ENVIRONMENT, TurnTools,
        ask::{QuestionKind, QuestionReply},
        call::TurnCancelled,
        guardian,
    },
};

/// The addresses that may be reached, or why the host is refused.
pub(super) type HostAnswer = Result<AddressReach, String>;

const REJECTED: &str = "rejected by user";

/// The identity of a question.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct QuestionKey {
    host: HostName,
    port: u16,
    protocol: &'static str,
}

impl QuestionKey {
    pub fn new(to: &NetworkDestination) -> Self {
        let protocol = match &to.protocol {
            Protocol::Http => "http",
            Protocol::Https => "https",
            Protocol::Socks5Tcp => "socks5-tcp",
            Protocol::Socks5Udp => "socks5-udp",
            Protocol::Unrecognized(_) => "unknown",
        };
        Self { host: to.host.clone(), port: to.port, protocol }
    }

    /// Returns the id that distinguishes the questions about one command.
    fn approval_id(&self) -> String {
        format!("network#{}#{}#{}", self.protocol, self.host, self.port)
    }

    fn address(&self) -> String {
        format!("{}://{}:{}", self.protocol, self.host, self.port)
    }
}

/// The open questions of a thread about hosts.
#[derive(Default)]
pub(crate) struct HostQuestions(Mutex<HashMap<QuestionKey, watch::Receiver<Option<HostAnswer>>>>);

/// Who asks a question.
pub(super) enum QuestionState<'a> {
    /// The caller has to ask it.
    First(QuestionOwner<'a>),
    /// It is being asked already.
    Joined(watch::Receiver<Option<HostAnswer>>),
}

/// The duty to ask a question. When it is dropped without an answer, one of those that wait asks instead.
pub(super) struct QuestionOwner<'a> {
    questions: &'a HostQuestions,
    key: QuestionKey,
    answer: watch::Sender<Option<HostAnswer>>,
}

impl HostQuestions {
    pub(super) fn open(&self, to: &NetworkDestination) -> QuestionState<'_> {
        let key = QuestionKey::new(to);
        let mut open = self.0.lock();
        if let Some(asked) = open.get(&key) {
            return QuestionState::Joined(asked.clone());
        }
        let (answer, asked) = watch::channel(None);
        open.insert(key.clone(), asked);
        QuestionState::First(QuestionOwner { questions: self, key, answer })
    }
}

impl QuestionOwner<'_> {
    pub fn answer(self, answer: HostAnswer) {
        self.answer.send_replace(Some(answer));
    }
}

impl Drop for QuestionOwner<'_> {
    fn drop(&mut self) {
        self.questions.0.lock().remove(&self.key);
    }
}

impl CommandGate {
    /// Asks the user, or the guardian.
    pub(super) async fn ask(&self, to: &NetworkDestination, question: &NetworkQuestion) -> HostAnswer {
        let Some(turn) = self.turn.upgrade() else {
            return Err("approval is not possible: the turn that started the command is over".to_owned());
        };
        let key = QuestionKey::new(to);
        if guardian::is_enabled(&turn) {
            let action = json!({
                "tool": "network_access",
                "target": key.address(),
                "host": to.host.as_str(),
                "protocol": to.protocol,
                "port": to.port,
            });
            return match guardian::review(&turn, &self.item, action).await {
                Ok(ruling) => ruling.map(|()| question.reach),
                Err(TurnCancelled) => Err(REJECTED.to_owned()),
            };
        }
        let params = self.approval_params(&turn, &key, to, question);
        let answer = match turn.ask::<CommandExecutionApproval>(params, QuestionKind::Approval).await {
            Ok(QuestionReply::Answer(response)) => response.decision,
            Ok(QuestionReply::Unreadable) | Err(TurnCancelled) => return Err(REJECTED.to_owned()),
            Ok(QuestionReply::Error) => return Err("the client could not be asked for approval".to_owned()),
        };
        let outcome = settle_network(&answer, to, &mut self.thread.grants());
        match outcome {
            NetworkOutcome::Accepted { rule } => {
                self.store_rule(rule).await;
                Ok(question.reach)
            }
            NetworkOutcome::Declined { rule } => {
                self.store_rule(rule).await;
                Err(REJECTED.to_owned())
            }
            NetworkOutcome::Cancelled => {
                turn.interrupt();
                Err(REJECTED.to_owned())
            }
        }
    }

    /// The item names the command, so the question itself only names the host.
    fn approval_params(
        &self,
        turn: &TurnTools,
        key: &QuestionKey,
        to: &NetworkDestination,
        question: &NetworkQuestion,
    ) -> CommandExecutionRequestApprovalParams {
        CommandExecutionRequestApprovalParams {
            kind: CommandExecutionApprovalKind::Command,
            thread_id: turn.thread_id(),
            turn_id: turn.turn_id.clone(),
            item_id: self.item.clone(),
            started_at_ms: Some(unix_now_ms()),
            approval_id: Some(key.approval_id()),
            environment_id: Some(LOCAL_ENVIRONMENT.to_owned()),
            reason: Some(question.reason.clone()),
            network_approval_context: Some(NetworkApprovalContext {
                host: to.host.to_string(),
                protocol: to.protocol.clone(),
            }),
            command: None,
            cwd: None,
            command_actions: None,
            additional_permissions: None,
            proposed_execpolicy_amendment: None,
            proposed_network_policy_amendments: Some(question.amendments.clone()),
            available_decisions: Some(question.decisions.clone()),
        }
    }

    /// Stores the rule of an answer. If that fails, the rule still holds for the thread.
    async fn store_rule(&self, rule: Option<NetworkRule>) {
        let Some(rule) = rule else { return };
        let rules = self.thread.engine.config.home().rules_dir();
        let stored = tokio::task::spawn_blocking(move || append_network_rule(&rules, &rule)).await;
        match stored {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::error!("failed to store a network rule: {error}"),
            Err(error) => tracing::error!("failed to store a network rule: {error}"),
        }
    }
}
