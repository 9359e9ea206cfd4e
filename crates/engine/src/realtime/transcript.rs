//! The transcript since the last handoff to the agent.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::event::SpeakerRole;

/// The size of a transcript; the oldest entries are dropped first.
const MAX_BYTES: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct VoiceTranscript {
    entries: VecDeque<(SpeakerRole, String)>,
    bytes: usize,
}

impl VoiceTranscript {
    /// Appends text, to the last entry if the speaker is the same.
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

    /// Returns the entries as clients see them.
    pub fn entries(&self) -> Vec<Value> {
        self.entries.iter().map(|(role, text)| json!({ "role": role.name(), "text": text })).collect()
    }

    /// Returns the text for the agent and clears the transcript; `None` if it is empty.
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
    fn consecutive_text_of_one_speaker_is_joined() {
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
    fn its_size_is_limited() {
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
