//! The user's input of a turn: its checks, its stored form, and the form in which the model sees it.

use std::collections::BTreeMap;

use codicil_model::{History, HistoryItem, WireApi};
use codicil_protocol::{
    AdditionalContextEntry, AdditionalContextKind, ImageSource, QueuedSubmission, ResponseItem, ThreadItem,
    TurnId, TurnStartParams, TurnSteerParams, TurnToolOutput, UserInput,
};
use codicil_store::{FactChange, QueueChange, Record};

use crate::{
    error::{QueueError, TurnInputError},
    ids::new_item_id,
    queue,
};

/// The longest input of a request, over all its texts and its context.
const MAX_INPUT_CHARS: usize = 1 << 20;

/// What a client adds to input for the model, by key.
pub(super) type InputContext = BTreeMap<String, AdditionalContextEntry>;

/// The input of a request, for a new turn or for the running one.
#[derive(Clone, Debug)]
pub(super) struct RequestInput {
    content: Vec<UserInput>,
    /// The client's id of the message.
    client_id: Option<String>,
    /// The output of a tool, instead of content.
    tool_output: Option<TurnToolOutput>,
    context: InputContext,
    /// The submission of the queue that this input was.
    submission: Option<String>,
}

impl RequestInput {
    /// Returns what the user has entered.
    pub fn user_input(&self) -> &[UserInput] {
        &self.content
    }

    /// Takes the input out of a request.
    pub fn take(params: &mut TurnStartParams) -> Self {
        Self {
            content: std::mem::take(&mut params.input),
            client_id: params.client_user_message_id.take(),
            tool_output: params.tool_output.take(),
            context: params.additional_context.take().unwrap_or_default(),
            submission: None,
        }
    }

    /// Returns the input of a submission of the queue.
    pub fn queued(submission: QueuedSubmission) -> Self {
        Self {
            content: submission.input,
            client_id: Some(submission.client_user_message_id),
            tool_output: None,
            context: BTreeMap::new(),
            submission: Some(submission.id),
        }
    }

    /// Returns the input as it is now: that of a submission may have been changed or removed by another process.
    pub fn current(&self, queue: &[QueuedSubmission]) -> Result<Self, QueueError> {
        match &self.submission {
            Some(id) => Ok(Self::queued(queue::next(queue, Some(id))?.clone())),
            None => Ok(self.clone()),
        }
    }

    /// Returns the record that takes the submission out of the queue.
    pub fn queue_record(&self) -> Option<Record> {
        let remove = |id: &String| Record::fact(&FactChange::Queue(QueueChange::Remove(id.clone())));
        self.submission.as_ref().map(remove)
    }

    /// Checks the input for a model that is reached with a dialect.
    pub fn check(&self, dialect: impl FnOnce() -> WireApi) -> Result<(), TurnInputError> {
        match &self.tool_output {
            None if self.content.is_empty() => return Err(TurnInputError::EmptyInput),
            Some(_) if !self.content.is_empty() => return Err(TurnInputError::InputAndToolOutput),
            Some(output) if output.name.is_empty() => return Err(TurnInputError::EmptyToolName),
            _ => {}
        }
        let mut special = self.content.iter().filter_map(SpecialInput::of).peekable();
        if special.peek().is_some() {
            let dialect = dialect();
            if let Some(refused) = special.find(|input| !input.is_taken_by(dialect)) {
                return Err(TurnInputError::UnsupportedInput(refused.name()));
            }
        }
        for entry in self.context.values() {
            match &entry.name {
                Some(_) if entry.kind == AdditionalContextKind::Application => {
                    return Err(TurnInputError::TrustedContextName);
                }
                Some(name) if !codicil_prompts::is_context_name(name) => {
                    return Err(TurnInputError::ContextName);
                }
                _ => {}
            }
        }
        let texts = self.content.iter().filter_map(|input| match input {
            UserInput::Text { text, .. } => Some(text),
            _ => None,
        });
        let values = self.context.values().map(|entry| &entry.value);
        let output = self.tool_output.as_ref().map_or(0, |output| output.output.text().chars().count());
        let actual = texts.chain(values).map(|text| text.chars().count()).sum::<usize>() + output;
        if actual > MAX_INPUT_CHARS {
            return Err(TurnInputError::TooLong { max: MAX_INPUT_CHARS, actual });
        }
        Ok(())
    }

    /// Returns the messages of the context that the model does not have yet. `previous` is the context of the input before
    /// this one, and becomes that of this one: an entry that was missing there is sent again.
    pub fn new_context(&self, history: &History, previous: &mut InputContext) -> Vec<ResponseItem> {
        let previous = std::mem::replace(previous, self.context.clone());
        let message = |(key, entry): (&String, &AdditionalContextEntry)| {
            let is_kept = previous.get(key) == Some(entry);
            let known = history.iter().map(HistoryItem::item).filter(|_| is_kept);
            codicil_prompts::additional_context_message(key, entry, known)
        };
        self.context.iter().filter_map(message).collect()
    }

    /// Returns whether there is neither a message nor the output of a tool.
    pub fn is_empty(&self) -> bool {
        self.content.is_empty() && self.tool_output.is_none()
    }

    /// Returns the input as an item of the thread.
    pub fn into_item(self) -> ThreadItem {
        let id = new_item_id();
        match self.tool_output {
            Some(TurnToolOutput { name, namespace, output, .. }) => {
                ThreadItem::FunctionCallOutput { id, name, namespace, output }
            }
            None => ThreadItem::UserMessage { id, content: self.content, client_id: self.client_id },
        }
    }
}

impl From<TurnSteerParams> for RequestInput {
    fn from(params: TurnSteerParams) -> Self {
        Self {
            content: params.input,
            client_id: params.client_user_message_id,
            tool_output: None,
            context: params.additional_context.unwrap_or_default(),
            submission: None,
        }
    }
}

/// A kind of input that only some providers take.
#[derive(Clone, Copy)]
enum SpecialInput {
    Audio,
    /// An image that the provider has.
    ImageFile,
}

impl SpecialInput {
    fn of(input: &UserInput) -> Option<Self> {
        match input {
            UserInput::Audio { .. } | UserInput::LocalAudio { .. } => Some(Self::Audio),
            UserInput::Image { source: ImageSource::File { .. }, .. } => Some(Self::ImageFile),
            _ => None,
        }
    }

    fn is_taken_by(self, dialect: WireApi) -> bool {
        match (self, dialect) {
            (_, WireApi::Responses | WireApi::Scripted) | (Self::Audio, WireApi::Chat) => true,
            (Self::ImageFile, WireApi::Chat) | (_, WireApi::Anthropic) => false,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Audio => "audio",
            Self::ImageFile => "an image by `fileId`",
        }
    }
}

/// Input that arrived while a turn was running.
pub(super) struct SteeredInput {
    pub item: ThreadItem,
    /// The messages of its context.
    pub context: Vec<ResponseItem>,
}

/// The input that a turn starts with.
pub(super) struct FirstInput {
    /// `None` for a turn without a message.
    pub item: Option<ThreadItem>,
    /// The context messages that precede it.
    pub context: Vec<ResponseItem>,
    /// The input as the model sees it.
    pub content: Vec<ResponseItem>,
    /// Records of the content that are stored only when the model gets it.
    pub unstored: Vec<Record>,
    /// Whether hooks decide about the prompt before the model may see it.
    pub waits_for_hooks: bool,
}

impl FirstInput {
    /// Returns the record that withdraws the stored item. Clients have not seen it.
    pub fn withdrawal(&self, turn: &TurnId) -> Option<Record> {
        self.item.as_ref()?.id().map(|item| Record::withdrawn(turn, item))
    }

    /// Returns the records and history items of input that was never part of a request, because the turn was cut off
    /// or failed before. There are none if hooks had not decided yet.
    pub fn into_history(self) -> (Vec<Record>, Vec<ResponseItem>) {
        if self.waits_for_hooks { Default::default() } else { (self.unstored, self.content) }
    }

    /// Returns the text of the user, or of the tool whose output this is.
    pub fn text(&self) -> String {
        let content = match &self.item {
            Some(ThreadItem::UserMessage { content, .. }) => content,
            Some(ThreadItem::FunctionCallOutput { output, .. }) => return output.text(),
            _ => return String::new(),
        };
        let texts = content.iter().filter_map(|input| match input {
            UserInput::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

pub(super) fn user_message(content: Vec<UserInput>) -> ThreadItem {
    ThreadItem::UserMessage { id: new_item_id(), content, client_id: None }
}

/// Returns the stored form of a user message: all texts joined into one, which comes first. An empty text is kept.
fn stored_form(item: &ThreadItem) -> ThreadItem {
    let ThreadItem::UserMessage { id, content, client_id } = item else { return item.clone() };
    let mut joined = String::new();
    let mut elements = Vec::new();
    let mut others = Vec::new();
    for input in content {
        match input {
            UserInput::Text { text, text_elements } => {
                let shift = joined.len() as u64;
                elements.extend(text_elements.iter().cloned().map(|mut element| {
                    let range = &mut element.byte_range;
                    let bounds = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
                    let shown = bounds.and_then(|(start, end)| text.get(start..end));
                    element.placeholder = element.placeholder.or_else(|| shown.map(str::to_owned));
                    range.start = range.start.saturating_add(shift);
                    range.end = range.end.saturating_add(shift);
                    element
                }));
                joined.push_str(text);
            }
            other => others.push(other.clone()),
        }
    }
    let has_text = others.len() < content.len();
    let text = has_text.then_some(UserInput::Text { text: joined, text_elements: elements });
    ThreadItem::UserMessage {
        id: id.clone(),
        content: text.into_iter().chain(others).collect(),
        client_id: client_id.clone(),
    }
}

pub(super) fn context_record(turn: &TurnId, item: &ResponseItem) -> Record {
    Record::Context { turn_id: Some(turn.clone()), item: item.clone() }
}

pub(super) fn message_record(turn: &TurnId, item: &ThreadItem) -> Record {
    Record::Item { turn_id: turn.clone(), item: stored_form(item) }
}
