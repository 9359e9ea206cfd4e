//! Voice sessions on a thread: `thread/realtime/*`, all of it experimental.
//!
//! Requests are answered `{}` at once; what comes of them, failure included, arrives as notifications. None
//! of it is an item or stored, except for the turns that a session hands over to the agent.

use serde_json::Value;

use crate::{ItemId, ThreadId, wire};

/// Opens a session; a thread has at most one.
#[wire(sparse)]
pub struct ThreadRealtimeStartParams {
    pub thread_id: ThreadId,
    /// Instructions for the voice model.
    pub prompt: String,
    /// The provider's id for the session, to be used instead of a new one.
    pub session_id: Option<String>,
}

/// The session is being opened; `thread/realtime/started` or `error` follows.
#[wire]
#[derive(Default)]
pub struct ThreadRealtimeStartResponse {}

/// Sends what the microphone heard.
#[wire]
pub struct ThreadRealtimeAppendAudioParams {
    pub thread_id: ThreadId,
    pub audio: ThreadRealtimeAudioChunk,
}

/// The audio was queued.
#[wire]
#[derive(Default)]
pub struct ThreadRealtimeAppendAudioResponse {}

/// Sends what the person typed instead of said.
#[wire]
pub struct ThreadRealtimeAppendTextParams {
    pub thread_id: ThreadId,
    pub text: String,
}

/// The text was queued.
#[wire]
#[derive(Default)]
pub struct ThreadRealtimeAppendTextResponse {}

/// Closes the session; harmless without one.
#[wire]
pub struct ThreadRealtimeStopParams {
    pub thread_id: ThreadId,
}

/// The session is being closed; `thread/realtime/closed` follows.
#[wire]
#[derive(Default)]
pub struct ThreadRealtimeStopResponse {}

/// A piece of sound, in either direction.
#[wire]
pub struct ThreadRealtimeAudioChunk {
    /// The samples in base64, channels interleaved.
    pub data: String,
    /// In Hz.
    pub sample_rate: u32,
    pub num_channels: u16,
    pub samples_per_channel: Option<u32>,
    /// The provider's item that it belongs to, not an item of the thread.
    pub item_id: Option<ItemId>,
}

/// The session is open.
#[wire]
pub struct ThreadRealtimeStartedNotification {
    pub thread_id: ThreadId,
    pub session_id: Option<String>,
    pub version: RealtimeConversationVersion,
}

/// Which dialect the server speaks with the provider; of no consequence to clients.
#[wire(open)]
#[derive(Eq)]
pub enum RealtimeConversationVersion {
    V1,
    V2,
}

/// Something happened in the session that has no notification of its own.
#[wire]
pub struct ThreadRealtimeItemAddedNotification {
    pub thread_id: ThreadId,
    /// As the provider sent it; its shape may change at any time.
    pub item: Value,
}

/// Somebody spoke, and this is what was understood.
#[wire]
pub struct ThreadRealtimeTranscriptUpdatedNotification {
    pub thread_id: ThreadId,
    /// `user` or `assistant`.
    pub role: String,
    /// What is new, not the transcript so far.
    pub text: String,
}

/// Sound to play. Clients without a speaker opt out of this method.
#[wire]
pub struct ThreadRealtimeOutputAudioDeltaNotification {
    pub thread_id: ThreadId,
    pub audio: ThreadRealtimeAudioChunk,
}

/// The session could not be opened, or the provider complained.
#[wire]
pub struct ThreadRealtimeErrorNotification {
    pub thread_id: ThreadId,
    pub message: String,
}

/// The session is over.
#[wire]
pub struct ThreadRealtimeClosedNotification {
    pub thread_id: ThreadId,
    /// `requested`, `error` or `transport_closed`.
    pub reason: Option<String>,
}
