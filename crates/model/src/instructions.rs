//! The system prompt of a thread, escaped once however many requests it goes out with.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

/// The text that tells the model what it is. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Instructions(Arc<InstructionsInner>);

#[derive(Debug, Default)]
struct InstructionsInner {
    text: String,
    json: OnceLock<Bytes>,
}

impl Instructions {
    pub fn new(text: impl Into<String>) -> Self {
        Self(Arc::new(InstructionsInner { text: text.into(), json: OnceLock::new() }))
    }

    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The text as a JSON string.
    pub(crate) fn json(&self) -> Bytes {
        let render = || serde_json::to_vec(&self.0.text).unwrap_or_else(|_| b"\"\"".to_vec()).into();
        self.0.json.get_or_init(render).clone()
    }
}

impl<T: Into<String>> From<T> for Instructions {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}
