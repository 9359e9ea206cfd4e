//! `update_plan`: the model's list of steps, for the user to follow.

use codicil_model::ToolSpec;
use codicil_protocol::{TurnPlanStep, TurnPlanStepStatus};
use codicil_store::StoredPlan;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use super::{
    TurnTools,
    builtin::BuiltinTool,
    call::{ToolCall, ToolResult, text_output},
    offer::ToolOffer,
    schema::{function, object, string},
};
use crate::turn_channel::TurnEvent;

pub(super) struct UpdatePlan;

#[derive(Deserialize)]
struct PlanArguments {
    explanation: Option<String>,
    plan: Vec<PlanStep>,
}

#[derive(Deserialize)]
struct PlanStep {
    step: String,
    status: StepStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum StepStatus {
    Pending,
    #[serde(alias = "inProgress")]
    InProgress,
    Completed,
}

impl BuiltinTool for UpdatePlan {
    fn name(&self) -> &'static str {
        "update_plan"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        if !offer.update_plan {
            return None;
        }
        let step = object(
            json!({
                "step": string("What is to be done, in a few words."),
                "status": string("`pending`, `in_progress` or `completed`."),
            }),
            &["step", "status"],
        );
        let properties = json!({
            "explanation": string("Why the plan changed, if it did."),
            "plan": { "type": "array", "items": step, "description": "All steps, in order." },
        });
        let description = "Shows the user the plan for the task and how far it has come. Give the whole plan each \
                           time; at most one step is in progress.";
        Some(function(self.name(), description, properties, &["plan"]))
    }

    fn begins_at_once(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(run(turn, call))
    }
}

async fn run(turn: &TurnTools, call: &ToolCall) -> ToolResult {
    let PlanArguments { explanation, plan } = call.arguments()?;
    let steps = plan.into_iter().map(|PlanStep { step, status }| TurnPlanStep {
        step,
        status: match status {
            StepStatus::Pending => TurnPlanStepStatus::Pending,
            StepStatus::InProgress => TurnPlanStepStatus::InProgress,
            StepStatus::Completed => TurnPlanStepStatus::Completed,
        },
    });
    let plan = StoredPlan { turn_id: turn.turn_id.clone(), explanation, plan: steps.collect() };
    turn.reporter.report_one(TurnEvent::Planned(plan)).await;
    Ok(text_output("Plan updated"))
}
