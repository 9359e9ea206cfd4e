//! Responses with stored turns. The items of a stored turn are JSON, which is copied into the response.

use codicil_engine::{OpenedThread, ThreadProfile, ThreadRead, ThreadSubscription, TurnSettings};
use codicil_protocol::{
    CodicilOpenRequest, MessageSeq, MultiAgentMode, SubagentPosition, ThreadTurnsListResponse,
};
use codicil_store::ThreadJson;
use serde::{Serialize, Serializer, ser::SerializeStruct};

/// Serializes as `ThreadResumeResponse` and `ThreadForkResponse`.
pub struct OpenedJson {
    pub opened: OpenedThread,
    pub instruction_sources: Vec<String>,
    /// The members that only `ThreadResumeResponse` has.
    pub resumed: Option<ResumedMembers>,
    /// The position of the thread, for clients with a cursor.
    pub seq: Option<MessageSeq>,
}

/// The members of a response to `thread/resume` that one to `thread/fork` does not have.
pub struct ResumedMembers {
    pub turns_backwards_cursor: Option<String>,
    pub items_backwards_cursor: Option<String>,
    pub initial_turns_page: Option<ThreadTurnsListResponse>,
}

/// Returns the directories of a thread's workspace as texts.
pub fn workspace_roots(settings: &TurnSettings) -> Vec<String> {
    settings.workspace_roots().iter().map(|root| root.to_string_lossy().into_owned()).collect()
}

impl Serialize for OpenedJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let OpenedThread { thread, settings, turns, .. } = &self.opened;
        let mut members = serializer.serialize_struct("ThreadResumeResponse", 18)?;
        members.serialize_field("thread", &ThreadJson::new(thread, turns))?;
        members.serialize_field("model", &settings.model)?;
        members.serialize_field("modelProvider", &settings.provider)?;
        members.serialize_field("serviceTier", &settings.service_tier)?;
        members.serialize_field("cwd", &settings.cwd)?;
        members.serialize_field("approvalPolicy", &settings.approval_policy)?;
        members.serialize_field("approvalsReviewer", &settings.approvals_reviewer)?;
        members.serialize_field("sandbox", &settings.sandbox)?;
        members.serialize_field("reasoningEffort", &settings.effort)?;
        let profile = settings.profile.as_ref().map(ThreadProfile::active);
        members.serialize_field("activePermissionProfile", &profile)?;
        members.serialize_field("disabledPluginIds", &[(); 0])?;
        members.serialize_field("runtimeWorkspaceRoots", &workspace_roots(settings))?;
        members.serialize_field("instructionSources", &self.instruction_sources)?;
        members.serialize_field("multiAgentMode", &MultiAgentMode::ExplicitRequestOnly)?;
        if let Some(resumed) = &self.resumed {
            let collaboration_mode = settings.clone().into_wire().collaboration_mode;
            members.serialize_field("collaborationMode", &collaboration_mode)?;
            members.serialize_field("initialTurnsPage", &resumed.initial_turns_page)?;
            members.serialize_field("turnsBackwardsCursor", &resumed.turns_backwards_cursor)?;
            members.serialize_field("itemsBackwardsCursor", &resumed.items_backwards_cursor)?;
        }
        if let Some(seq) = &self.seq {
            members.serialize_field("seq", seq)?;
        }
        members.end()
    }
}

/// Serializes as `ThreadReadResponse`.
pub struct ReadJson(pub ThreadRead);

impl Serialize for ReadJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_struct("ThreadReadResponse", 2)?;
        members.serialize_field("thread", &ThreadJson::new(&self.0.thread, &self.0.turns))?;
        members.serialize_field("readState", &self.0.read_state)?;
        members.end()
    }
}

/// Serializes as `CodicilSubscribeResponse`.
pub struct SubscriptionJson {
    pub subscription: ThreadSubscription,
    /// The cursor of the turns that a snapshot leaves out.
    pub older_turns: Option<String>,
    /// The cursor of the items that a snapshot leaves out.
    pub older_items: Option<String>,
    pub requests: Vec<CodicilOpenRequest>,
    pub subagents: Option<Vec<SubagentPosition>>,
}

impl Serialize for SubscriptionJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_struct("CodicilSubscribeResponse", 10)?;
        match &self.subscription {
            ThreadSubscription::Replay { from, at, .. } => {
                members.serialize_field("mode", "replay")?;
                members.serialize_field("from", from)?;
                members.serialize_field("at", at)?;
            }
            ThreadSubscription::Snapshot { at, thread, turns, open, why } => {
                members.serialize_field("mode", "snapshot")?;
                members.serialize_field("at", at)?;
                members.serialize_field("thread", &ThreadJson::new(thread, turns))?;
                if let Some(cursor) = &self.older_turns {
                    members.serialize_field("olderTurns", cursor)?;
                }
                if let Some(cursor) = &self.older_items {
                    members.serialize_field("olderItems", cursor)?;
                }
                let plans = turns.iter().filter_map(|turn| turn.plan.clone());
                let plans: Vec<_> = plans.map(|plan| plan.into_notification(thread.id.clone())).collect();
                if !plans.is_empty() {
                    members.serialize_field("plans", &plans)?;
                }
                members.serialize_field("open", open)?;
                if let Some(why) = why {
                    members.serialize_field("why", why)?;
                }
            }
        }
        members.serialize_field("requests", &self.requests)?;
        if let Some(subagents) = &self.subagents {
            members.serialize_field("subagents", subagents)?;
        }
        members.end()
    }
}
