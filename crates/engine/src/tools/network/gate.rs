//! Decides, for one command, which hosts it reaches.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use codicil_policy::{
    CommandRules, DomainRules, NetworkDecision, NetworkDestination, NetworkPolicies, NetworkQuestion,
    decide_network,
};
use codicil_protocol::{AskForApproval, ItemId};
use codicil_proxy::{GateDecision, GateFuture, HostGate};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::question::{HostAnswer, QuestionKey, QuestionState};
use crate::tools::{TurnTools, kit::ThreadTools};

/// Refusals that the model is told of; more say no more.
const MOST_REFUSALS: usize = 8;

/// The gate of one command.
pub(in crate::tools) struct CommandGate {
    pub(super) kit: Arc<ThreadTools>,
    /// The turn that started the command, while it lasts.
    pub(super) tools: Weak<TurnTools>,
    over: CancellationToken,
    pub(super) item: ItemId,
    approval: AskForApproval,
    domains: DomainRules,
    /// Whether the command was granted all of the network.
    is_open: bool,
    memory: Mutex<GateMemory>,
    /// How many connections wait for a person.
    waiting: watch::Sender<usize>,
}

/// What people have said about the command's connections so far.
#[derive(Default)]
struct GateMemory {
    answers: HashMap<QuestionKey, HostAnswer>,
    /// Why hosts were refused, each once.
    refusals: Vec<String>,
}

impl CommandGate {
    pub fn new(tools: &TurnTools, item: ItemId, domains: DomainRules, is_open: bool) -> Self {
        Self {
            kit: tools.kit.clone(),
            tools: tools.me.clone(),
            over: tools.over.clone(),
            item,
            approval: tools.settings.approval_policy.clone(),
            domains,
            is_open,
            memory: Mutex::default(),
            waiting: watch::Sender::new(0),
        }
    }

    /// What was refused since somebody last wanted to know.
    pub fn take_refusals(&self) -> Vec<String> {
        std::mem::take(&mut self.memory().refusals)
    }

    /// How many connections wait for a person; to be watched.
    pub fn waiting(&self) -> watch::Receiver<usize> {
        self.waiting.subscribe()
    }

    fn memory(&self) -> MutexGuard<'_, GateMemory> {
        self.memory.lock()
    }

    async fn decide(&self, to: NetworkDestination) -> GateDecision {
        let decided = match self.settled(&to).await {
            Ok(answer) => answer,
            Err(question) => self.ask_or_join(&to, &question).await,
        };
        match decided {
            Ok(reach) => GateDecision::Open(reach),
            Err(why) => {
                self.note(&to, &why);
                GateDecision::Shut(why)
            }
        }
    }

    /// What is known without asking, or what to ask.
    async fn settled(&self, to: &NetworkDestination) -> Result<HostAnswer, NetworkQuestion> {
        let remembered = self.memory().answers.get(&QuestionKey::of(to)).cloned();
        if let Some(answer) = remembered {
            return Ok(answer);
        }
        match self.look_up(to).await {
            NetworkDecision::Connect(reach) => Ok(Ok(reach)),
            NetworkDecision::Refuse { why } => Ok(Err(why)),
            NetworkDecision::Ask(question) => Err(question),
        }
    }

    /// What policies, rules and earlier answers say. The rules are on disk, and may have changed.
    async fn look_up(&self, to: &NetworkDestination) -> NetworkDecision {
        let rules = self.kit.engine.config.home().rules_dir();
        let (approval, domains, is_open) = (self.approval.clone(), self.domains.clone(), self.is_open);
        let (grants, to) = (self.kit.grants().clone(), to.clone());
        let decide = move || {
            let (rules, errors) = CommandRules::load(&[rules]);
            errors.iter().for_each(|error| tracing::warn!("{error}"));
            let policies = NetworkPolicies {
                approval: &approval,
                rules: &rules,
                domains: &domains,
                grants: &grants,
                is_open,
            };
            decide_network(&to, &policies)
        };
        let refuse = |_| NetworkDecision::Refuse { why: "it could not be decided".to_owned() };
        tokio::task::spawn_blocking(decide).await.unwrap_or_else(refuse)
    }

    /// Asks, unless somebody else is asking the same. Who asks may go away; then another takes over.
    async fn ask_or_join(&self, to: &NetworkDestination, question: &NetworkQuestion) -> HostAnswer {
        let _waiting = WaitGuard::new(&self.waiting);
        loop {
            match self.kit.network_questions.place(to) {
                QuestionState::First(asking) => {
                    // The same may have been asked and answered a moment ago.
                    if let Ok(answer) = self.settled(to).await {
                        return answer;
                    }
                    let over = "nobody can be asked any more: the turn that started the command is over";
                    let answer = tokio::select! {
                        biased;
                        () = self.over.cancelled() => Err(over.to_owned()),
                        answer = self.ask(to, question) => answer,
                    };
                    // A program connects many times; its person is asked once.
                    self.memory().answers.insert(QuestionKey::of(to), answer.clone());
                    asking.answer(answer.clone());
                    return answer;
                }
                QuestionState::Joined(mut answer) => {
                    if let Ok(answer) = answer.wait_for(Option::is_some).await
                        && let Some(answer) = &*answer
                    {
                        self.memory().answers.insert(QuestionKey::of(to), answer.clone());
                        return answer.clone();
                    }
                }
            }
        }
    }

    fn note(&self, to: &NetworkDestination, why: &str) {
        let note = format!("network access to {}:{} was refused: {why}", to.host, to.port);
        let mut memory = self.memory();
        if memory.refusals.len() < MOST_REFUSALS && !memory.refusals.contains(&note) {
            memory.refusals.push(note);
        }
    }
}

impl HostGate for CommandGate {
    fn pass(&self, to: NetworkDestination) -> GateFuture<'_> {
        Box::pin(self.decide(to))
    }
}

/// Counts a connection for as long as it waits.
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
