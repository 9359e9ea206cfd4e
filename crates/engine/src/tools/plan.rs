//! `update_plan`: the model's list of what it is going to do, for people to follow.

use codicil_protocol::{
    Frame, TurnPlanStep, TurnPlanStepStatus, TurnPlanUpdated, TurnPlanUpdatedNotification,
};
use serde::Deserialize;

use super::{
    TurnTools,
    call::{ToolCall, ToolOutput, TurnCancelled, say},
};
use crate::turn_channel::TurnEvent;

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

impl TurnTools {
    pub(super) async fn update_plan(&self, call: &ToolCall) -> Result<ToolOutput, TurnCancelled> {
        let arguments: PlanArguments = match call.arguments() {
            Ok(arguments) => arguments,
            Err(told) => return Ok(told),
        };
        let steps = arguments.plan.into_iter().map(|PlanStep { step, status }| TurnPlanStep {
            step,
            status: match status {
                StepStatus::Pending => TurnPlanStepStatus::Pending,
                StepStatus::InProgress => TurnPlanStepStatus::InProgress,
                StepStatus::Completed => TurnPlanStepStatus::Completed,
            },
        });
        let params = TurnPlanUpdatedNotification {
            thread_id: self.kit.thread.clone(),
            turn_id: self.turn.clone(),
            explanation: arguments.explanation,
            plan: steps.collect(),
        };
        self.reporter
            .report_one(TurnEvent::Notification(Frame::notification::<TurnPlanUpdated>(&params)))
            .await;
        Ok(say("Plan updated"))
    }
}
