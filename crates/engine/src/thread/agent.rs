//! A thread as the agent of another one, and as one that has agents.

use codicil_prompts::ContextSnapshot;
use codicil_protocol::{
    CollabAgentState, CollabAgentStatus, Personality, ResponseItem, TurnError, TurnId, TurnStatus,
};
use codicil_store::{Record, complete_calls};

use super::{TurnKind, active::ActiveTurn, actor::ThreadActor, input::context_record};
use crate::kin::{self, SubagentOrigin};

/// Notices that may wait for one request; of more, the oldest go.
const MAX_NOTICES: usize = 64;

/// What a copy of a thread begins with, in an agent that is to know everything its parent knows.
#[derive(Debug)]
pub(crate) struct InheritedHistory {
    pub history: Vec<ResponseItem>,
    pub told: Option<ContextSnapshot>,
    pub tone: Option<Personality>,
}

impl ThreadActor {
    /// Something to know that nobody said. A running turn takes it in with its next request; else it waits in
    /// the history for the next turn.
    pub(super) async fn on_notice(&mut self, item: ResponseItem) {
        if let Some(active) = &mut self.active {
            if active.notices.len() >= MAX_NOTICES {
                active.notices.remove(0);
            }
            return active.notices.push(item);
        }
        if let Err(error) = self.store(vec![Record::Context { turn_id: None, item: item.clone() }]).await {
            tracing::error!(thread = %self.state.id, "a notice could not be stored: {error}");
        }
        self.state.remember([item]);
    }

    /// What arrived meanwhile becomes part of the conversation.
    pub(super) async fn take_notices(&mut self, turn: &TurnId) {
        if self.is_reviewing() {
            return;
        }
        let notices = self.active.as_mut().map(|active| std::mem::take(&mut active.notices));
        let notices = notices.unwrap_or_default();
        let records = notices.iter().map(|item| context_record(turn, item)).collect();
        if self.keep(records).await {
            self.say_raw(turn, &notices);
        }
        self.state.remember(notices);
    }

    pub(super) fn inheritance(&self) -> InheritedHistory {
        let history = self.state.history.iter().map(|item| item.item().clone()).collect();
        InheritedHistory {
            history: complete_calls(history),
            told: self.state.told.clone(),
            tone: self.state.tone,
        }
    }

    pub(super) fn begin_progress(&self) {
        self.progress.send_replace(kin::state(CollabAgentStatus::Running));
    }

    /// Last of all: whoever waits for the end may at once ask for more.
    pub(super) fn end_progress(&self, progress: Option<CollabAgentState>) {
        if let Some(progress) = progress {
            self.progress.send_replace(progress);
        }
    }

    /// Tells the thread whose agent this is, if it is still there, that the agent is done.
    pub(super) async fn tell_parent(&self, progress: Option<&CollabAgentState>) {
        let Some(progress) = progress.filter(|progress| kin::is_final(&progress.status)) else { return };
        let Some(kin) = SubagentOrigin::of(&self.state.source) else { return };
        let parent = self.kit.subagents.threads.upgrade().and_then(|threads| threads.get(&kin.parent).ok());
        if let Some(parent) = parent {
            let nickname = self.state.agent_nickname.as_deref();
            parent.notice(codicil_prompts::subagent_notification(&self.state.id, nickname, progress)).await;
        }
    }
}

impl ActiveTurn {
    /// Whether something waits for a request that the turn itself does not need.
    pub(super) fn has_news(&self) -> bool {
        self.kind == TurnKind::Regular && !self.notices.is_empty()
    }
}

/// What the end of a turn means for whoever waits for the agent. Only what it was told to do counts.
pub(super) fn progress_of(
    active: &ActiveTurn,
    status: &TurnStatus,
    error: Option<&TurnError>,
) -> Option<CollabAgentState> {
    if active.kind != TurnKind::Regular {
        return None;
    }
    Some(match (status, error) {
        (TurnStatus::Interrupted, _) => kin::state(CollabAgentStatus::Interrupted),
        (_, Some(error)) => kin::state_with(CollabAgentStatus::Errored, &error.message),
        _ => match &active.last_words {
            Some(words) => kin::state_with(CollabAgentStatus::Completed, words),
            None => kin::state(CollabAgentStatus::Completed),
        },
    })
}
