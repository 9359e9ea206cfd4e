//! Voice sessions of a thread: `thread/realtime/*`, all experimental.
//!
//! Requests are answered with `{}` immediately. Results, including errors, are reported by notifications. They are neither
//! items nor stored, except for the turns that a session starts.

use serde_json::Value;

use crate::{ItemId, ThreadId, wire};

/// Starts a session. A thread has at most one.
#[wire(sparse)]
pub struct ThreadRealtimeStartParams {
    pub thread_id: ThreadId,
    /// Instructions for the voice model.
    pub prompt: String,
    /// The provider's id of the session, instead of a new one.
    pub session_id: Option<String>,
}

/// The session is being started; `thread/realtime/started` or `thread/realtime/error` follows.
#[wire]
#[derive(Default)]
pub struct ThreadRealtimeStartResponse {}

/// Sends audio input.
#[wire]
pub struct ThreadRealtimeAppendAudioParams {
    pub thread_id: ThreadId,
    pub audio: ThreadRealtimeAudioChunk,
}

/// The audio was queued.
#[wire]
#[derive(Default)]
pub struct ThreadRealtimeAppendAudioResponse {}

/// Sends text input.
#[wire]
pub struct ThreadRealtimeAppendTextParams {
    pub thread_id: ThreadId,
    pub text: String,
}

/// The text was queued.
#[wire]
#[derive(Default)]
pub struct ThreadRealtimeAppendTextResponse {}

/// Ends the session. Succeeds also without one.
#[wire]
pub struct ThreadRealtimeStopParams {
    pub thread_id: ThreadId,
}

/// The session is being ended; `thread/realtime/closed` follows.
#[wire]
#[derive(Default)]
pub struct ThreadRealtimeStopResponse {}

/// A chunk of audio, in either direction.
#[wire]
pub struct ThreadRealtimeAudioChunk {
    /// The samples in base64, with interleaved channels.
    pub data: String,
    /// The sample rate in Hz.
    pub sample_rate: u32,
    pub num_channels: u16,
    pub samples_per_channel: Option<u32>,
    /// The provider's item to which the chunk belongs, not an item of the thread.
    pub item_id: Option<ItemId>,
}

/// A session started.
#[wire]
pub struct ThreadRealtimeStartedNotification {
    pub thread_id: ThreadId,
    pub session_id: Option<String>,
    pub version: RealtimeConversationVersion,
}

/// The version of the protocol between server and provider. Not relevant to clients.
#[wire(open)]
#[derive(Eq)]
pub enum RealtimeConversationVersion {
    V1,
    V2,
}

/// An event of the session without its own notification.
#[wire]
pub struct ThreadRealtimeItemAddedNotification {
    pub thread_id: ThreadId,
    /// The event in the format of the provider, which can change at any time.
    pub item: Value,
}

/// The transcript of something that was said.
#[wire]
pub struct ThreadRealtimeTranscriptUpdatedNotification {
    pub thread_id: ThreadId,
    /// `user` or `assistant`.
    pub role: String,
    /// The new text only.
    pub text: String,
}

/// Audio to play. Clients without audio output can opt out of this method.
#[wire]
pub struct ThreadRealtimeOutputAudioDeltaNotification {
    pub thread_id: ThreadId,
    pub audio: ThreadRealtimeAudioChunk,
}

/// The session could not be started, or the provider reported an error.
#[wire]
pub struct ThreadRealtimeErrorNotification {
    pub thread_id: ThreadId,
    pub message: String,
}

/// The session ended.
#[wire]
pub struct ThreadRealtimeClosedNotification {
    pub thread_id: ThreadId,
    /// `requested`, `error` or `transport_closed`.
    pub reason: Option<String>,
}
