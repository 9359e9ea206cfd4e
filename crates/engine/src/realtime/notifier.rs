//! The notifications of a voice session, in the form of the generation that the session was started with.
//!
//! Clients of 0.118 get transcripts as `transcript/updated`. Clients of 0.166 get the session as entries of a timeline, each
//! with a start and an end, and beside them the text alone.

use std::sync::Arc;

use codicil_protocol::{
    NotificationMethod, RealtimeConversationVersion, ThreadId, ThreadRealtimeAudioChunk,
    ThreadRealtimeClosed, ThreadRealtimeClosedNotification, ThreadRealtimeError,
    ThreadRealtimeErrorNotification, ThreadRealtimeItem, ThreadRealtimeItemAdded,
    ThreadRealtimeItemAddedNotification, ThreadRealtimeItemCompleted,
    ThreadRealtimeItemCompletedNotification, ThreadRealtimeItemContent, ThreadRealtimeItemStarted,
    ThreadRealtimeItemStartedNotification, ThreadRealtimeItemTranscriptDelta,
    ThreadRealtimeItemTranscriptDeltaNotification, ThreadRealtimeOutputAudioDelta,
    ThreadRealtimeOutputAudioDeltaNotification, ThreadRealtimeSessionOutcome, ThreadRealtimeStarted,
    ThreadRealtimeStartedNotification, ThreadRealtimeTranscriptDelta,
    ThreadRealtimeTranscriptDeltaNotification, ThreadRealtimeTranscriptDone,
    ThreadRealtimeTranscriptDoneNotification, ThreadRealtimeTranscriptRole, ThreadRealtimeTranscriptUpdated,
    ThreadRealtimeTranscriptUpdatedNotification,
};
use codicil_store::RealtimeEntry;
use serde_json::Value;
use uuid::Uuid;

use super::event::SpeakerRole;
use crate::{clock::unix_now_ms, engine_context::EngineContext};

/// The form in which a session is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealtimeForm {
    /// That of 0.118.
    Updates,
    /// That of 0.166.
    Timeline,
}

/// Reports a session to the thread's subscribers.
pub(super) struct VoiceNotifier {
    engine: Arc<EngineContext>,
    thread_id: ThreadId,
    session_id: String,
    form: RealtimeForm,
    is_started: bool,
    /// What is being said.
    segment: Option<OpenSegment>,
    /// Complete entries that are not stored yet.
    unstored: Vec<RealtimeEntry>,
}

struct OpenSegment {
    id: String,
    role: SpeakerRole,
    text: String,
}

impl VoiceNotifier {
    pub fn new(
        engine: Arc<EngineContext>,
        thread_id: ThreadId,
        session_id: String,
        form: RealtimeForm,
    ) -> Self {
        Self { engine, thread_id, session_id, form, is_started: false, segment: None, unstored: Vec::new() }
    }

    /// Takes the entries that were completed since the last call.
    pub fn take_unstored(&mut self) -> Vec<RealtimeEntry> {
        std::mem::take(&mut self.unstored)
    }

    pub fn started(&mut self, version: RealtimeConversationVersion) {
        self.is_started = true;
        self.add_entry(ThreadRealtimeItemContent::RealtimeSessionStarted);
        self.notify::<ThreadRealtimeStarted>(&ThreadRealtimeStartedNotification {
            thread_id: self.thread_id.clone(),
            session_id: Some(self.session_id.clone()),
            realtime_session_id: Some(self.session_id.clone()),
            version,
        });
    }

    /// Reports new text of a speaker.
    pub fn transcript_delta(&mut self, role: SpeakerRole, text: String) {
        if self.form == RealtimeForm::Updates {
            let role = role.name().to_owned();
            let params =
                ThreadRealtimeTranscriptUpdatedNotification { thread_id: self.thread_id.clone(), role, text };
            return self.notify::<ThreadRealtimeTranscriptUpdated>(&params);
        }
        self.begin_segment(role);
        if let Some(segment) = &mut self.segment {
            segment.text.push_str(&text);
            let item_id = segment.id.as_str().into();
            let delta = text.clone();
            let params = ThreadRealtimeItemTranscriptDeltaNotification {
                thread_id: self.thread_id.clone(),
                item_id,
                delta,
            };
            self.notify::<ThreadRealtimeItemTranscriptDelta>(&params);
        }
        self.notify::<ThreadRealtimeTranscriptDelta>(&ThreadRealtimeTranscriptDeltaNotification {
            thread_id: self.thread_id.clone(),
            role: role.name().to_owned(),
            delta: text,
        });
    }

    /// Reports the whole text of a speaker. Clients of 0.118 have no notification for it.
    pub fn transcript_done(&mut self, role: SpeakerRole, text: String) {
        if self.form == RealtimeForm::Updates {
            return;
        }
        // Text that did not come in parts is an entry too.
        if self.segment.as_ref().is_none_or(|segment| segment.role != role) && !text.is_empty() {
            self.begin_segment(role);
            if let Some(segment) = &mut self.segment {
                segment.text.push_str(&text);
            }
        }
        self.end_segment();
        self.notify::<ThreadRealtimeTranscriptDone>(&ThreadRealtimeTranscriptDoneNotification {
            thread_id: self.thread_id.clone(),
            role: role.name().to_owned(),
            text,
        });
    }

    pub fn audio(&self, audio: ThreadRealtimeAudioChunk) {
        let thread_id = self.thread_id.clone();
        let params = ThreadRealtimeOutputAudioDeltaNotification { thread_id, audio };
        self.notify::<ThreadRealtimeOutputAudioDelta>(&params);
    }

    pub fn item(&self, item: Value) {
        let thread_id = self.thread_id.clone();
        self.notify::<ThreadRealtimeItemAdded>(&ThreadRealtimeItemAddedNotification { thread_id, item });
    }

    pub fn error(&self, message: String) {
        let thread_id = self.thread_id.clone();
        self.notify::<ThreadRealtimeError>(&ThreadRealtimeErrorNotification { thread_id, message });
    }

    /// Completes the entries of the session.
    pub fn end_entries(&mut self, outcome: ThreadRealtimeSessionOutcome) {
        self.end_segment();
        if self.is_started {
            self.add_entry(ThreadRealtimeItemContent::RealtimeSessionClosed { outcome });
        }
    }

    /// Reports the end of the session, after its entries.
    pub fn closed(&self, reason: &str) {
        let reason = Some(reason.to_owned());
        let params = ThreadRealtimeClosedNotification { thread_id: self.thread_id.clone(), reason };
        self.notify::<ThreadRealtimeClosed>(&params);
    }

    /// Begins an entry for what a speaker says, unless there is one. What the other speaker said is complete.
    fn begin_segment(&mut self, role: SpeakerRole) {
        if self.segment.as_ref().is_some_and(|segment| segment.role == role) {
            return;
        }
        self.end_segment();
        let segment = OpenSegment { id: Uuid::now_v7().to_string(), role, text: String::new() };
        self.start_entry(&self.entry(&segment.id, segment.content()));
        self.segment = Some(segment);
    }

    fn end_segment(&mut self) {
        if let Some(segment) = self.segment.take() {
            self.complete_entry(self.entry(&segment.id, segment.content()));
        }
    }

    /// Reports an entry that is complete from its start.
    fn add_entry(&mut self, content: ThreadRealtimeItemContent) {
        if self.form == RealtimeForm::Timeline {
            let entry = self.entry(&Uuid::now_v7().to_string(), content);
            self.start_entry(&entry);
            self.complete_entry(entry);
        }
    }

    fn entry(&self, id: &str, content: ThreadRealtimeItemContent) -> ThreadRealtimeItem {
        ThreadRealtimeItem { id: id.to_owned(), realtime_session_id: self.session_id.clone(), content }
    }

    fn start_entry(&self, entry: &ThreadRealtimeItem) {
        let thread_id = self.thread_id.clone();
        let params = ThreadRealtimeItemStartedNotification { thread_id, item: entry.clone() };
        self.notify::<ThreadRealtimeItemStarted>(&params);
    }

    fn complete_entry(&mut self, entry: ThreadRealtimeItem) {
        let thread_id = self.thread_id.clone();
        let params = ThreadRealtimeItemCompletedNotification { thread_id, item: entry.clone() };
        self.notify::<ThreadRealtimeItemCompleted>(&params);
        self.unstored.push(RealtimeEntry { at_ms: unix_now_ms(), item: entry });
    }

    fn notify<N: NotificationMethod>(&self, params: &N::Params) {
        self.engine.clients.notify::<N>(&self.thread_id, params);
    }
}

impl OpenSegment {
    fn content(&self) -> ThreadRealtimeItemContent {
        let role = match self.role {
            SpeakerRole::User => ThreadRealtimeTranscriptRole::User,
            SpeakerRole::Assistant => ThreadRealtimeTranscriptRole::Assistant,
        };
        ThreadRealtimeItemContent::TranscriptSegment { role, text: self.text.clone() }
    }
}
