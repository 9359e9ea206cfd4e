//! The plans of turns: the agent's list of steps, as it was last reported.

use codicil_protocol::{ThreadId, TurnId, TurnPlanStep, TurnPlanUpdatedNotification};
use serde::{Deserialize, Serialize};

use crate::record::Record;

/// The kind of the extra record with the plan of a turn.
pub(crate) const PLAN: &str = "plan";

/// The plan of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredPlan {
    pub turn_id: TurnId,
    pub explanation: Option<String>,
    pub plan: Vec<TurnPlanStep>,
}

impl StoredPlan {
    /// Returns the plan as clients receive it.
    pub fn into_notification(self, thread_id: ThreadId) -> TurnPlanUpdatedNotification {
        let Self { turn_id, explanation, plan } = self;
        TurnPlanUpdatedNotification { thread_id, turn_id, explanation, plan }
    }
}

impl Record {
    /// Sets the plan of a turn.
    pub fn plan(plan: &StoredPlan) -> Self {
        Self::Extra { kind: PLAN.to_owned(), data: serde_json::to_value(plan).unwrap_or_default() }
    }

    /// Returns the plan that the record sets; `None` for other records.
    pub fn turn_plan(&self) -> Option<StoredPlan> {
        let Self::Extra { kind, data } = self else { return None };
        if kind != PLAN {
            return None;
        }
        serde_json::from_value(data.clone()).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plan_is_read_from_its_record_only() {
        let json = json!({ "turnId": "u", "explanation": null, "plan": [{ "step": "Look", "status": "completed" }] });
        let plan: StoredPlan = serde_json::from_value(json).unwrap();
        assert_eq!(Record::plan(&plan).turn_plan(), Some(plan));
        assert_eq!(Record::position().turn_plan(), None);
    }
}
