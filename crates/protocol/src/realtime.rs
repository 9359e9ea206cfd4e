//! Voice sessions of a thread: `thread/realtime/*`, all experimental.
//!
//! Requests are answered with `{}` immediately. Results, including errors, are reported by notifications. They are neither
//! items nor stored, except for the turns that a session starts.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{ItemId, ThreadId, TurnId, wire};

/// Starts a session. A thread has at most one.
#[wire(sparse)]
pub struct ThreadRealtimeStartParams {
    pub thread_id: ThreadId,
    /// Instructions for the voice model. 0.118 requires them.
    #[in_118(String)]
    pub prompt: Option<String>,
    /// The provider's id of the session, instead of a new one.
    #[until("0.118")]
    pub session_id: Option<String>,
    /// The same under the name of 0.166.
    #[since("0.166")]
    pub realtime_session_id: Option<String>,
    /// What the voice model writes or says. 0.166 requires it.
    #[since("0.166", required)]
    pub output_modality: Option<RealtimeOutputModality>,
    #[since("0.166")]
    pub voice: Option<RealtimeVoice>,
    /// The version of the provider's protocol. Absent: v2.
    #[since("0.166")]
    pub version: Option<RealtimeConversationVersion>,
    /// The voice model. Absent: the configured one.
    #[since("0.166")]
    pub model: Option<String>,
    /// How audio is transferred. Others than `websocket` are refused.
    #[since("0.166")]
    pub transport: Option<ThreadRealtimeStartTransport>,
    /// Messages with which the session starts.
    #[since("0.166")]
    pub initial_items: Option<Vec<ThreadRealtimeInitialItem>>,
    /// Has no effect, like the members below: the agent's messages reach the voice model in one way.
    #[since("0.166")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub backend_reasoning_status: bool,
    #[since("0.166")]
    pub client_managed_handoffs: Option<bool>,
    #[since("0.166")]
    pub codex_response_handoff_channel_prefixes: Option<BTreeMap<String, Vec<String>>>,
    #[since("0.166")]
    pub codex_response_handoff_mode: Option<CodexResponseHandoffMode>,
    #[since("0.166")]
    pub codex_response_item_prefix: Option<String>,
    #[since("0.166")]
    pub codex_responses_as_items: Option<bool>,
    #[since("0.166")]
    pub delegation_ack_filler: Option<bool>,
    #[since("0.166")]
    pub flush_transcript_tail_on_session_end: Option<bool>,
    #[since("0.166")]
    pub include_startup_context: Option<bool>,
    #[since("0.166")]
    pub realtime_start_instructions: Option<String>,
    #[since("0.166")]
    pub realtime_end_instructions: Option<String>,
    #[since("0.166")]
    pub voice_session_id: Option<String>,
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
    /// The author of the text. Absent: the user.
    #[since("0.166")]
    #[omit]
    pub role: Option<ConversationTextRole>,
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
    #[until("0.118")]
    pub session_id: Option<String>,
    /// The same id under the name of 0.166.
    #[since("0.166")]
    pub realtime_session_id: Option<String>,
    pub version: RealtimeConversationVersion,
}

/// The version of the protocol between server and provider. Not relevant to clients.
#[wire(open)]
#[derive(Eq)]
pub enum RealtimeConversationVersion {
    V1,
    V2,
    /// Refused: this server does not speak it.
    #[since("0.166")]
    V3,
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

/// Lets the voice model say a text.
#[wire]
pub struct ThreadRealtimeAppendSpeechParams {
    pub thread_id: ThreadId,
    pub text: String,
}

/// The text was queued.
#[wire]
#[derive(Default)]
pub struct ThreadRealtimeAppendSpeechResponse {}

/// Lists the voices. Has no parameters.
#[wire]
#[derive(Default)]
pub struct ThreadRealtimeListVoicesParams {}

/// The voices.
#[wire]
pub struct ThreadRealtimeListVoicesResponse {
    pub voices: RealtimeVoicesList,
}

/// The voices by version of the provider's protocol.
#[wire]
pub struct RealtimeVoicesList {
    pub default_v1: RealtimeVoice,
    pub default_v2: RealtimeVoice,
    pub v1: Vec<RealtimeVoice>,
    pub v2: Vec<RealtimeVoice>,
    #[serde(default)]
    pub v3: Vec<RealtimeVoice>,
}

/// A voice.
#[wire(open)]
#[derive(Eq)]
pub enum RealtimeVoice {
    Alloy,
    Arbor,
    Ash,
    Aube,
    Ballad,
    Breeze,
    Bubbie,
    Cedar,
    Coral,
    Cove,
    Echo,
    Ember,
    Haetsal,
    Hanul,
    Himari,
    Juniper,
    Leher,
    Maple,
    Marin,
    Miko,
    Neer,
    Porto,
    Rindo,
    Rio,
    Rivage,
    Sage,
    Selva,
    Shimmer,
    Sol,
    Sonna,
    Spruce,
    Tinta,
    Vale,
    Verse,
    Viola,
}

/// What the voice model writes or says.
#[wire(open)]
#[derive(Eq)]
pub enum RealtimeOutputModality {
    Text,
    Audio,
}

/// How audio is transferred between client and provider.
#[wire(sparse, open, tag = "type")]
pub enum ThreadRealtimeStartTransport {
    Websocket,
    Webrtc { sdp: String },
    ExistingCall { call_id: String },
}

/// A message with which a session starts.
#[wire]
pub struct ThreadRealtimeInitialItem {
    pub role: ConversationTextRole,
    pub text: String,
}

/// The author of a text.
#[wire(open)]
#[derive(Default, Eq)]
pub enum ConversationTextRole {
    #[default]
    User,
    Developer,
    Assistant,
}

/// How the agent's messages reach the voice model.
#[wire(open)]
#[derive(Eq)]
pub enum CodexResponseHandoffMode {
    Thinking,
    Commentary,
    BemTags,
}

/// An entry of a voice session in the timeline of its thread.
#[wire]
pub struct ThreadRealtimeItem {
    pub id: String,
    pub realtime_session_id: String,
    #[serde(flatten)]
    pub content: ThreadRealtimeItemContent,
}

/// The content of a [`ThreadRealtimeItem`].
#[wire(open, tag = "type", rename_all_fields = "snake_case")]
pub enum ThreadRealtimeItemContent {
    RealtimeSessionStarted,
    TranscriptSegment {
        role: ThreadRealtimeTranscriptRole,
        text: String,
    },
    /// An item of the thread that is shown in the session.
    BemItemPromoted {
        turn_id: TurnId,
        item_id: ItemId,
        presentation: ThreadRealtimeBemItemPresentation,
    },
    RealtimeSessionClosed {
        outcome: ThreadRealtimeSessionOutcome,
    },
}

/// The speaker of a transcript.
#[wire(open)]
#[derive(Eq)]
pub enum ThreadRealtimeTranscriptRole {
    User,
    Assistant,
}

/// How a promoted item is shown.
#[wire(open, tag = "type")]
pub enum ThreadRealtimeBemItemPresentation {
    WholeItem,
    InlineMarkdown,
    InlineVisualization { index: u32 },
}

/// How a session ended.
#[wire(open)]
#[derive(Eq)]
pub enum ThreadRealtimeSessionOutcome {
    Ended,
    Failed,
}

/// An entry of a voice session started.
#[wire]
pub struct ThreadRealtimeItemStartedNotification {
    pub thread_id: ThreadId,
    pub item: ThreadRealtimeItem,
}

/// Text to append to a transcript.
#[wire]
pub struct ThreadRealtimeItemTranscriptDeltaNotification {
    pub thread_id: ThreadId,
    pub item_id: ItemId,
    pub delta: String,
}

/// An entry of a voice session is complete.
#[wire]
pub struct ThreadRealtimeItemCompletedNotification {
    pub thread_id: ThreadId,
    pub item: ThreadRealtimeItem,
}

/// The transcript of something that is being said. The new text only.
#[wire]
pub struct ThreadRealtimeTranscriptDeltaNotification {
    pub thread_id: ThreadId,
    pub delta: String,
    pub role: String,
}

/// The transcript of something that was said.
#[wire]
pub struct ThreadRealtimeTranscriptDoneNotification {
    pub thread_id: ThreadId,
    pub role: String,
    pub text: String,
}

/// The provider's description of a WebRTC session.
#[wire]
pub struct ThreadRealtimeSdpNotification {
    pub thread_id: ThreadId,
    pub sdp: String,
}
