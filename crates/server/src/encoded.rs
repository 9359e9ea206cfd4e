//! Responses with stored turns. The items of a stored turn are JSON, which is copied into the response.

use codicil_engine::{OpenedThread, ThreadRead, ThreadSubscription};
use codicil_protocol::{CodicilOpenRequest, MessageSeq, SubagentPosition, ThreadTurnsListResponse};
use codicil_store::ThreadJson;
use serde::{Serialize, Serializer, ser::SerializeStruct};

/// Serializes as `ThreadResumeResponse` and `ThreadForkResponse`.
pub struct OpenedJson {
    pub opened: OpenedThread,
    pub initial_turns_page: Option<ThreadTurnsListResponse>,
    /// The position of the thread, for clients with a cursor.
    pub seq: Option<MessageSeq>,
}

impl Serialize for OpenedJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let OpenedThread { thread, settings, turns, .. } = &self.opened;
        let mut members = serializer.serialize_struct("ThreadResumeResponse", 9)?;
        members.serialize_field("thread", &ThreadJson::new(thread, turns))?;
        members.serialize_field("model", &settings.model)?;
        members.serialize_field("modelProvider", &settings.provider)?;
        members.serialize_field("serviceTier", &settings.service_tier)?;
        members.serialize_field("cwd", &settings.cwd)?;
        members.serialize_field("approvalPolicy", &settings.approval_policy)?;
        members.serialize_field("approvalsReviewer", &settings.approvals_reviewer)?;
        members.serialize_field("sandbox", &settings.sandbox)?;
        members.serialize_field("reasoningEffort", &settings.effort)?;
        if let Some(profile) = settings.profile {
            members.serialize_field("activePermissionProfile", &profile.active())?;
        }
        if let Some(page) = &self.initial_turns_page {
            members.serialize_field("initialTurnsPage", page)?;
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
        let mut members = serializer.serialize_struct("ThreadReadResponse", 1)?;
        members.serialize_field("thread", &ThreadJson::new(&self.0.thread, &self.0.turns))?;
        members.end()
    }
}

/// Serializes as `CodicilSubscribeResponse`.
pub struct SubscriptionJson {
    pub subscription: ThreadSubscription,
    /// The cursor of the turns that a snapshot leaves out.
    pub older_turns: Option<String>,
    pub requests: Vec<CodicilOpenRequest>,
    pub subagents: Option<Vec<SubagentPosition>>,
}

impl Serialize for SubscriptionJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_struct("CodicilSubscribeResponse", 8)?;
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
