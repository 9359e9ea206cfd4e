//! `request_user_input`: the model asks the user to choose between answers.

use std::ops::RangeInclusive;

use codicil_config::Feature;
use codicil_model::ToolSpec;
use codicil_protocol::{
    ToolRequestUserInputOption, ToolRequestUserInputParams, ToolRequestUserInputQuestion,
    ToolRequestUserInputResponse, ToolUserInput,
};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use super::{
    TurnTools,
    ask::{AskingCall, QuestionKind, QuestionReply},
    builtin::BuiltinTool,
    call::{ToolCall, ToolError, ToolResult, text_output},
    offer::ToolOffer,
    schema::{function, object, string},
};

/// How many questions one call may ask.
const QUESTIONS: RangeInclusive<usize> = 1..=3;

pub(super) struct RequestUserInput;

#[derive(Deserialize)]
struct UserInputArguments {
    questions: Vec<InputQuestion>,
}

#[derive(Deserialize)]
struct InputQuestion {
    id: String,
    header: String,
    question: String,
    #[serde(default)]
    options: Vec<ToolRequestUserInputOption>,
}

impl BuiltinTool for RequestUserInput {
    fn name(&self) -> &'static str {
        "request_user_input"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        let option = object(
            json!({
                "label": string("The answer in one to five words."),
                "description": string("What choosing it means, in one sentence."),
            }),
            &["label", "description"],
        );
        let question = object(
            json!({
                "id": string("A name for the answer, in snake_case."),
                "header": string("A word or two to stand above the question."),
                "question": string("The question, in one sentence."),
                "options": {
                    "type": "array",
                    "items": option,
                    "description": "Two or three answers that exclude each other, the one you suggest first. \
                                    Words of their own are always open to the user.",
                },
            }),
            &["id", "header", "question", "options"],
        );
        let properties = json!({
            "questions": {
                "type": "array",
                "items": question,
                "description": "One to three short questions.",
            },
        });
        let description = "Asks the user to choose and waits for the answers. Works in plan mode.";
        let is_offered = offer.request_user_input && offer.is_main();
        is_offered.then(|| function(self.name(), description, properties, &["questions"]))
    }

    fn begins_at_once(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(run(turn, call))
    }
}

async fn run(turn: &TurnTools, call: &ToolCall) -> ToolResult {
    let works_in_default_mode = turn.config.features.enabled(Feature::DefaultModeRequestUserInput);
    if !works_in_default_mode && !turn.is_plan_mode() {
        let why = "request_user_input is unavailable in Default mode";
        return Err(ToolError::Failed(why.to_owned()));
    }
    let arguments: UserInputArguments = call.arguments()?;
    let count = arguments.questions.len();
    if !QUESTIONS.contains(&count) {
        return Err(ToolError::Failed(format!(
            "request_user_input takes one to three questions, not {count}"
        )));
    }
    if arguments.questions.iter().any(|question| question.options.is_empty()) {
        let why = "request_user_input requires non-empty options for every question";
        return Err(ToolError::Failed(why.to_owned()));
    }
    let questions = arguments.questions.into_iter().map(|question| ToolRequestUserInputQuestion {
        id: question.id,
        header: question.header,
        question: question.question,
        is_other: true,
        is_secret: false,
        options: Some(question.options),
    });
    let params = ToolRequestUserInputParams {
        thread_id: turn.thread_id(),
        turn_id: turn.turn_id.clone(),
        item_id: call.item_id(),
        questions: questions.collect(),
        is_blocking: true,
        auto_resolution_ms: None,
    };
    let asker = AskingCall { call_id: &call.id, item: None };
    let response = match turn.ask_durably::<ToolUserInput>(params, QuestionKind::UserInput, asker).await? {
        QuestionReply::Answer(response) => response,
        // The model reads a missing answer as one without choices.
        QuestionReply::Unreadable | QuestionReply::Error => {
            ToolRequestUserInputResponse { answers: Default::default() }
        }
    };
    Ok(text_output(serde_json::to_string(&response).unwrap_or_default()))
}
