//! From the fields of a question's form to the response of its method. Pure functions.

use std::collections::BTreeMap;

use codicil_client::protocol::{
    CommandExecutionApprovalDecision, CommandExecutionRequestApprovalParams,
    CommandExecutionRequestApprovalResponse, FileChangeApprovalDecision, FileChangeRequestApprovalResponse,
    GrantedPermissionProfile, McpElicitationEnumSchema, McpElicitationMultiSelectEnumSchema,
    McpElicitationNumberType, McpElicitationPrimitiveSchema, McpElicitationSchema,
    McpServerElicitationAction, McpServerElicitationRequest, McpServerElicitationRequestParams,
    McpServerElicitationRequestResponse, PermissionGrantScope, PermissionsRequestApprovalParams,
    PermissionsRequestApprovalResponse, ServerRequest, ToolRequestUserInputAnswer,
    ToolRequestUserInputParams, ToolRequestUserInputResponse,
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::access::FormFields;

/// The reason why a form does not answer its question.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AnswerError {
    #[error("this question has no such answer: {0}")]
    UnknownDecision(String),
    #[error("a value is needed for {0}")]
    MissingValue(String),
    #[error("{0} must be a number")]
    NotNumber(String),
    #[error("the console cannot answer this question")]
    Unsupported,
}

/// Returns the response that a form stands for. The field `decision` has the pressed button; of a command, a decision that
/// carries a rule is named by its number among [`offered_decisions`].
pub fn answer_from(request: &ServerRequest, fields: &FormFields) -> Result<Value, AnswerError> {
    let decision = fields.get("decision").unwrap_or("submit");
    match request {
        ServerRequest::CommandExecutionApproval(params) => {
            let decision = command_decision(params, decision)?;
            Ok(encode(&CommandExecutionRequestApprovalResponse { decision }))
        }
        ServerRequest::FileChangeApproval(_) => {
            let decision = file_decision(decision)?;
            Ok(encode(&FileChangeRequestApprovalResponse { decision }))
        }
        ServerRequest::PermissionsApproval(params) => Ok(encode(&permissions(params, decision)?)),
        ServerRequest::ToolUserInput(params) => Ok(encode(&user_input(params, decision, fields))),
        ServerRequest::McpServerElicitation(params) => Ok(encode(&elicitation(params, decision, fields)?)),
        _ => Err(AnswerError::Unsupported),
    }
}

fn encode(answer: &impl Serialize) -> Value {
    serde_json::to_value(answer).unwrap_or_default()
}

/// Returns the decisions that the server offers about a command. A server that offers none gets the usual ones, with the
/// rules that it proposes.
pub fn offered_decisions(
    params: &CommandExecutionRequestApprovalParams,
) -> Vec<CommandExecutionApprovalDecision> {
    use CommandExecutionApprovalDecision as D;
    if let Some(offered) = &params.available_decisions {
        return offered.clone();
    }
    let prefix = params.proposed_execpolicy_amendment.clone().filter(|words| !words.is_empty());
    let prefix = prefix.map(|words| D::AcceptWithExecpolicyAmendment { execpolicy_amendment: words });
    let rules = params.proposed_network_policy_amendments.iter().flatten().cloned();
    let rules = rules.map(|rule| D::ApplyNetworkPolicyAmendment { network_policy_amendment: rule });
    [D::Accept, D::AcceptForSession, D::Decline, D::Cancel].into_iter().chain(prefix).chain(rules).collect()
}

/// Returns the decision of a button. A decision with a rule is the one that was offered, as it is.
fn command_decision(
    params: &CommandExecutionRequestApprovalParams,
    decision: &str,
) -> Result<CommandExecutionApprovalDecision, AnswerError> {
    use CommandExecutionApprovalDecision as D;
    match decision {
        "accept" => Ok(D::Accept),
        "acceptForSession" => Ok(D::AcceptForSession),
        "decline" => Ok(D::Decline),
        "cancel" => Ok(D::Cancel),
        number => {
            let number = number.strip_prefix("offered-").and_then(|number| number.parse::<usize>().ok());
            let found = number.and_then(|number| offered_decisions(params).into_iter().nth(number));
            found.ok_or_else(|| AnswerError::UnknownDecision(decision.to_owned()))
        }
    }
}

fn file_decision(decision: &str) -> Result<FileChangeApprovalDecision, AnswerError> {
    match decision {
        "accept" => Ok(FileChangeApprovalDecision::Accept),
        "acceptForSession" => Ok(FileChangeApprovalDecision::AcceptForSession),
        "decline" => Ok(FileChangeApprovalDecision::Decline),
        "cancel" => Ok(FileChangeApprovalDecision::Cancel),
        other => Err(AnswerError::UnknownDecision(other.to_owned())),
    }
}

fn permissions(
    params: &PermissionsRequestApprovalParams,
    decision: &str,
) -> Result<PermissionsRequestApprovalResponse, AnswerError> {
    let requested = params.permissions.clone();
    let all = GrantedPermissionProfile { network: requested.network, file_system: requested.file_system };
    let (permissions, scope) = match decision {
        "accept" => (all, PermissionGrantScope::Turn),
        "acceptForSession" => (all, PermissionGrantScope::Session),
        "decline" => (GrantedPermissionProfile::default(), PermissionGrantScope::Turn),
        other => return Err(AnswerError::UnknownDecision(other.to_owned())),
    };
    Ok(PermissionsRequestApprovalResponse { permissions, scope, strict_auto_review: None })
}

/// Answers each question with the chosen option, the typed text, or both. A question that is left out has no answers.
fn user_input(
    params: &ToolRequestUserInputParams,
    decision: &str,
    fields: &FormFields,
) -> ToolRequestUserInputResponse {
    let mut answers = BTreeMap::new();
    for question in params.questions.iter().filter(|_| decision != "decline") {
        let chosen = fields.all(&format!("option.{}", question.id)).map(str::to_owned).collect::<Vec<_>>();
        let typed = fields.get(&format!("text.{}", question.id)).map(str::to_owned);
        let given = chosen.into_iter().chain(typed).collect();
        answers.insert(question.id.clone(), ToolRequestUserInputAnswer { answers: given });
    }
    ToolRequestUserInputResponse { answers }
}

fn elicitation(
    params: &McpServerElicitationRequestParams,
    decision: &str,
    fields: &FormFields,
) -> Result<McpServerElicitationRequestResponse, AnswerError> {
    let (action, meta) = match decision {
        "accept" | "submit" => (McpServerElicitationAction::Accept, None),
        "acceptForSession" => (McpServerElicitationAction::Accept, Some(json!({ "persist": "session" }))),
        "acceptAlways" => (McpServerElicitationAction::Accept, Some(json!({ "persist": "always" }))),
        "decline" => (McpServerElicitationAction::Decline, None),
        "cancel" => (McpServerElicitationAction::Cancel, None),
        other => return Err(AnswerError::UnknownDecision(other.to_owned())),
    };
    let content = match (&params.request, action) {
        (McpServerElicitationRequest::Form { requested_schema, .. }, McpServerElicitationAction::Accept) => {
            Some(form_values(requested_schema, fields)?)
        }
        _ => None,
    };
    Ok(McpServerElicitationRequestResponse { action, content, meta })
}

fn form_values(schema: &McpElicitationSchema, fields: &FormFields) -> Result<Value, AnswerError> {
    let mut values = Map::new();
    for (name, property) in &schema.properties {
        let is_required = schema.required.iter().flatten().any(|required| required == name);
        match form_value(property, name, fields)? {
            Some(value) => drop(values.insert(name.clone(), value)),
            None if is_required => return Err(AnswerError::MissingValue(name.clone())),
            None => {}
        }
    }
    Ok(Value::Object(values))
}

fn form_value(
    property: &McpElicitationPrimitiveSchema,
    name: &str,
    fields: &FormFields,
) -> Result<Option<Value>, AnswerError> {
    use McpElicitationPrimitiveSchema as P;
    let field = format!("field.{name}");
    let text = fields.get(&field);
    Ok(match property {
        P::Boolean(_) => Some(Value::Bool(text.is_some())),
        P::Number(number) => {
            let not_number = || AnswerError::NotNumber(name.to_owned());
            let parse = |text: &str| -> Result<Value, AnswerError> {
                match number.kind {
                    McpElicitationNumberType::Integer => {
                        text.trim().parse::<i64>().map(Value::from).map_err(|_| not_number())
                    }
                    McpElicitationNumberType::Number => {
                        text.trim().parse::<f64>().map(Value::from).map_err(|_| not_number())
                    }
                }
            };
            text.map(parse).transpose()?
        }
        P::Enum(McpElicitationEnumSchema::MultiSelectEnum(
            McpElicitationMultiSelectEnumSchema::UntitledMultiSelectEnum(_)
            | McpElicitationMultiSelectEnumSchema::TitledMultiSelectEnum(_),
        )) => Some(fields.all(&field).collect::<Value>()),
        P::Enum(_) | P::String(_) => text.map(Value::from),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;

    fn request(method: &str, params: Value) -> ServerRequest {
        let request = ServerRequest::decode(method, Some(&to_raw_value(&params).unwrap()));
        assert!(!matches!(request, ServerRequest::Unknown(_)), "{request:?}");
        request
    }

    fn check(request: &ServerRequest, form: &str, expected: Result<Value, AnswerError>) {
        assert_eq!(answer_from(request, &FormFields::parse(form.as_bytes())), expected, "{form}");
    }

    #[test]
    fn decisions_about_commands() {
        let command = request(
            "item/commandExecution/requestApproval",
            json!({ "threadId": "t", "turnId": "u", "itemId": "i", "proposedExecpolicyAmendment": ["make"] }),
        );
        check(&command, "decision=accept", Ok(json!({ "decision": "accept" })));
        check(&command, "decision=cancel", Ok(json!({ "decision": "cancel" })));
        let prefix =
            json!({ "decision": { "acceptWithExecpolicyAmendment": { "execpolicy_amendment": ["make"] } } });
        check(&command, "decision=offered-4", Ok(prefix));
        for unknown in ["offered-5", "offered-x", "x"] {
            let form = format!("decision={unknown}");
            check(&command, &form, Err(AnswerError::UnknownDecision(unknown.to_owned())));
        }
    }

    #[test]
    fn the_offered_rule_is_sent_and_not_a_proposed_one() {
        let allow = |host: &str| json!({ "applyNetworkPolicyAmendment": { "network_policy_amendment": { "host": host, "action": "allow" } } });
        let prefix = json!({ "acceptWithExecpolicyAmendment": { "execpolicy_amendment": ["make", "test"] } });
        let command = request(
            "item/commandExecution/requestApproval",
            json!({ "threadId": "t", "turnId": "u", "itemId": "i", "proposedExecpolicyAmendment": ["make"],
                "proposedNetworkPolicyAmendments": [{ "host": "a.example", "action": "allow" }],
                "availableDecisions": ["accept", prefix, allow("b.example"), allow("c.example"), "decline"] }),
        );
        check(&command, "decision=offered-1", Ok(json!({ "decision": prefix })));
        check(&command, "decision=offered-2", Ok(json!({ "decision": allow("b.example") })));
        check(&command, "decision=offered-3", Ok(json!({ "decision": allow("c.example") })));
    }

    #[test]
    fn answers_to_questions_of_the_agent() {
        let option = json!({ "label": "Red", "description": "" });
        let asked = json!({ "id": "q", "header": "H", "question": "Which?", "options": [option] });
        let free = json!({ "id": "f", "header": "H", "question": "Why?", "options": null });
        let input = request(
            "item/tool/requestUserInput",
            json!({ "threadId": "t", "turnId": "u", "itemId": "i", "questions": [asked, free] }),
        );
        let answers = json!({ "answers": { "q": { "answers": ["Red"] }, "f": { "answers": ["So"] } } });
        check(&input, "option.q=Red&text.f=So", Ok(answers));
        let noted = json!({ "answers": { "q": { "answers": ["Blue"] }, "f": { "answers": [] } } });
        check(&input, "text.q=Blue", Ok(noted));
    }

    #[test]
    fn values_of_forms_have_the_types_of_the_schema() {
        let schema = json!({ "type": "object", "required": ["name"], "properties": {
            "name": { "type": "string" }, "count": { "type": "integer" }, "sure": { "type": "boolean" },
            "colours": { "type": "array", "items": { "type": "string", "enum": ["red", "blue"] } },
        } });
        let form = request(
            "mcpServer/elicitation/request",
            json!({ "threadId": "t", "turnId": null, "serverName": "s", "mode": "form", "_meta": null,
                "message": "m", "requestedSchema": schema }),
        );
        let content = json!({ "name": "x", "count": 3, "sure": true, "colours": ["red", "blue"] });
        let accepted = json!({ "action": "accept", "content": content });
        let fields = "field.name=x&field.count=3&field.sure=on&field.colours=red&field.colours=blue";
        check(&form, fields, Ok(accepted));
        check(&form, "field.count=3", Err(AnswerError::MissingValue("name".to_owned())));
        check(&form, "field.name=x&field.count=z", Err(AnswerError::NotNumber("count".to_owned())));
        let declined = json!({ "action": "decline" });
        check(&form, "decision=decline", Ok(declined));
    }
}
