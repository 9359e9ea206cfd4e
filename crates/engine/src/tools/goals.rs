//! `create_goal`, `get_goal` and `update_goal`: the model's view of the goal of its thread.

use codicil_model::ToolSpec;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use super::{
    TurnTools,
    builtin::BuiltinTool,
    call::{ToolCall, ToolError, ToolResult, lenient_number, text_output},
    offer::ToolOffer,
    schema::{function, number, string},
};
use crate::goals::{GoalRequest, ModelGoalStatus};

pub(super) struct CreateGoal;
pub(super) struct GetGoal;
pub(super) struct UpdateGoal;

#[derive(Deserialize)]
struct CreateArguments {
    objective: String,
    #[serde(default, deserialize_with = "lenient_number")]
    token_budget: Option<u64>,
}

#[derive(Deserialize)]
struct UpdateArguments {
    status: ModelGoalStatus,
}

impl BuiltinTool for CreateGoal {
    fn name(&self) -> &'static str {
        "create_goal"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        let properties = json!({
            "objective": string("What is to be reached, so that it can be checked."),
            "token_budget": number("The tokens that may be used for it. Only if the user has named a limit."),
        });
        let description = "Sets a goal for this thread, on which you then work turn after turn until it is complete. \
                           Only if the user asks for a goal. Fails while there is an unfinished one.";
        offer.goals.then(|| function(self.name(), description, properties, &["objective"]))
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let CreateArguments { objective, token_budget } = call.arguments()?;
            let token_budget = token_budget.map(|budget| i64::try_from(budget).unwrap_or(i64::MAX));
            request(turn, GoalRequest::Create { objective, token_budget }).await
        })
    }
}

impl BuiltinTool for GetGoal {
    fn name(&self) -> &'static str {
        "get_goal"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        let description = "Returns the goal of this thread, its status, and what has been used for it.";
        offer.goals.then(|| function(self.name(), description, json!({}), &[]))
    }

    fn begins_at_once(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, _call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(request(turn, GoalRequest::Get))
    }
}

impl BuiltinTool for UpdateGoal {
    fn name(&self) -> &'static str {
        "update_goal"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        let properties = json!({
            "status": string(
                "`complete` if everything is reached and checked, `blocked` if only the user can help, `paused` if the \
                 user wants to stop for now.",
            ),
        });
        let description = "Ends or pauses the work on the goal of this thread.";
        offer.goals.then(|| function(self.name(), description, properties, &["status"]))
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let UpdateArguments { status } = call.arguments()?;
            request(turn, GoalRequest::Update(status)).await
        })
    }
}

/// Has the thread carry out a request. Its refusal is the output of the call.
async fn request(turn: &TurnTools, request: GoalRequest) -> ToolResult {
    match turn.reporter.goal(request).await {
        Some(Ok(report)) => Ok(text_output(serde_json::to_string(&report).unwrap_or_default())),
        Some(Err(refusal)) => Err(ToolError::Failed(refusal)),
        None => Err(ToolError::Cancelled),
    }
}
