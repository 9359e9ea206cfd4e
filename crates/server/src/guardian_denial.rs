//! An action that the guardian denied and the user allows: what the model is told about it.

use codicil_engine::{InjectError, parse_injected_items};
use codicil_protocol::ResponseItem;
use serde::Deserialize;
use serde_json::{Value, json};

/// Why an event is not that of a denied action.
#[derive(Debug, thiserror::Error)]
pub enum GuardianDenialError {
    #[error("invalid Guardian denial event: {0}")]
    Invalid(serde_json::Error),
    #[error("only an action that the guardian denied can be approved, not one with the status `{0}`")]
    NotDenied(String),
    #[error(transparent)]
    Inject(#[from] InjectError),
}

/// The parts of the client's event that the model needs. The rest of it describes the review.
#[derive(Debug, Deserialize)]
pub struct GuardianDenial {
    id: String,
    #[serde(default)]
    status: Option<String>,
    action: Value,
}

impl GuardianDenial {
    pub fn parse(event: Value) -> Result<Self, GuardianDenialError> {
        let denial: Self = serde_json::from_value(event).map_err(GuardianDenialError::Invalid)?;
        match denial.status.as_deref() {
            None | Some("denied") => Ok(denial),
            Some(status) => Err(GuardianDenialError::NotDenied(status.to_owned())),
        }
    }

    /// Returns the message to the model.
    pub fn to_items(&self) -> Result<Vec<ResponseItem>, GuardianDenialError> {
        let text = format!(
            "The user has seen that the automatic reviewer denied this action and allows it (review {}):\n{}\n\
             You may try exactly this action again. It allows nothing else.",
            self.id, self.action
        );
        let content = json!([{ "type": "input_text", "text": text }]);
        Ok(parse_injected_items(vec![json!({ "type": "message", "role": "developer", "content": content })])?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_needs_an_id_and_an_action_and_a_denial() {
        let error = |event: Value| GuardianDenial::parse(event).unwrap_err().to_string();
        assert_eq!(error(json!({})), "invalid Guardian denial event: missing field `id`");
        assert_eq!(error(json!({ "id": "r" })), "invalid Guardian denial event: missing field `action`");
        let approved = json!({ "id": "r", "status": "approved", "action": {} });
        assert!(error(approved).contains("`approved`"));
        let denial = json!({ "id": "r", "status": "denied", "action": { "command": "rm -r x" } });
        let items = GuardianDenial::parse(denial).unwrap().to_items().unwrap();
        assert!(serde_json::to_string(&items).unwrap().contains("rm -r x"));
    }
}
