//! `request_user_input`: the model asks the person to choose.

use codicil_config::Feature;
use codicil_protocol::{
    ToolRequestUserInputOption, ToolRequestUserInputParams, ToolRequestUserInputQuestion,
    ToolRequestUserInputResponse, ToolUserInput,
};
use serde::Deserialize;

use super::{
    TurnTools,
    ask::{QuestionKind, QuestionReply},
    call::{ToolCall, ToolOutput, TurnCancelled, say},
};

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

impl TurnTools {
    pub(super) async fn request_user_input(&self, call: &ToolCall) -> Result<ToolOutput, TurnCancelled> {
        let anywhere = self.config.features.enabled(Feature::DefaultModeRequestUserInput);
        if !anywhere && !self.is_plan_mode() {
            return Ok(say("request_user_input is unavailable in Default mode; it works in plan mode only"));
        }
        let arguments: UserInputArguments = match call.arguments() {
            Ok(arguments) => arguments,
            Err(told) => return Ok(told),
        };
        if arguments.questions.iter().any(|question| question.options.is_empty()) {
            return Ok(say("request_user_input requires options for every question"));
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
            thread_id: self.kit.thread.clone(),
            turn_id: self.turn.clone(),
            item_id: call.item_id(),
            questions: questions.collect(),
        };
        let response = match self.ask::<ToolUserInput>(params, QuestionKind::UserInput).await? {
            QuestionReply::Answer(response) => response,
            // To the model, no answer is an answer.
            QuestionReply::Nonsense | QuestionReply::Error => {
                ToolRequestUserInputResponse { answers: Default::default() }
            }
        };
        Ok(say(serde_json::to_string(&response).unwrap_or_default()))
    }
}
