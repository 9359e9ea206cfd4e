//! `update_plan`: the model's list of what it is going to do, for people to follow.

use codicil_protocol::{
    Frame, TurnPlanStep, TurnPlanStepStatus, TurnPlanUpdated, TurnPlanUpdatedNotification,
};
use serde::Deserialize;

use super::{
    TurnTools,
    call::{Call, Cancelled, Output, say},
};
use crate::step::Step;

#[derive(Deserialize)]
struct Arguments {
    explanation: Option<String>,
    plan: Vec<PlanStep>,
}

#[derive(Deserialize)]
struct PlanStep {
    step: String,
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    #[serde(alias = "inProgress")]
    InProgress,
    Completed,
}

impl TurnTools {
    pub(super) async fn update_plan(&self, call: &Call) -> Result<Output, Cancelled> {
        let arguments: Arguments = match call.arguments() {
            Ok(arguments) => arguments,
            Err(told) => return Ok(told),
        };
        let steps = arguments.plan.into_iter().map(|PlanStep { step, status }| TurnPlanStep {
            step,
            status: match status {
                Status::Pending => TurnPlanStepStatus::Pending,
                Status::InProgress => TurnPlanStepStatus::InProgress,
                Status::Completed => TurnPlanStepStatus::Completed,
            },
        });
        let params = TurnPlanUpdatedNotification {
            thread_id: self.kit.thread.clone(),
            turn_id: self.turn.clone(),
            explanation: arguments.explanation,
            plan: steps.collect(),
        };
        self.steps.one(Step::Told(Frame::notification::<TurnPlanUpdated>(&params))).await;
        Ok(say("Plan updated"))
    }
}
