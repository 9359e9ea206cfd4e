//! Codes of errors about requests that another node has to serve.

use serde_json::json;

use crate::{error::RpcError, relay::RelayError};

impl From<RelayError> for RpcError {
    fn from(error: RelayError) -> Self {
        match error {
            RelayError::OutcomeUnknown { ref node } => {
                let data = json!({ "codicil": { "code": "outcomeUnknown", "node": node } });
                Self::internal(error).with_data(data)
            }
            RelayError::Busy => Self::overloaded(),
        }
    }
}
