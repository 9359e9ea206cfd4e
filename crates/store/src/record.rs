//! What a thread's file consists of: the closed list of records, wrapping the protocol's own types.
//!
//! The envelope around a record (version, ordinal, time) is the business of `line`. What a reader of
//! this version does not know is skipped when loading and stays in the file.

use codicil_protocol::{
    DynamicToolEntry, GitInfo, ItemId, ReasoningEffort, ResponseItem, SessionSource, ThreadGoal, ThreadId,
    ThreadItem, ThreadTokenUsage, TurnError, TurnId, TurnStatus,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing that happened to a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Record {
    /// The first line of every file, written by [`Store::create`](crate::Store::create) only.
    Meta(ThreadMeta),
    /// The sticky settings from here on.
    Settings(StoredSettings),
    /// A turn was accepted.
    Turn {
        turn_id: TurnId,
    },
    /// An item as clients saw it complete, with the id that was streamed.
    Item {
        turn_id: TurnId,
        item: ThreadItem,
    },
    /// Something that entered the model's history. Outside a turn it survives every rollback.
    Context {
        turn_id: Option<TurnId>,
        item: ResponseItem,
    },
    Usage {
        turn_id: TurnId,
        usage: ThreadTokenUsage,
    },
    TurnEnd {
        turn_id: TurnId,
        status: TurnStatus,
        error: Option<TurnError>,
    },
    /// The last turns are gone, from the list of turns and from the model's history.
    Rollback {
        turns: u32,
    },
    /// The model's history so far is replaced. Rolling back the turn undoes it.
    Compaction {
        turn_id: TurnId,
        replacement: Vec<ResponseItem>,
    },
    Name {
        name: String,
    },
    /// What is known of the repository; `None` forgets it.
    Git {
        git: Option<GitInfo>,
    },
    /// Room for what later versions add without a new kind of record.
    Extra {
        kind: String,
        data: Value,
    },
}

/// The kind of the extra record by which an item is taken back.
pub(crate) const WITHDRAWN: &str = "withdrawn";
/// The kind of the extra record that says what the thread works towards.
pub(crate) const GOAL: &str = "goal";

impl Record {
    /// Takes back an item that was written before anybody was told of it: from here on it was never said.
    pub fn withdrawn(turn: &TurnId, item: &ItemId) -> Self {
        let data = serde_json::json!({ "turnId": turn, "itemId": item });
        Self::Extra { kind: WITHDRAWN.to_owned(), data }
    }

    /// What the thread works towards from here on; `None` for nothing.
    pub fn goal(goal: Option<&ThreadGoal>) -> Self {
        Self::Extra { kind: GOAL.to_owned(), data: serde_json::json!({ "goal": goal }) }
    }
}

/// How a thread began. When it began is in its id, else in its file's name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadMeta {
    pub id: ThreadId,
    pub cwd: String,
    pub source: SessionSource,
    pub model_provider: String,
    pub cli_version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ThreadId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_thread_id: Option<ThreadId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_nickname: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_role: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dynamic_tools: Vec<DynamicToolEntry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_instructions: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub developer_instructions: Option<String>,
}

impl ThreadMeta {
    /// A thread with nothing special about it.
    pub fn new(id: ThreadId, cwd: impl Into<String>, source: SessionSource, provider: &str) -> Self {
        Self {
            id,
            cwd: cwd.into(),
            source,
            model_provider: provider.to_owned(),
            cli_version: env!("CARGO_PKG_VERSION").to_owned(),
            forked_from: None,
            parent_thread_id: None,
            agent_nickname: None,
            agent_role: None,
            dynamic_tools: Vec::new(),
            base_instructions: None,
            developer_instructions: None,
        }
    }
}

/// The sticky settings of a thread. What lists and resumes need is typed, the rest is the agent's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredSettings {
    pub model: String,
    pub effort: Option<ReasoningEffort>,
    #[serde(default)]
    pub snapshot: Value,
}

/// An id for a new thread. Ids made later sort later.
pub fn new_thread_id() -> ThreadId {
    ThreadId::from(uuid::Uuid::now_v7().to_string())
}
