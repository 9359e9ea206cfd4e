//! The server requests that outlive the process: how they are sent again, and what answers them.

use codicil_config::DefaultDecision;
use codicil_protocol::{
    CommandExecutionApproval, DynamicToolCall, FileChangeApproval, Frame, Inspect, InspectFindings, Method,
    PermissionsApproval, ToolUserInput, rpc::RequestId,
};
use serde_json::{Value, json, value::RawValue};

/// Evaluates an expression for the method with a name; `None` for methods whose requests end with the process.
macro_rules! for_method {
    ($name:expr, $method:ident => $body:expr) => {
        match $name {
            CommandExecutionApproval::NAME => for_method!(@one CommandExecutionApproval, $method => $body),
            FileChangeApproval::NAME => for_method!(@one FileChangeApproval, $method => $body),
            PermissionsApproval::NAME => for_method!(@one PermissionsApproval, $method => $body),
            ToolUserInput::NAME => for_method!(@one ToolUserInput, $method => $body),
            DynamicToolCall::NAME => for_method!(@one DynamicToolCall, $method => $body),
            _ => None,
        }
    };
    (@one $known:ident, $method:ident => $body:expr) => {{
        type $method = $known;
        Some($body)
    }};
}

/// Returns the message of a stored request; `None` if this version cannot send it.
pub(crate) fn encode(method: &str, params: &Value, id: &RequestId) -> Option<Frame> {
    for_method!(method, Asked => {
        let params: <Asked as Method>::Params = serde_json::from_value(params.clone()).ok()?;
        Frame::request::<Asked>(id, &params)
    })
}

/// Returns whether a stored request can be sent again.
pub(crate) fn can_ask(method: &str, params: &Value) -> bool {
    encode(method, params, &RequestId::Integer(0)).is_some()
}

/// Checks that a result has the shape of the method's response. The error says what was expected.
pub(crate) fn check_result(method: &str, result: &RawValue) -> Result<(), String> {
    let checked = for_method!(method, Asked => check_shape::<Asked>(result));
    checked.unwrap_or_else(|| Err(format!("{method} cannot be answered here")))
}

fn check_shape<M>(result: &RawValue) -> Result<(), String>
where
    M: Method,
    M::Response: Inspect,
{
    let expected = |why: &str| {
        let name = std::any::type_name::<M::Response>().rsplit("::").next().unwrap_or_default();
        format!("{} expects a `{name}` as its result: {why}", M::NAME)
    };
    let response: M::Response =
        serde_json::from_str(result.get()).map_err(|error| expected(&error.to_string()))?;
    match InspectFindings::of(&response).unknown_value() {
        Some(why) => Err(expected(why)),
        None => Ok(()),
    }
}

/// Returns the answer to an approval when its deadline has passed; `None` for requests that have no decision.
pub(crate) fn default_result(method: &str, decision: DefaultDecision) -> Option<Box<RawValue>> {
    let result = match method {
        CommandExecutionApproval::NAME | FileChangeApproval::NAME => json!({ "decision": decision.name() }),
        PermissionsApproval::NAME => json!({ "permissions": {}, "scope": "turn" }),
        _ => return None,
    };
    serde_json::value::to_raw_value(&result).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn results_are_checked_by_the_type_of_the_response() {
        let check = |method: &str, json: &str, expected: Result<(), &str>| {
            let checked = check_result(method, &raw(json));
            match expected {
                Ok(()) => assert_eq!(checked, Ok(()), "{json}"),
                Err(part) => assert!(checked.clone().unwrap_err().contains(part), "{json}: {checked:?}"),
            }
        };
        check(CommandExecutionApproval::NAME, r#"{"decision":"accept"}"#, Ok(()));
        check(CommandExecutionApproval::NAME, r#"{"decision":"maybe"}"#, Err("maybe"));
        check(CommandExecutionApproval::NAME, "{}", Err("CommandExecutionRequestApprovalResponse"));
        check(FileChangeApproval::NAME, r#"{"decision":"decline"}"#, Ok(()));
        check(FileChangeApproval::NAME, "7", Err("FileChangeRequestApprovalResponse"));
        check(PermissionsApproval::NAME, r#"{"permissions":{}}"#, Ok(()));
        check(ToolUserInput::NAME, r#"{"answers":{"a":{"answers":["b"]}}}"#, Ok(()));
        check(ToolUserInput::NAME, r#"{"answers":[]}"#, Err("ToolRequestUserInputResponse"));
        check(DynamicToolCall::NAME, r#"{"contentItems":[],"success":true}"#, Ok(()));
        check("mcpServer/elicitation/request", "{}", Err("cannot be answered here"));
    }

    #[test]
    fn default_results_have_the_shape_of_a_result() {
        for decision in [DefaultDecision::Decline, DefaultDecision::Cancel] {
            for method in
                [CommandExecutionApproval::NAME, FileChangeApproval::NAME, PermissionsApproval::NAME]
            {
                let result = default_result(method, decision).unwrap();
                assert_eq!(check_result(method, &result), Ok(()), "{method}");
            }
            assert!(default_result(ToolUserInput::NAME, decision).is_none());
            assert!(default_result(DynamicToolCall::NAME, decision).is_none());
        }
    }
}
