//! Raw items of the model's history, in the provider's own dialect and in snake case.
//!
//! They cross the wire in two places only, both experimental: `history` of `thread/resume`, and
//! `rawResponseItem/completed`. Everywhere else an item is a [`crate::ThreadItem`].

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{MessagePhase, ThreadId, TurnId, wire};

/// One entry of what the model is sent or has answered.
///
/// `id` is the provider's id of the item; `call_id` ties the output of a tool to its call. Providers add kinds
/// faster than anybody keeps up with, so one that is not known is taken and kept; no model is sent it.
#[wire(open, lenient, tag = "type", rename_all = "snake_case", rename_all_fields = "snake_case")]
pub enum ResponseItem {
    Message {
        #[serde(skip_serializing)]
        id: Option<String>,
        /// `user`, `assistant`, `developer` or `system`.
        role: String,
        content: Vec<ContentItem>,
        #[omit]
        end_turn: Option<bool>,
        #[omit]
        phase: Option<MessagePhase>,
    },
    Reasoning {
        summary: Vec<ReasoningItemReasoningSummary>,
        #[omit]
        content: Option<Vec<ReasoningItemContent>>,
        /// For the provider only, which wants it back with the next request.
        encrypted_content: Option<String>,
    },
    /// A command, from models that have a shell tool built in.
    LocalShellCall {
        #[serde(skip_serializing)]
        id: Option<String>,
        call_id: Option<String>,
        status: LocalShellStatus,
        action: LocalShellAction,
    },
    FunctionCall {
        #[serde(skip_serializing)]
        id: Option<String>,
        call_id: String,
        name: String,
        #[omit]
        namespace: Option<String>,
        /// JSON as text, as the model wrote it; it need not parse.
        arguments: String,
    },
    FunctionCallOutput {
        call_id: String,
        output: FunctionCallOutputBody,
    },
    /// A call of a tool that takes free text, such as a patch.
    CustomToolCall {
        #[serde(skip_serializing)]
        id: Option<String>,
        call_id: String,
        #[omit]
        status: Option<String>,
        name: String,
        input: String,
    },
    CustomToolCallOutput {
        call_id: String,
        #[omit]
        name: Option<String>,
        output: FunctionCallOutputBody,
    },
    /// The model looks for tools that it was not shown.
    ToolSearchCall {
        #[serde(skip_serializing)]
        id: Option<String>,
        call_id: Option<String>,
        #[omit]
        status: Option<String>,
        /// Which side searches.
        execution: String,
        arguments: Value,
    },
    ToolSearchOutput {
        call_id: Option<String>,
        status: String,
        execution: String,
        /// The definitions that were found.
        tools: Vec<Value>,
    },
    /// A search that the provider did itself; it has no output item.
    WebSearchCall {
        #[serde(skip_serializing)]
        id: Option<String>,
        #[omit]
        status: Option<String>,
        #[omit]
        action: Option<ResponsesApiWebSearchAction>,
    },
    ImageGenerationCall {
        id: String,
        status: String,
        #[omit]
        revised_prompt: Option<String>,
        /// The image in base64.
        result: String,
    },
    /// A mark of the server, never sent to the model: the state of the work tree at this point.
    GhostSnapshot {
        ghost_commit: GhostCommit,
    },
    /// Stands for history that was shortened; only the provider can read it.
    Compaction {
        encrypted_content: String,
    },
    /// Something that the sender of this item did not know either.
    Other,
}

/// A part of a message: `input_*` from the person or the server, `output_text` from the model.
#[wire(open, tag = "type", rename_all = "snake_case", rename_all_fields = "snake_case")]
pub enum ContentItem {
    InputText {
        text: String,
    },
    InputImage {
        /// A web address or a `data:` URL.
        image_url: String,
    },
    OutputText {
        text: String,
    },
}

/// The output of a tool: plain text, or a list when it holds images.
#[wire(untagged)]
pub enum FunctionCallOutputBody {
    Text(String),
    Content(Vec<FunctionCallOutputContentItem>),
}

/// A part of a tool's output.
#[wire(open, tag = "type", rename_all = "snake_case", rename_all_fields = "snake_case")]
pub enum FunctionCallOutputContentItem {
    InputText {
        text: String,
    },
    InputImage {
        /// A web address or a `data:` URL.
        image_url: String,
        #[omit]
        detail: Option<ImageDetail>,
    },
}

/// In what resolution the model sees an image.
#[wire(open)]
#[derive(Eq)]
pub enum ImageDetail {
    Auto,
    Low,
    High,
    Original,
}

/// A piece of raw reasoning; providers name it in two ways.
#[wire(open, tag = "type", rename_all = "snake_case")]
pub enum ReasoningItemContent {
    ReasoningText { text: String },
    Text { text: String },
}

/// A section of a reasoning summary.
#[wire(open, tag = "type", rename_all = "snake_case")]
pub enum ReasoningItemReasoningSummary {
    SummaryText { text: String },
}

/// How far a [`ResponseItem::LocalShellCall`] has come.
#[wire(open, rename_all = "snake_case")]
#[derive(Eq)]
pub enum LocalShellStatus {
    Completed,
    InProgress,
    Incomplete,
}

/// What the built-in shell tool is to do.
#[wire(open, tag = "type", rename_all_fields = "snake_case")]
pub enum LocalShellAction {
    Exec {
        /// The argument list; no shell is implied.
        command: Vec<String>,
        env: Option<BTreeMap<String, String>>,
        timeout_ms: Option<u64>,
        user: Option<String>,
        working_directory: Option<String>,
    },
}

/// What a web search did, in the provider's words.
#[wire(open, tag = "type", rename_all = "snake_case")]
pub enum ResponsesApiWebSearchAction {
    Search {
        query: Option<String>,
        /// Instead of `query`, when there were several.
        queries: Option<Vec<String>>,
    },
    OpenPage {
        url: Option<String>,
    },
    FindInPage {
        url: Option<String>,
        pattern: Option<String>,
    },
    Other,
}

/// A commit on no branch that keeps the work tree as it was, for undoing.
#[wire(rename_all = "snake_case")]
pub struct GhostCommit {
    pub id: String,
    pub parent: Option<String>,
    /// Not in the commit, and not to be removed when it is restored; so are the directories.
    pub preexisting_untracked_files: Vec<String>,
    pub preexisting_untracked_dirs: Vec<String>,
}

/// An item entered the history, be it from the model, a tool, the person or the server's own context.
/// Only threads started with `experimentalRawEvents` send it.
#[wire]
pub struct RawResponseItemCompletedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item: ResponseItem,
}
