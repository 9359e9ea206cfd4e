//! The events of a voice model. The names of both dialects are accepted in either.

use codicil_protocol::{ItemId, ThreadRealtimeAudioChunk};
use serde_json::{Value, json};

use super::dialect::{AGENT, SAMPLE_RATE};

/// An event that the session handles.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RealtimeEvent {
    Audio(ThreadRealtimeAudioChunk),
    Transcript {
        role: SpeakerRole,
        text: String,
    },
    /// The whole text of something that was said in parts.
    TranscriptDone {
        role: SpeakerRole,
        text: String,
    },
    /// An item that is only forwarded to clients.
    Item(Value),
    Handoff(AgentHandoff),
    /// The provider reports an error.
    Failed(String),
}

/// The speaker of a transcript entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpeakerRole {
    User,
    Assistant,
}

/// A request of the voice model to the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AgentHandoff {
    pub id: String,
    pub item_id: String,
    pub input_transcript: String,
}

impl SpeakerRole {
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// Decodes a message; `None` if it is not an event that the session handles.
pub(super) fn read(message: &str) -> Option<RealtimeEvent> {
    let event: Value = serde_json::from_str(message).ok()?;
    match event.get("type")?.as_str()? {
        "conversation.output_audio.delta" | "response.output_audio.delta" | "response.audio.delta" => {
            audio(&event)
        }
        "conversation.input_transcript.delta" | "conversation.item.input_audio_transcription.delta" => {
            transcript(&event, SpeakerRole::User)
        }
        "conversation.output_transcript.delta"
        | "response.output_audio_transcript.delta"
        | "response.audio_transcript.delta"
        | "response.output_text.delta" => transcript(&event, SpeakerRole::Assistant),
        "conversation.item.input_audio_transcription.completed" => transcript_done(&event, SpeakerRole::User),
        "response.output_audio_transcript.done"
        | "response.audio_transcript.done"
        | "response.output_text.done" => transcript_done(&event, SpeakerRole::Assistant),
        "conversation.item.added" => event.get("item").cloned().map(RealtimeEvent::Item),
        "conversation.item.done" => called(event.get("item")?),
        "conversation.handoff.requested" => handoff(&event),
        kind @ "input_audio_buffer.speech_started" => {
            Some(RealtimeEvent::Item(json!({ "type": kind, "item_id": event.get("item_id") })))
        }
        kind @ "response.cancelled" => {
            let response = event.pointer("/response/id").or_else(|| event.get("response_id"));
            Some(RealtimeEvent::Item(json!({ "type": kind, "response_id": response })))
        }
        "error" => failed(&event),
        _ => None,
    }
}

fn audio(event: &Value) -> Option<RealtimeEvent> {
    let number = |name: &str| event.get(name).and_then(Value::as_u64);
    let data = event.get("delta").or_else(|| event.get("data")).and_then(Value::as_str)?;
    let channels = number("channels").or_else(|| number("num_channels")).unwrap_or(1);
    Some(RealtimeEvent::Audio(ThreadRealtimeAudioChunk {
        data: data.to_owned(),
        sample_rate: u32::try_from(number("sample_rate").unwrap_or(SAMPLE_RATE.into())).ok()?,
        num_channels: u16::try_from(channels).ok()?,
        samples_per_channel: number("samples_per_channel").and_then(|samples| u32::try_from(samples).ok()),
        item_id: event.get("item_id").and_then(Value::as_str).map(ItemId::from),
    }))
}

fn transcript(event: &Value, role: SpeakerRole) -> Option<RealtimeEvent> {
    let text = event.get("delta")?.as_str()?.to_owned();
    Some(RealtimeEvent::Transcript { role, text })
}

fn transcript_done(event: &Value, role: SpeakerRole) -> Option<RealtimeEvent> {
    let text = event.get("transcript").or_else(|| event.get("text"))?.as_str()?.to_owned();
    Some(RealtimeEvent::TranscriptDone { role, text })
}

fn handoff(event: &Value) -> Option<RealtimeEvent> {
    let text = |name: &str| event.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(RealtimeEvent::Handoff(AgentHandoff {
        id: text("handoff_id")?,
        item_id: text("item_id").unwrap_or_default(),
        input_transcript: text("input_transcript").unwrap_or_default(),
    }))
}

/// Returns the handoff of a finished item that calls the agent.
fn called(item: &Value) -> Option<RealtimeEvent> {
    let text = |name: &str| item.get(name).and_then(Value::as_str);
    if text("type") != Some("function_call") || text("name") != Some(AGENT) {
        return None;
    }
    let arguments: Value =
        text("arguments").and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
    let prompt = arguments.get("prompt").and_then(Value::as_str).unwrap_or_default();
    Some(RealtimeEvent::Handoff(AgentHandoff {
        id: text("call_id")?.to_owned(),
        item_id: text("id").unwrap_or_default().to_owned(),
        input_transcript: prompt.to_owned(),
    }))
}

fn failed(event: &Value) -> Option<RealtimeEvent> {
    // A request for a response during a response is harmless.
    if event.pointer("/error/code").and_then(Value::as_str)
        == Some("conversation_already_has_active_response")
    {
        return None;
    }
    let message = event.get("message").or_else(|| event.pointer("/error/message"));
    let message = message.and_then(Value::as_str).map(str::to_owned);
    let whole = || event.get("error").map(Value::to_string);
    Some(RealtimeEvent::Failed(
        message.or_else(whole).unwrap_or_else(|| "the provider reported an error".to_owned()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_both_dialects_are_decoded() {
        let check = |message: Value, expected: Option<RealtimeEvent>| {
            assert_eq!(read(&message.to_string()), expected, "{message}");
        };
        let spoken = |role, text: &str| Some(RealtimeEvent::Transcript { role, text: text.to_owned() });
        check(json!({ "type": "session.updated", "session": { "id": "s" } }), None);
        check(
            json!({ "type": "conversation.input_transcript.delta", "delta": "a" }),
            spoken(SpeakerRole::User, "a"),
        );
        check(
            json!({ "type": "response.output_audio_transcript.delta", "delta": "b" }),
            spoken(SpeakerRole::Assistant, "b"),
        );
        check(
            json!({ "type": "response.output_text.done", "text": "all of it" }),
            Some(RealtimeEvent::TranscriptDone {
                role: SpeakerRole::Assistant,
                text: "all of it".to_owned(),
            }),
        );
        check(
            json!({ "type": "conversation.item.input_audio_transcription.completed", "transcript": "a" }),
            Some(RealtimeEvent::TranscriptDone { role: SpeakerRole::User, text: "a".to_owned() }),
        );
        let sound = |samples_per_channel, item_id: Option<&str>| {
            Some(RealtimeEvent::Audio(ThreadRealtimeAudioChunk {
                data: "AAAA".to_owned(),
                sample_rate: 24_000,
                num_channels: 1,
                samples_per_channel,
                item_id: item_id.map(ItemId::from),
            }))
        };
        check(
            json!({ "type": "conversation.output_audio.delta", "delta": "AAAA", "sample_rate": 24000, "channels": 1, "samples_per_channel": 2 }),
            sound(Some(2), None),
        );
        check(
            json!({ "type": "response.output_audio.delta", "delta": "AAAA", "item_id": "i" }),
            sound(None, Some("i")),
        );
        let handoff = |id: &str, item: &str, text: &str| {
            Some(RealtimeEvent::Handoff(AgentHandoff {
                id: id.into(),
                item_id: item.into(),
                input_transcript: text.into(),
            }))
        };
        check(
            json!({ "type": "conversation.handoff.requested", "handoff_id": "h", "item_id": "i", "input_transcript": "do it" }),
            handoff("h", "i", "do it"),
        );
        let call = json!({ "type": "function_call", "id": "i", "call_id": "c", "name": AGENT, "arguments": "{\"prompt\":\"do it\"}" });
        check(json!({ "type": "conversation.item.done", "item": call }), handoff("c", "i", "do it"));
        check(json!({ "type": "conversation.item.done", "item": { "type": "message" } }), None);
        check(json!({ "type": "error", "message": "no" }), Some(RealtimeEvent::Failed("no".into())));
        check(
            json!({ "type": "error", "error": { "message": "no" } }),
            Some(RealtimeEvent::Failed("no".into())),
        );
        check(json!({ "type": "error", "error": 5 }), Some(RealtimeEvent::Failed("5".into())));
        check(
            json!({ "type": "error", "error": { "code": "conversation_already_has_active_response" } }),
            None,
        );
    }

    #[test]
    fn other_messages_are_ignored() {
        for message in
            ["", "[]", "{}", "{\"type\":5}", "{\"type\":\"conversation.output_audio.delta\"}", "nonsense"]
        {
            assert_eq!(read(message), None, "{message}");
        }
        let loud = json!({ "type": "response.audio.delta", "delta": "A", "channels": 70_000 });
        assert_eq!(read(&loud.to_string()), None);
    }
}
