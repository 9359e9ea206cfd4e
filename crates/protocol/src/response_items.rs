//! Raw items of the model's history, in the provider's format (snake case).
//!
//! Clients see them in two experimental places only: `history` of `thread/resume` and `rawResponseItem/completed`.
//! Everywhere else an item is a [`crate::ThreadItem`].

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{MessagePhase, ReasoningEffort, ThreadId, TokenUsageBreakdown, TurnId, wire};

/// An item of the model's history: a part of its input or output.
///
/// `id` is the provider's id of the item; `call_id` links the output of a tool to its call. Items of unknown kinds are
/// accepted and stored, but not sent to models.
#[wire(
    open,
    lenient,
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "snake_case",
    later_variants = "LaterResponseItem"
)]
pub enum ResponseItem {
    #[unread(
        encrypted_content: Option<String>,
        status: Option<String>,
        internal_chat_message_metadata_passthrough: Option<InternalChatMessageMetadataPassthrough>
    )]
    Message {
        #[serde(skip_serializing)]
        id: Option<String>,
        /// `user`, `assistant`, `developer` or `system`.
        role: String,
        content: Vec<ContentItem>,
        #[omit]
        #[until("0.118")]
        end_turn: Option<bool>,
        #[omit]
        phase: Option<MessagePhase>,
    },
    #[unread(
        id: Option<String>,
        internal_chat_message_metadata_passthrough: Option<InternalChatMessageMetadataPassthrough>
    )]
    Reasoning {
        summary: Vec<ReasoningItemReasoningSummary>,
        #[omit]
        content: Option<Vec<ReasoningItemContent>>,
        /// Opaque data that is sent back to the provider with the next request.
        encrypted_content: Option<String>,
    },
    /// A command, from models with a built-in shell tool.
    #[unread(
        encrypted_content: Option<String>,
        internal_chat_message_metadata_passthrough: Option<InternalChatMessageMetadataPassthrough>
    )]
    LocalShellCall {
        #[serde(skip_serializing)]
        id: Option<String>,
        call_id: Option<String>,
        status: LocalShellStatus,
        action: LocalShellAction,
    },
    #[unread(
        encrypted_content: Option<String>,
        encrypted_function_args: Option<Vec<String>>,
        status: Option<String>,
        internal_chat_message_metadata_passthrough: Option<InternalChatMessageMetadataPassthrough>
    )]
    FunctionCall {
        #[serde(skip_serializing)]
        id: Option<String>,
        call_id: String,
        name: String,
        #[omit]
        namespace: Option<String>,
        /// The JSON text that the model wrote, which may be invalid.
        arguments: String,
    },
    #[unread(
        id: Option<String>,
        internal_chat_message_metadata_passthrough: Option<InternalChatMessageMetadataPassthrough>
    )]
    FunctionCallOutput {
        /// The call that this output answers. `None` for an output without a call: `toolOutput` of `turn/start`.
        #[omit]
        #[in_118(String)]
        call_id: Option<String>,
        /// The tool, for an output without a call.
        #[since("0.166")]
        #[omit]
        name: Option<String>,
        #[since("0.166")]
        #[omit]
        namespace: Option<String>,
        output: FunctionCallOutputBody,
    },
    /// A call of a tool that takes free text, such as a patch.
    #[unread(
        encrypted_content: Option<String>,
        namespace: Option<String>,
        internal_chat_message_metadata_passthrough: Option<InternalChatMessageMetadataPassthrough>
    )]
    CustomToolCall {
        #[serde(skip_serializing)]
        id: Option<String>,
        call_id: String,
        #[omit]
        status: Option<String>,
        name: String,
        input: String,
    },
    #[unread(
        id: Option<String>,
        internal_chat_message_metadata_passthrough: Option<InternalChatMessageMetadataPassthrough>
    )]
    CustomToolCallOutput {
        call_id: String,
        #[omit]
        name: Option<String>,
        output: FunctionCallOutputBody,
    },
    /// A search for tools that are not in the tool list.
    #[unread(
        encrypted_content: Option<String>,
        internal_chat_message_metadata_passthrough: Option<InternalChatMessageMetadataPassthrough>
    )]
    ToolSearchCall {
        #[serde(skip_serializing)]
        id: Option<String>,
        call_id: Option<String>,
        #[omit]
        status: Option<String>,
        /// The side that runs the search.
        execution: String,
        arguments: Value,
    },
    #[unread(
        id: Option<String>,
        internal_chat_message_metadata_passthrough: Option<InternalChatMessageMetadataPassthrough>
    )]
    ToolSearchOutput {
        call_id: Option<String>,
        status: String,
        execution: String,
        /// The definitions of the found tools.
        tools: Vec<Value>,
    },
    /// A search run by the provider. It has no output item.
    #[unread(
        encrypted_content: Option<String>,
        internal_chat_message_metadata_passthrough: Option<InternalChatMessageMetadataPassthrough>
    )]
    WebSearchCall {
        #[serde(skip_serializing)]
        id: Option<String>,
        #[omit]
        status: Option<String>,
        #[omit]
        action: Option<ResponsesApiWebSearchAction>,
    },
    #[unread(
        encrypted_content: Option<String>,
        internal_chat_message_metadata_passthrough: Option<InternalChatMessageMetadataPassthrough>
    )]
    ImageGenerationCall {
        #[in_166(Option<String>)]
        id: String,
        status: String,
        #[omit]
        revised_prompt: Option<String>,
        /// The image in base64.
        result: String,
    },
    /// The state of the work tree at this point. Recorded by the server and never sent to the model.
    #[until("0.118")]
    GhostSnapshot { ghost_commit: GhostCommit },
    /// Compacted history in a format that only the provider can read.
    #[unread(
        id: Option<String>,
        internal_chat_message_metadata_passthrough: Option<InternalChatMessageMetadataPassthrough>
    )]
    Compaction { encrypted_content: String },
    /// An item of a kind that its sender did not know.
    Other,
}

impl ResponseItem {
    /// Returns the output of a call.
    pub fn function_call_output(call_id: String, output: FunctionCallOutputBody) -> Self {
        Self::FunctionCallOutput { call_id: Some(call_id), name: None, namespace: None, output }
    }
}

/// The kinds of items that 0.166 has besides the others. They are kept as they are.
#[wire(tag = "type", rename_all = "snake_case", rename_all_fields = "snake_case")]
pub enum LaterResponseItem {
    AdditionalTools {
        id: Option<String>,
        role: String,
        tools: Vec<Value>,
    },
    /// A message of one agent to another.
    AgentMessage {
        id: Option<String>,
        author: String,
        recipient: String,
        content: Vec<AgentMessageInputContent>,
        internal_chat_message_metadata_passthrough: Option<InternalChatMessageMetadataPassthrough>,
    },
    CompactionTrigger,
    ConfigurationUpdate {
        reasoning: ConfigurationReasoning,
    },
    ContextCompaction {
        id: Option<String>,
        encrypted_content: Option<String>,
        internal_chat_message_metadata_passthrough: Option<InternalChatMessageMetadataPassthrough>,
    },
}

/// A part of a message: `input_*` from the user or the server, `output_text` from the model.
#[wire(open, tag = "type", rename_all = "snake_case", rename_all_fields = "snake_case")]
pub enum ContentItem {
    InputText {
        text: String,
    },
    InputImage {
        #[serde(flatten)]
        source: ContentImage,
        #[omit]
        #[since("0.166")]
        detail: Option<ImageDetail>,
    },
    #[since("0.166")]
    InputAudio {
        /// An `http(s):` or `data:` URL.
        audio_url: String,
    },
    #[unread(annotations: Option<Vec<Value>>, logprobs: Option<Vec<Value>>)]
    OutputText {
        text: String,
    },
}

impl ContentItem {
    /// Returns an image with this URL.
    pub fn image(url: impl Into<String>, detail: Option<ImageDetail>) -> Self {
        Self::InputImage { source: ContentImage::Url { image_url: url.into() }, detail }
    }
}

/// Where an image of the model's history is.
#[wire(untagged, rename_all_fields = "snake_case")]
#[schemars(inline)]
pub enum ContentImage {
    Url {
        /// An `http(s):` or `data:` URL.
        image_url: String,
    },
    /// A file that the provider has.
    #[since("0.166")]
    File { file_id: String },
}

impl ContentImage {
    /// Returns the URL; `None` for a file that the provider has.
    pub fn url(&self) -> Option<&str> {
        match self {
            Self::Url { image_url } => Some(image_url),
            Self::File { .. } => None,
        }
    }
}

/// The output of a tool: plain text, or a list if it contains images.
#[wire(untagged)]
pub enum FunctionCallOutputBody {
    Text(String),
    Content(Vec<FunctionCallOutputContentItem>),
}

impl FunctionCallOutputBody {
    /// Returns the texts of the output, each on a line of its own.
    pub fn text(&self) -> String {
        let parts = match self {
            Self::Text(text) => return text.clone(),
            Self::Content(parts) => parts.iter(),
        };
        let texts = parts.filter_map(|part| match part {
            FunctionCallOutputContentItem::InputText { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// A part of a tool's output.
#[wire(open, tag = "type", rename_all = "snake_case", rename_all_fields = "snake_case")]
pub enum FunctionCallOutputContentItem {
    InputText {
        text: String,
    },
    InputImage {
        #[serde(flatten)]
        source: ContentImage,
        #[omit]
        detail: Option<ImageDetail>,
    },
    #[since("0.166")]
    InputAudio {
        /// An `http(s):` or `data:` URL.
        audio_url: String,
    },
    /// A part that only the provider can read. Sent back to it as it is.
    #[since("0.166")]
    EncryptedContent {
        encrypted_content: String,
    },
}

impl FunctionCallOutputContentItem {
    /// Returns an image with this URL.
    pub fn image(url: impl Into<String>) -> Self {
        Self::InputImage { source: ContentImage::Url { image_url: url.into() }, detail: None }
    }
}

/// The resolution of an image for the model.
#[wire(open)]
#[derive(Eq)]
pub enum ImageDetail {
    Auto,
    Low,
    High,
    Original,
}

/// A part of raw reasoning, for which providers use two names.
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

/// The state of a [`ResponseItem::LocalShellCall`].
#[wire(open, rename_all = "snake_case")]
#[derive(Eq)]
pub enum LocalShellStatus {
    Completed,
    InProgress,
    Incomplete,
}

/// The action of the built-in shell tool.
#[wire(open, tag = "type", rename_all_fields = "snake_case")]
pub enum LocalShellAction {
    Exec {
        /// The argument list, not interpreted by a shell.
        command: Vec<String>,
        env: Option<BTreeMap<String, String>>,
        timeout_ms: Option<u64>,
        user: Option<String>,
        working_directory: Option<String>,
    },
}

/// The action of a web search, in the provider's format.
#[wire(open, tag = "type", rename_all = "snake_case")]
pub enum ResponsesApiWebSearchAction {
    Search {
        query: Option<String>,
        /// Used instead of `query` if there were several.
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

/// A commit outside any branch that preserves the work tree, for undoing changes.
#[wire(rename_all = "snake_case")]
pub struct GhostCommit {
    pub id: String,
    pub parent: Option<String>,
    /// Untracked files that are not in the commit and are kept when it is restored; likewise the directories.
    pub preexisting_untracked_files: Vec<String>,
    pub preexisting_untracked_dirs: Vec<String>,
}

/// An item was added to the model's history. Sent only for threads that were started with `experimentalRawEvents`.
#[wire]
pub struct RawResponseItemCompletedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item: ResponseItem,
}

/// A part of a message between agents.
#[wire(sparse, open, tag = "type", rename_all = "snake_case", rename_all_fields = "snake_case")]
pub enum AgentMessageInputContent {
    InputText { text: String },
    EncryptedContent { encrypted_content: String },
}

/// Metadata of the provider that is sent back to it.
#[wire(sparse, rename_all = "snake_case")]
#[derive(Default)]
pub struct InternalChatMessageMetadataPassthrough {
    pub turn_id: Option<TurnId>,
}

/// The reasoning settings from an item on.
#[wire]
pub struct ConfigurationReasoning {
    pub effort: ReasoningEffort,
}

/// A response of the provider is complete. Sent only for threads that were started with `experimentalRawEvents`.
#[wire]
pub struct RawResponseCompletedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub response_id: String,
    pub usage: Option<TokenUsageBreakdown>,
    pub usage_metadata: Option<ResponseUsageMetadata>,
}

/// What a response cost, in the provider's format.
#[wire]
pub struct ResponseUsageMetadata {
    pub amount: Option<String>,
    pub metadata: Option<Value>,
}
