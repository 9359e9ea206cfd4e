//! The thread that a session continues, and the conditions for it.

use std::{collections::BTreeSet, path::PathBuf};

use codicil_client::protocol::{DynamicToolSpec, ThreadId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::budget::TokenUsage;
use crate::workspace::{Fingerprint, hex};

/// The thread of a session's last evaluation. It is a value of the [`Session`](super::Session), where it can be read,
/// stored and restored.
///
/// The thread is continued only for the same directory, workspace and tools: a thread keeps the tools with which it
/// was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadState {
    /// The thread.
    pub thread_id: ThreadId,
    /// Its working directory.
    pub cwd: PathBuf,
    /// The fingerprint of its workspace, if it had one.
    pub workspace_fingerprint: Option<Fingerprint>,
    /// The fingerprint of its tools.
    pub tools_fingerprint: String,
    /// The tokens used so far.
    #[serde(default)]
    pub used: TokenUsage,
    /// The sections that the thread waits for, after
    /// [`EvaluateError::ExpansionRequired`](super::EvaluateError::ExpansionRequired).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaited: Option<AwaitedSections>,
}

/// A prompt whose turn ended because the model needs more of its sections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitedSections {
    /// The prompt's name.
    pub prompt: String,
    /// The sections that the model has been shown in full.
    pub shown: BTreeSet<String>,
}

impl ThreadState {
    pub(super) fn new(
        thread_id: ThreadId,
        cwd: PathBuf,
        workspace: Option<&Fingerprint>,
        tools: &[DynamicToolSpec],
    ) -> Self {
        let encoded = serde_json::to_vec(tools).unwrap_or_default();
        let tools_fingerprint = hex(&Sha256::digest(encoded));
        Self {
            thread_id,
            cwd,
            workspace_fingerprint: workspace.cloned(),
            tools_fingerprint,
            used: TokenUsage::default(),
            awaited: None,
        }
    }

    /// Returns the sections to send to this thread: those that were opened since the prompt ended with a request for
    /// them. None if the thread waits for nothing, or for another prompt.
    pub(super) fn newly_opened(&self, prompt: &str, open: &BTreeSet<String>) -> BTreeSet<String> {
        let awaited = self.awaited.as_ref().filter(|awaited| awaited.prompt == prompt);
        awaited.map(|awaited| open - &awaited.shown).unwrap_or_default()
    }

    /// Returns whether a thread with this state can be continued for `other`.
    pub(super) fn is_compatible_with(&self, other: &Self) -> bool {
        self.cwd == other.cwd
            && self.workspace_fingerprint == other.workspace_fingerprint
            && self.tools_fingerprint == other.tools_fingerprint
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_thread_fits_the_same_directory_workspace_and_tools() {
        let fingerprint = |text: &str| serde_json::from_value::<Fingerprint>(json!(text)).unwrap();
        let tool = |name: &str| DynamicToolSpec {
            name: name.into(),
            description: String::new(),
            input_schema: json!({}),
            defer_loading: None,
        };
        let of = |cwd: &str, workspace: Option<&str>, tools: &[&str]| {
            let tools: Vec<_> = tools.iter().map(|name| tool(name)).collect();
            ThreadState::new("t".into(), cwd.into(), workspace.map(fingerprint).as_ref(), &tools)
        };
        let state = of("/a", Some("x"), &["one"]);
        assert!(state.is_compatible_with(&ThreadState { thread_id: "other".into(), ..state.clone() }));
        assert!(!state.is_compatible_with(&of("/b", Some("x"), &["one"])));
        assert!(!state.is_compatible_with(&of("/a", Some("y"), &["one"])));
        assert!(!state.is_compatible_with(&of("/a", None, &["one"])));
        assert!(!state.is_compatible_with(&of("/a", Some("x"), &["one", "two"])));
        let stored = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<ThreadState>(&stored).unwrap(), state);
    }
}
