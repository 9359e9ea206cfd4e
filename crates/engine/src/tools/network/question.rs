//! Asking whether a command may reach a host: one question for all who want to know the same.

use std::collections::HashMap;

use codicil_policy::{
    AddressReach, HostName, NetworkDestination, NetworkOutcome, NetworkQuestion, NetworkRule,
    append_network_rule, settle_network,
};
use codicil_protocol::{
    CommandExecutionApproval, CommandExecutionRequestApprovalParams, NetworkApprovalContext,
    NetworkApprovalProtocol as Protocol,
};
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use tokio::sync::watch;

use super::gate::CommandGate;
use crate::{
    clock::unix_now_ms,
    tools::{
        TurnTools,
        ask::{QuestionKind, QuestionReply},
        call::TurnCancelled,
    },
};

/// Which addresses may be reached, or why none.
pub(super) type HostAnswer = Result<AddressReach, String>;

const REJECTED: &str = "rejected by user";

/// What questions are told apart by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct QuestionKey {
    host: HostName,
    port: u16,
    protocol: &'static str,
}

impl QuestionKey {
    pub fn of(to: &NetworkDestination) -> Self {
        let protocol = match &to.protocol {
            Protocol::Http => "http",
            Protocol::Https => "https",
            Protocol::Socks5Tcp => "socks5-tcp",
            Protocol::Socks5Udp => "socks5-udp",
            Protocol::Unrecognized(_) => "unknown",
        };
        Self { host: to.host.clone(), port: to.port, protocol }
    }

    /// Tells apart what is asked about one command.
    fn approval_id(&self) -> String {
        format!("network#{}#{}#{}", self.protocol, self.host, self.port)
    }

    fn address(&self) -> String {
        format!("{}://{}:{}", self.protocol, self.host, self.port)
    }
}

/// The questions of a thread about hosts that are open.
#[derive(Default)]
pub(crate) struct HostQuestions(Mutex<HashMap<QuestionKey, watch::Receiver<Option<HostAnswer>>>>);

/// Whether somebody is asking already.
pub(super) enum QuestionState<'a> {
    First(QuestionOwner<'a>),
    Joined(watch::Receiver<Option<HostAnswer>>),
}

/// The one that asks. When it is dropped without an answer, those who wait ask themselves.
pub(super) struct QuestionOwner<'a> {
    questions: &'a HostQuestions,
    key: QuestionKey,
    answer: watch::Sender<Option<HostAnswer>>,
}

impl HostQuestions {
    pub(super) fn place(&self, to: &NetworkDestination) -> QuestionState<'_> {
        let key = QuestionKey::of(to);
        let mut open = self.lock();
        if let Some(asked) = open.get(&key) {
            return QuestionState::Joined(asked.clone());
        }
        let (answer, asked) = watch::channel(None);
        open.insert(key.clone(), asked);
        QuestionState::First(QuestionOwner { questions: self, key, answer })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<QuestionKey, watch::Receiver<Option<HostAnswer>>>> {
        self.0.lock()
    }
}

impl QuestionOwner<'_> {
    pub fn answer(self, answer: HostAnswer) {
        self.answer.send_replace(Some(answer));
    }
}

impl Drop for QuestionOwner<'_> {
    fn drop(&mut self) {
        self.questions.lock().remove(&self.key);
    }
}

impl CommandGate {
    /// Asks the thread's people, or the guardian in their place.
    pub(super) async fn ask(&self, to: &NetworkDestination, question: &NetworkQuestion) -> HostAnswer {
        let Some(tools) = self.tools.upgrade() else {
            return Err("nobody can be asked: the turn that started the command is over".to_owned());
        };
        let key = QuestionKey::of(to);
        if tools.is_guarded() {
            let action = json!({
                "tool": "network_access",
                "target": key.address(),
                "host": to.host.as_str(),
                "protocol": to.protocol,
                "port": to.port,
            });
            return match tools.consult_guardian(&self.item, action).await {
                Ok(ruling) => ruling.map(|()| question.reach),
                Err(TurnCancelled) => Err(REJECTED.to_owned()),
            };
        }
        let params = self.params(&tools, &key, to, question);
        let answer = match tools.ask::<CommandExecutionApproval>(params, QuestionKind::Approval).await {
            Ok(QuestionReply::Answer(response)) => response.decision,
            Ok(QuestionReply::Nonsense) | Err(TurnCancelled) => return Err(REJECTED.to_owned()),
            Ok(QuestionReply::Error) => return Err("the client could not be asked for approval".to_owned()),
        };
        let outcome = settle_network(&answer, to, &mut self.kit.grants());
        match outcome {
            NetworkOutcome::Accepted { rule } => {
                self.keep(rule).await;
                Ok(question.reach)
            }
            NetworkOutcome::Declined { rule } => {
                self.keep(rule).await;
                Err(REJECTED.to_owned())
            }
            NetworkOutcome::Cancelled => {
                tools.interrupt();
                Err(REJECTED.to_owned())
            }
        }
    }

    /// The question says what is to be reached; the item says by which command.
    fn params(
        &self,
        tools: &TurnTools,
        key: &QuestionKey,
        to: &NetworkDestination,
        question: &NetworkQuestion,
    ) -> CommandExecutionRequestApprovalParams {
        CommandExecutionRequestApprovalParams {
            thread_id: self.kit.thread.clone(),
            turn_id: tools.turn.clone(),
            item_id: self.item.clone(),
            started_at_ms: Some(unix_now_ms()),
            approval_id: Some(key.approval_id()),
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

    /// Writes a rule that somebody laid down. If that fails, it holds for the thread at least.
    async fn keep(&self, rule: Option<NetworkRule>) {
        let Some(rule) = rule else { return };
        let rules = self.kit.engine.config.home().rules_dir();
        let kept = tokio::task::spawn_blocking(move || append_network_rule(&rules, &rule)).await;
        match kept {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::error!("a rule could not be kept: {error}"),
            Err(error) => tracing::error!("a rule could not be kept: {error}"),
        }
    }
}
