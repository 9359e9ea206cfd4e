//! The network of confined commands, host by host.
//!
//! Where the configuration says so, a sandboxed command reaches the network only through the server's proxy. Each host
//! is decided by the pure functions of `policy`. If they say to ask, the question is asked in the name of the turn that
//! started the command (`question.rs`), and connections to the same host share one question. Once that turn has ended,
//! hosts that need a question are refused.

mod question;

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use codicil_policy::{
    AccessGrant, CommandRules, DomainRules, NetworkDecision, NetworkDestination, NetworkPolicies,
    NetworkQuestion, decide_network,
};
use codicil_protocol::{AskForApproval, ItemId};
use codicil_proxy::{CommandProxy, GateDecision, GateFuture, HostGate, ProxyRules};
use codicil_telemetry::spans::in_current_span;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{TurnTools, thread_tools::ThreadTools};
use question::{HostAnswer, QuestionKey, QuestionState};

pub(crate) use question::HostQuestions;

/// How many refusals of one command are reported to the model.
const MAX_REFUSALS: usize = 8;

/// The proxy of one command and the gate that decides for it. The proxy ends when this is dropped.
pub(super) struct CommandNetwork {
    pub gate: Arc<CommandGate>,
    _proxy: CommandProxy,
}

impl CommandNetwork {
    /// Starts the proxy that a spawned command connects to.
    pub fn open(
        listener: codicil_sandbox::ProxyListener,
        gate: CommandGate,
        rules: ProxyRules,
    ) -> std::io::Result<Self> {
        let gate = Arc::new(gate);
        let proxy = CommandProxy::start(listener.open()?, gate.clone(), rules)?;
        Ok(Self { gate, _proxy: proxy })
    }
}

/// Decides which hosts one command may reach.
pub(super) struct CommandGate {
    thread: Arc<ThreadTools>,
    /// The turn that started the command, while it lasts.
    turn: Weak<TurnTools>,
    turn_ended: CancellationToken,
    item: ItemId,
    approval: AskForApproval,
    domains: DomainRules,
    /// Whether the command was granted the whole network.
    has_full_network: bool,
    memory: Mutex<GateMemory>,
    /// The number of connections that wait for an answer.
    waiting: watch::Sender<usize>,
}

/// The answers and refusals for one command so far.
#[derive(Default)]
struct GateMemory {
    answers: HashMap<QuestionKey, HostAnswer>,
    /// Refusals that the model has not been shown yet, each once.
    refusals: Vec<String>,
}

impl CommandGate {
    pub fn new(turn: &TurnTools, item: ItemId, domains: DomainRules, access: &AccessGrant) -> Self {
        Self {
            thread: turn.thread.clone(),
            turn: turn.weak_self.clone(),
            turn_ended: turn.ended.clone(),
            item,
            approval: turn.settings.approval_policy.clone(),
            domains,
            has_full_network: access.network,
            memory: Mutex::default(),
            waiting: watch::Sender::new(0),
        }
    }

    /// Returns the refusals since the last call.
    pub fn take_refusals(&self) -> Vec<String> {
        std::mem::take(&mut self.memory.lock().refusals)
    }

    /// Watches the number of connections that wait for an answer.
    pub fn waiting(&self) -> watch::Receiver<usize> {
        self.waiting.subscribe()
    }

    async fn decide_and_record(&self, to: NetworkDestination) -> GateDecision {
        let decided = match self.decide_without_asking(&to).await {
            Ok(answer) => answer,
            Err(question) => self.ask_or_join(&to, &question).await,
        };
        match decided {
            Ok(reach) => GateDecision::Allowed(reach),
            Err(why) => {
                self.add_refusal(&to, &why);
                GateDecision::Denied(why)
            }
        }
    }

    /// Decides by earlier answers and policies; the error is the question that is left.
    async fn decide_without_asking(&self, to: &NetworkDestination) -> Result<HostAnswer, NetworkQuestion> {
        let remembered = self.memory.lock().answers.get(&QuestionKey::new(to)).cloned();
        if let Some(answer) = remembered {
            return Ok(answer);
        }
        match self.decide_by_policies(to).await {
            NetworkDecision::Connect(reach) => Ok(Ok(reach)),
            NetworkDecision::Refuse { why } => Ok(Err(why)),
            NetworkDecision::Ask(question) => Err(question),
        }
    }

    /// Decides by policies, rules and grants. Reads the rules from disk each time, because they may have changed.
    async fn decide_by_policies(&self, to: &NetworkDestination) -> NetworkDecision {
        let to = to.clone();
        let rules = self.thread.engine.config.home().rules_dir();
        let approval = self.approval.clone();
        let domains = self.domains.clone();
        let grants = self.thread.grants().clone();
        let has_full_network = self.has_full_network;
        let decide = move || {
            let (rules, errors) = CommandRules::load(&[rules]);
            errors.iter().for_each(|error| tracing::warn!("{error}"));
            let policies = NetworkPolicies {
                approval: &approval,
                rules: &rules,
                domains: &domains,
                grants: &grants,
                is_open: has_full_network,
            };
            decide_network(&to, &policies)
        };
        let refuse = |_panic| NetworkDecision::Refuse { why: "it could not be decided".to_owned() };
        tokio::task::spawn_blocking(in_current_span(decide)).await.unwrap_or_else(refuse)
    }

    /// Asks, or waits for the answer if the same question is open already. If the asking connection goes away, one of
    /// those that wait asks instead.
    async fn ask_or_join(&self, to: &NetworkDestination, question: &NetworkQuestion) -> HostAnswer {
        let _waiting = WaitGuard::new(&self.waiting);
        loop {
            match self.thread.network_questions.open(to) {
                QuestionState::First(asking) => {
                    // The question may have been answered since it was decided to ask.
                    if let Ok(answer) = self.decide_without_asking(to).await {
                        return answer;
                    }
                    let ended = "approval is no longer possible: the turn that started the command is over";
                    let answer = tokio::select! {
                        biased;
                        () = self.turn_ended.cancelled() => Err(ended.to_owned()),
                        answer = self.ask(to, question) => answer,
                    };
                    // Programs connect to a host many times; the user is asked once.
                    self.memory.lock().answers.insert(QuestionKey::new(to), answer.clone());
                    asking.answer(answer.clone());
                    return answer;
                }
                QuestionState::Joined(mut answer) => {
                    if let Ok(answer) = answer.wait_for(Option::is_some).await
                        && let Some(answer) = &*answer
                    {
                        self.memory.lock().answers.insert(QuestionKey::new(to), answer.clone());
                        return answer.clone();
                    }
                }
            }
        }
    }

    fn add_refusal(&self, to: &NetworkDestination, why: &str) {
        let refusal = format!("network access to {}:{} was refused: {why}", to.host, to.port);
        let mut memory = self.memory.lock();
        if memory.refusals.len() < MAX_REFUSALS && !memory.refusals.contains(&refusal) {
            memory.refusals.push(refusal);
        }
    }
}

impl HostGate for CommandGate {
    fn decide(&self, to: NetworkDestination) -> GateFuture<'_> {
        Box::pin(self.decide_and_record(to))
    }
}

/// Counts a connection while it waits for an answer.
struct WaitGuard<'a>(&'a watch::Sender<usize>);

impl<'a> WaitGuard<'a> {
    fn new(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count)
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}
