//! Responses with stored turns. The items of a stored turn are JSON, which is copied into the response.

use codicil_engine::{OpenedThread, ThreadRead};
use codicil_protocol::ThreadTurnsListResponse;
use codicil_store::ThreadJson;
use serde::{Serialize, Serializer, ser::SerializeStruct};

/// Serializes as `ThreadResumeResponse` and `ThreadForkResponse`.
pub struct OpenedJson {
    pub opened: OpenedThread,
    pub initial_turns_page: Option<ThreadTurnsListResponse>,
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
