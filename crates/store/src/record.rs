//! The records of a thread's file: a closed list that wraps the protocol's types.
//!
//! The envelope of a record (version, ordinal, time) is in `record_line`. Records that this version does not know are
//! skipped when a thread is loaded and stay in the file.

use std::{fmt, ops::Deref};

use codicil_protocol::{
    DynamicToolEntry, GitInfo, ItemId, ReasoningEffort, ResponseItem, SessionSource, ThreadActiveFlag,
    ThreadGoal, ThreadHistoryMode, ThreadId, ThreadItem, ThreadTokenUsage, TurnError, TurnId, TurnStatus,
    rpc::ErrorObject,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::facts::is_fact;

/// An event in the life of a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Record {
    /// The first line of every file. Written only by [`Store::create`](crate::Store::create).
    Meta(ThreadMeta),
    /// The settings from here on.
    Settings(StoredSettings),
    /// A turn was accepted. A second record of the same turn means that it continues after a restart.
    Turn {
        turn_id: TurnId,
        /// The run of the process that runs the turn. Records of earlier versions and of imports have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<RunId>,
    },
    /// A completed item, with the id under which it was streamed.
    Item {
        turn_id: TurnId,
        item: ThreadItem,
    },
    /// An item of the model's history. Outside a turn it survives all rollbacks.
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
        /// Why the turn ended, if not by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<TurnEndCause>,
    },
    /// The last turns are removed from the thread and from the model's history.
    Rollback {
        turns: u32,
    },
    /// The model's history so far is replaced. Rolling back the turn undoes this.
    Compaction {
        turn_id: TurnId,
        replacement: Vec<ResponseItem>,
    },
    /// A tool call may have effects from here on.
    Begun {
        turn_id: TurnId,
        call_id: String,
        /// The item of the call, unless a server request of the call has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        item: Option<ThreadItem>,
    },
    /// A server request of a tool call, before it is sent.
    Asked {
        turn_id: TurnId,
        #[serde(flatten)]
        request: AskedRequest,
        /// The kinds of all requests that are open from here on.
        open: Vec<QuestionKind>,
    },
    /// The end of a server request, before its tool goes on.
    Answered {
        turn_id: TurnId,
        request: String,
        #[serde(flatten)]
        answer: RequestAnswer,
        /// The client or rule that answered.
        by: String,
        /// The kinds of all requests that are open from here on.
        open: Vec<QuestionKind>,
    },
    Name {
        name: String,
    },
    /// The state of the repository; `None` removes it.
    Git {
        git: Option<GitInfo>,
    },
    /// An extension that older versions ignore.
    Extra {
        kind: String,
        data: Value,
    },
}

/// A server request that outlives the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AskedRequest {
    /// The identity of the request. Unlike the id of the message, it stays the same when the request is sent again.
    pub request: String,
    pub call_id: String,
    pub kind: QuestionKind,
    pub method: String,
    pub params: Value,
    /// The item that waits for the answer, as clients have seen it start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<ThreadItem>,
    /// When the default answer is given, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
}

/// The effect of an open server request on its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum QuestionKind {
    /// A person decides.
    Approval,
    /// A person answers.
    UserInput,
    /// The client's program answers; the status of the thread does not change.
    Call,
}

impl QuestionKind {
    /// Returns the flag that the thread's status has while the request is open.
    pub fn flag(self) -> Option<ThreadActiveFlag> {
        match self {
            Self::Approval => Some(ThreadActiveFlag::WaitingOnApproval),
            Self::UserInput => Some(ThreadActiveFlag::WaitingOnUserInput),
            Self::Call => None,
        }
    }

    /// Returns the flags of several requests, each once.
    pub fn flags(kinds: impl IntoIterator<Item = Self>) -> Vec<ThreadActiveFlag> {
        let mut flags = Vec::new();
        for flag in kinds.into_iter().filter_map(Self::flag) {
            if !flags.contains(&flag) {
                flags.push(flag);
            }
        }
        flags
    }

    /// Returns whether `serverRequest/resolved` is sent when the request is over.
    pub fn is_announced(self) -> bool {
        self != Self::Call
    }
}

/// The end of a server request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RequestAnswer {
    Result(Value),
    Error(ErrorObject),
    /// The time limit of the tool passed.
    TimedOut(bool),
}

/// The reason for the end of a turn that did not end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TurnEndCause {
    /// The process that ran the turn ended before the turn did.
    ServerRestart,
    /// The turn runs on in the thread that this one was forked from.
    Forked,
    /// A cause of a later version.
    #[serde(other)]
    Unknown,
}

/// The id of a run, see [`Store::begin_run`](crate::Store::begin_run).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(String);

impl From<String> for RunId {
    fn from(id: String) -> Self {
        Self(id)
    }
}

impl Deref for RunId {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The kind of the extra record that withdraws an item.
pub(crate) const WITHDRAWN: &str = "withdrawn";
/// The kind of the extra record that announces input which is not part of the conversation yet.
const QUEUED: &str = "queued";
/// The kind of the extra record that sets the goal of the thread.
pub(crate) const GOAL: &str = "goal";
/// The kind of the extra record of a turn whose server was stopped while it waited.
pub(crate) const PARKED: &str = "parked";
/// The kind of the extra record with the output schema of a turn.
pub(crate) const OUTPUT_SCHEMA: &str = "outputSchema";
/// The kind of the extra record that names the root of the turn whose record follows.
pub(crate) const ROOT_TURN: &str = "rootTurn";
/// The kind of the extra record that holds the key of a request.
pub(crate) const KEY: &str = "key";
/// The kind of the extra record from which the positions of messages continue.
pub(crate) const POSITION: &str = "position";

impl Record {
    /// Returns whether the record concerns the conversation. Other records may be written by any process at any time.
    pub fn extends_conversation(&self) -> bool {
        match self {
            Self::Name { .. } | Self::Git { .. } => false,
            Self::Extra { kind, .. } => ![GOAL, KEY, POSITION].contains(&kind.as_str()) && !is_fact(kind),
            _ => true,
        }
    }

    /// Withdraws an item: clients were never to see it, or the response that it was part of is requested again. Readers
    /// skip the item.
    pub fn withdrawn(turn: &TurnId, item: &ItemId) -> Self {
        let data = serde_json::json!({ "turnId": turn, "itemId": item });
        Self::Extra { kind: WITHDRAWN.to_owned(), data }
    }

    /// Marks the next item, an input, as one that clients see later: when it is written again, or when the turn ends.
    pub fn queued(turn: &TurnId, item: &ItemId) -> Self {
        let data = serde_json::json!({ "turnId": turn, "itemId": item });
        Self::Extra { kind: QUEUED.to_owned(), data }
    }

    /// Returns the item of a record that [`queued`](Self::queued) or [`withdrawn`](Self::withdrawn) made.
    pub fn marked_item(&self) -> Option<(ItemMark, ItemId)> {
        let Self::Extra { kind, data } = self else { return None };
        let mark = match kind.as_str() {
            QUEUED => ItemMark::Queued,
            WITHDRAWN => ItemMark::Withdrawn,
            _ => return None,
        };
        Some((mark, data.get("itemId")?.as_str()?.into()))
    }

    /// Returns what a record says about the goal; `None` for other records.
    pub fn goal_change(&self) -> Option<GoalChange> {
        let Self::Extra { kind, data } = self else { return None };
        let goal = data.get("goal").filter(|_| kind == GOAL)?;
        match goal {
            Value::Null => Some(GoalChange::Removed),
            goal => {
                let goal = serde_json::from_value(goal.clone()).ok()?;
                let turn_id = data.get("turnId").and_then(Value::as_str).map(TurnId::from);
                Some(GoalChange::Set { goal, turn_id })
            }
        }
    }

    /// Notes that a turn waits for the thread to be loaded again. Continuing it does not count as one after a crash.
    pub fn parked(turn: &TurnId) -> Self {
        Self::Extra { kind: PARKED.to_owned(), data: serde_json::json!({ "turnId": turn }) }
    }

    /// Stores the output schema of a turn.
    pub fn output_schema(turn: &TurnId, schema: &Value) -> Self {
        let data = serde_json::json!({ "turnId": turn, "schema": schema });
        Self::Extra { kind: OUTPUT_SCHEMA.to_owned(), data }
    }

    /// Names the turn of the user that a subagent's turn is part of. Precedes the record of the turn.
    pub fn root_turn(turn: &TurnId, root: &TurnId) -> Self {
        let data = serde_json::json!({ "turnId": turn, "rootTurnId": root });
        Self::Extra { kind: ROOT_TURN.to_owned(), data }
    }

    /// Returns the turn and the root of a record that [`root_turn`](Self::root_turn) made.
    pub fn named_root(&self) -> Option<(TurnId, TurnId)> {
        let Self::Extra { kind, data } = self else { return None };
        let id = |name: &str| data.get(name)?.as_str().map(TurnId::from);
        Some((id("turnId")?, id("rootTurnId")?)).filter(|_| kind == ROOT_TURN)
    }

    /// Continues the positions of messages, because very many messages without a record have followed the last record.
    pub fn position() -> Self {
        Self::Extra { kind: POSITION.to_owned(), data: Value::Null }
    }

    /// Sets the goal of the thread; `None` removes it. `turn` is the turn that changes it.
    pub fn goal(goal: Option<&ThreadGoal>, turn: Option<&TurnId>) -> Self {
        let mut data = serde_json::json!({ "goal": goal });
        if let (Some(turn), Some(members)) = (turn, data.as_object_mut()) {
            members.insert("turnId".to_owned(), turn.to_string().into());
        }
        Self::Extra { kind: GOAL.to_owned(), data }
    }
}

/// What an extra record says about an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemMark {
    Queued,
    Withdrawn,
}

/// A change of the goal of a thread.
#[derive(Clone, Debug, PartialEq)]
pub enum GoalChange {
    Set {
        goal: Box<ThreadGoal>,
        /// The turn that changed it.
        turn_id: Option<TurnId>,
    },
    Removed,
}

/// The start of a thread. Its time is in the id or, for other ids, in the file name.
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
    /// The name of the client that started the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub originator: Option<String>,
    /// The client's label of the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_source: Option<String>,
    #[serde(default)]
    pub history_mode: ThreadHistoryMode,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dynamic_tools: Vec<DynamicToolEntry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_instructions: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub developer_instructions: Option<String>,
}

impl ThreadMeta {
    /// Returns the meta record of a thread without optional properties.
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
            originator: None,
            thread_source: None,
            history_mode: ThreadHistoryMode::default(),
            dynamic_tools: Vec::new(),
            base_instructions: None,
            developer_instructions: None,
        }
    }
}

/// The settings of a thread from a record on. The model and effort are typed, because every version needs them; the
/// snapshot belongs to the engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "Map<String, Value>")]
pub struct StoredSettings {
    /// `None` only in records that were read and have a model in an unknown form.
    pub model: Option<String>,
    pub effort: Option<ReasoningEffort>,
    /// The version of the snapshot; 1 for records without one.
    pub version: u32,
    pub snapshot: Value,
}

impl StoredSettings {
    /// Returns settings of which only the model and effort are known.
    pub fn without_snapshot(model: String, effort: Option<ReasoningEffort>) -> Self {
        Self { model: Some(model), effort, version: 1, snapshot: Value::Null }
    }

    /// Reads each field by itself, so that one of an unknown form does not lose the others, and returns the names of
    /// those that could not be read.
    pub(crate) fn from_fields(mut fields: Map<String, Value>) -> (Self, Vec<&'static str>) {
        let mut unreadable = Vec::new();
        let settings = Self {
            model: take_field(&mut fields, "model", &mut unreadable),
            effort: take_field(&mut fields, "effort", &mut unreadable),
            version: take_field(&mut fields, "version", &mut unreadable).unwrap_or(1),
            snapshot: fields.remove("snapshot").unwrap_or_default(),
        };
        (settings, unreadable)
    }
}

impl From<Map<String, Value>> for StoredSettings {
    fn from(fields: Map<String, Value>) -> Self {
        Self::from_fields(fields).0
    }
}

fn take_field<T: DeserializeOwned>(
    fields: &mut Map<String, Value>,
    name: &'static str,
    unreadable: &mut Vec<&'static str>,
) -> Option<T> {
    let value = fields.remove(name).filter(|value| !value.is_null())?;
    let read = serde_json::from_value(value).ok();
    if read.is_none() {
        unreadable.push(name);
    }
    read
}

/// Returns an id for a new thread. Later ids sort after earlier ones.
pub fn new_thread_id() -> ThreadId {
    ThreadId::from(uuid::Uuid::now_v7().to_string())
}
