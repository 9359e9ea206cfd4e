//! What has been said since the agent was last asked, for when it is asked again.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::event::SpeakerRole;

/// What is kept; the oldest goes first.
const MAX_BYTES: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct VoiceTranscript {
    entries: VecDeque<(SpeakerRole, String)>,
    bytes: usize,
}

impl VoiceTranscript {
    /// Adds to what somebody is saying.
    pub fn add(&mut self, role: SpeakerRole, text: &str) {
        self.bytes = self.bytes.saturating_add(text.len());
        match self.entries.back_mut() {
            Some((last, said)) if *last == role => said.push_str(text),
            _ => self.entries.push_back((role, text.to_owned())),
        }
        while self.bytes > MAX_BYTES
            && let Some((_, dropped)) = self.entries.pop_front()
        {
            self.bytes -= dropped.len();
        }
    }

    /// Everything, as a client sees it.
    pub fn entries(&self) -> Vec<Value> {
        self.entries.iter().map(|(role, text)| json!({ "role": role.name(), "text": text })).collect()
    }

    /// Everything, as the agent reads it, and a new beginning. `None` when nothing was said.
    pub fn take_text(&mut self) -> Option<String> {
        self.bytes = 0;
        let lines: Vec<_> =
            self.entries.drain(..).map(|(role, text)| format!("{}: {text}", role.name())).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_one_speaker_are_joined() {
        let mut transcript = VoiceTranscript::default();
        assert_eq!(transcript.take_text(), None);
        for (role, text) in
            [(SpeakerRole::User, "tidy "), (SpeakerRole::User, "up"), (SpeakerRole::Assistant, "yes")]
        {
            transcript.add(role, text);
        }
        assert_eq!(transcript.entries().len(), 2);
        assert_eq!(transcript.take_text().as_deref(), Some("user: tidy up\nassistant: yes"));
        assert_eq!(transcript.take_text(), None);
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let mut transcript = VoiceTranscript::default();
        for round in 0..1_000 {
            let role = if round % 2 == 0 { SpeakerRole::User } else { SpeakerRole::Assistant };
            transcript.add(role, &"x".repeat(1_000));
        }
        let kept = transcript.take_text().unwrap();
        assert!(kept.len() < MAX_BYTES + 2_000, "{}", kept.len());
        transcript.add(SpeakerRole::User, &"y".repeat(2 * MAX_BYTES));
        assert_eq!(transcript.take_text(), None, "a flood is dropped whole");
    }
}
