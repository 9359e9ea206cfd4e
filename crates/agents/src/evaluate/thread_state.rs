//! Which thread a session goes on with, and when it may.

use std::path::PathBuf;

use codicil_client::protocol::{DynamicToolSpec, ThreadId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::budget::TokenUsage;
use crate::workspace::{Fingerprint, hex};

/// The thread of a session's last evaluation and what it was made for. It is part of the
/// [`AgentThread`](super::AgentThread), where it can be read, kept elsewhere and put back.
///
/// The thread is gone on with only for the same directory, the same workspace and the same tools: a thread keeps
/// the tools that it was started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadState {
    /// The thread.
    pub thread_id: ThreadId,
    /// Where it works.
    pub cwd: PathBuf,
    /// What its workspace was made of, if it had one.
    pub workspace_fingerprint: Option<Fingerprint>,
    /// What its tools were.
    pub tools_fingerprint: String,
    /// What it has used so far.
    #[serde(default)]
    pub used: TokenUsage,
}

impl ThreadState {
    pub(super) fn new(
        thread_id: ThreadId,
        cwd: PathBuf,
        workspace: Option<&Fingerprint>,
        tools: &[DynamicToolSpec],
    ) -> Self {
        let written = serde_json::to_vec(tools).unwrap_or_default();
        let tools_fingerprint = hex(&Sha256::digest(written));
        Self {
            thread_id,
            cwd,
            workspace_fingerprint: workspace.cloned(),
            tools_fingerprint,
            used: TokenUsage::default(),
        }
    }

    /// Whether a thread that was made for this can be used for the other.
    pub(super) fn fits(&self, other: &Self) -> bool {
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
    fn a_thread_fits_where_directory_workspace_and_tools_are_the_same() {
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
        assert!(state.fits(&ThreadState { thread_id: "other".into(), ..state.clone() }));
        assert!(!state.fits(&of("/b", Some("x"), &["one"])));
        assert!(!state.fits(&of("/a", Some("y"), &["one"])));
        assert!(!state.fits(&of("/a", None, &["one"])));
        assert!(!state.fits(&of("/a", Some("x"), &["one", "two"])));
        let stored = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<ThreadState>(&stored).unwrap(), state);
    }
}
