//! Requests for approval, and the decisions about them.
//!
//! One decision type serves every kind of request. [`ApprovalRequest::check`] reports a decision that does not fit.

use codicil_protocol::{
    CommandExecutionApprovalDecision, CommandExecutionRequestApprovalParams, FileChangeApprovalDecision,
    FileChangeRequestApprovalParams, FileUpdateChange, GrantedPermissionProfile, McpElicitationSchema,
    McpServerElicitationAction, McpServerElicitationRequest, McpServerElicitationRequestParams,
    McpServerElicitationRequestResponse, NetworkPolicyAmendment, PermissionGrantScope,
    PermissionsRequestApprovalParams, PermissionsRequestApprovalResponse, ThreadId,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::handler::NoAnswer;

/// A request for approval. In JSON, `type` is the variant in snake case; `kind` is a member of commands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ApprovalRequest {
    /// A command to run, or a host to reach.
    Command(CommandExecutionRequestApprovalParams),
    /// Edits to apply.
    FileChange(FileChangeApproval),
    /// Additional permissions for later commands.
    Permissions(PermissionsRequestApprovalParams),
    /// A request of an MCP server: a form, a web page, or the approval of a tool call.
    Elicitation(McpServerElicitationRequestParams),
}

/// A request to apply edits, with the edits of its item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileChangeApproval {
    /// The request as the server sent it.
    #[serde(flatten)]
    pub params: FileChangeRequestApprovalParams,
    /// The paths, kinds and diffs of the edits. Empty if this client has not received the start of the item, which
    /// happens when it connects while the request is already open.
    pub changes: Vec<FileUpdateChange>,
}

/// The decision about an [`ApprovalRequest`]. In JSON, the first four and the last two variants have the form of the
/// protocol's decisions about commands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ApprovalDecision {
    /// Approves this request. A form is submitted with the defaults of its fields.
    Accept,
    /// Approves this and similar requests for the rest of the thread.
    AcceptForSession,
    /// Approves a command, and all later commands that begin with these words.
    AcceptWithExecpolicyAmendment {
        /// The words, usually those of `proposedExecpolicyAmendment`.
        execpolicy_amendment: Vec<String>,
    },
    /// Stores a rule that allows or denies a host, and applies it to this command.
    ApplyNetworkPolicyAmendment {
        /// The rule, usually one of `proposedNetworkPolicyAmendments`.
        network_policy_amendment: NetworkPolicyAmendment,
    },
    /// Grants these permissions, which may be a part of the requested ones, for the turn or the session.
    Grant(PermissionsRequestApprovalResponse),
    /// Submits a form with these values: an object with a member per field.
    Submit(Value),
    /// Declines. The agent continues without it.
    Decline,
    /// Declines and ends the turn.
    Cancel,
}

/// The reason why a decision does not answer a request.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DecisionError {
    /// The decision is meant for another kind of request.
    #[error("the decision `{decision}` does not answer a request about {subject}")]
    OtherSubject {
        /// The name of the decision in JSON.
        decision: &'static str,
        /// What the request is about.
        subject: &'static str,
    },
    /// Required fields of a form have neither a value nor a default.
    #[error("the form requires values for {}; answer with `submit`", .0.join(", "))]
    MissingFields(Vec<String>),
    /// The submitted values are not an object.
    #[error("the values of a form must be an object with a member for each field")]
    InvalidForm,
    /// The amendment would approve every command.
    #[error("the amendment has no words, so it would approve every command")]
    EmptyAmendment,
}

/// Responds with an error, which servers treat as a decline.
impl From<DecisionError> for NoAnswer {
    fn from(error: DecisionError) -> Self {
        Self::error(error.to_string())
    }
}

impl ApprovalRequest {
    /// Returns the thread that the request belongs to.
    pub fn thread_id(&self) -> &ThreadId {
        match self {
            Self::Command(params) => &params.thread_id,
            Self::FileChange(approval) => &approval.params.thread_id,
            Self::Permissions(params) => &params.thread_id,
            Self::Elicitation(params) => &params.thread_id,
        }
    }

    /// Checks that a decision answers this request.
    pub fn check(&self, decision: &ApprovalDecision) -> Result<(), DecisionError> {
        let decision = decision.clone();
        match self {
            Self::Command(_) => decision.about_command().map(drop),
            Self::FileChange(_) => decision.about_file_change().map(drop),
            Self::Permissions(params) => decision.about_permissions(params).map(drop),
            Self::Elicitation(params) => decision.about_elicitation(params).map(drop),
        }
    }
}

/// Conversions to the protocol's answers.
impl ApprovalDecision {
    pub(crate) fn about_command(self) -> Result<CommandExecutionApprovalDecision, DecisionError> {
        use CommandExecutionApprovalDecision as D;
        Ok(match self {
            Self::Accept => D::Accept,
            Self::AcceptForSession => D::AcceptForSession,
            Self::AcceptWithExecpolicyAmendment { execpolicy_amendment }
                if execpolicy_amendment.is_empty() =>
            {
                return Err(DecisionError::EmptyAmendment);
            }
            Self::AcceptWithExecpolicyAmendment { execpolicy_amendment } => {
                D::AcceptWithExecpolicyAmendment { execpolicy_amendment }
            }
            Self::ApplyNetworkPolicyAmendment { network_policy_amendment } => {
                D::ApplyNetworkPolicyAmendment { network_policy_amendment }
            }
            Self::Decline => D::Decline,
            Self::Cancel => D::Cancel,
            other => return Err(other.is_not_about("a command")),
        })
    }

    pub(crate) fn about_file_change(self) -> Result<FileChangeApprovalDecision, DecisionError> {
        Ok(match self {
            Self::Accept => FileChangeApprovalDecision::Accept,
            Self::AcceptForSession => FileChangeApprovalDecision::AcceptForSession,
            Self::Decline => FileChangeApprovalDecision::Decline,
            Self::Cancel => FileChangeApprovalDecision::Cancel,
            other => return Err(other.is_not_about("edits")),
        })
    }

    /// Returns `None` if the turn ends.
    pub(crate) fn about_permissions(
        self,
        params: &PermissionsRequestApprovalParams,
    ) -> Result<Option<PermissionsRequestApprovalResponse>, DecisionError> {
        Ok(Some(match self {
            Self::Accept => grant_all(params, PermissionGrantScope::Turn),
            Self::AcceptForSession => grant_all(params, PermissionGrantScope::Session),
            Self::Grant(grant) => grant,
            Self::Decline => PermissionsRequestApprovalResponse {
                permissions: GrantedPermissionProfile::default(),
                scope: PermissionGrantScope::Turn,
                strict_auto_review: None,
            },
            Self::Cancel => return Ok(None),
            other => return Err(other.is_not_about("permissions")),
        }))
    }

    /// Returns `None` if the turn ends.
    pub(crate) fn about_elicitation(
        self,
        params: &McpServerElicitationRequestParams,
    ) -> Result<Option<McpServerElicitationRequestResponse>, DecisionError> {
        let content = match (&self, &params.request) {
            (
                Self::Accept | Self::AcceptForSession,
                McpServerElicitationRequest::Form { requested_schema, .. },
            ) => Some(complete_form(requested_schema, default_values(requested_schema))?),
            (Self::Submit(values), McpServerElicitationRequest::Form { requested_schema, .. }) => {
                let values = values.as_object().ok_or(DecisionError::InvalidForm)?;
                Some(complete_form(requested_schema, values.clone())?)
            }
            // The person opens the page before accepting.
            (Self::Accept | Self::AcceptForSession, McpServerElicitationRequest::Url { .. }) => None,
            (Self::Cancel, _) => return Ok(None),
            (Self::Decline, _) => {
                let action = McpServerElicitationAction::Decline;
                return Ok(Some(McpServerElicitationRequestResponse { action, content: None, meta: None }));
            }
            (_, McpServerElicitationRequest::Form { .. }) => return Err(self.is_not_about("a form")),
            (_, McpServerElicitationRequest::Url { .. }) => return Err(self.is_not_about("a web page")),
        };
        let meta = (self == Self::AcceptForSession).then(|| json!({ "persist": "session" }));
        let action = McpServerElicitationAction::Accept;
        Ok(Some(McpServerElicitationRequestResponse { action, content, meta }))
    }

    fn is_not_about(&self, subject: &'static str) -> DecisionError {
        let decision = match self {
            Self::Accept => "accept",
            Self::AcceptForSession => "acceptForSession",
            Self::AcceptWithExecpolicyAmendment { .. } => "acceptWithExecpolicyAmendment",
            Self::ApplyNetworkPolicyAmendment { .. } => "applyNetworkPolicyAmendment",
            Self::Grant(_) => "grant",
            Self::Submit(_) => "submit",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        };
        DecisionError::OtherSubject { decision, subject }
    }
}

fn grant_all(
    params: &PermissionsRequestApprovalParams,
    scope: PermissionGrantScope,
) -> PermissionsRequestApprovalResponse {
    let requested = params.permissions.clone();
    let permissions =
        GrantedPermissionProfile { network: requested.network, file_system: requested.file_system };
    PermissionsRequestApprovalResponse { permissions, scope, strict_auto_review: None }
}

fn default_values(form: &McpElicitationSchema) -> Map<String, Value> {
    let default = |field: &_| serde_json::to_value(field).ok()?.get("default").cloned();
    form.properties.iter().filter_map(|(name, field)| Some((name.clone(), default(field)?))).collect()
}

/// Returns the values as the content of a form, or the required fields that have none.
fn complete_form(form: &McpElicitationSchema, values: Map<String, Value>) -> Result<Value, DecisionError> {
    let required = form.required.iter().flatten();
    let missing: Vec<_> =
        required.filter(|name| values.get(*name).is_none_or(Value::is_null)).cloned().collect();
    if missing.is_empty() { Ok(Value::Object(values)) } else { Err(DecisionError::MissingFields(missing)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(properties: Value, required: Value) -> ApprovalRequest {
        let schema = json!({ "type": "object", "properties": properties, "required": required });
        let params = json!({
            "threadId": "t", "serverName": "s", "mode": "form", "message": "?", "requestedSchema": schema,
        });
        ApprovalRequest::Elicitation(serde_json::from_value(params).unwrap())
    }

    fn subjects() -> [(&'static str, ApprovalRequest); 5] {
        let ids = |more: Value| {
            let mut params = json!({ "threadId": "t", "turnId": "u", "itemId": "i" });
            params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            params
        };
        let command = serde_json::from_value(ids(json!({ "command": "ls" }))).unwrap();
        let params = serde_json::from_value(ids(json!({}))).unwrap();
        let permissions = serde_json::from_value(ids(json!({ "permissions": {} }))).unwrap();
        let page = json!({
            "threadId": "t", "serverName": "s", "mode": "url", "message": "?", "url": "https://a", "elicitationId": "e",
        });
        [
            ("command", ApprovalRequest::Command(command)),
            ("edits", ApprovalRequest::FileChange(FileChangeApproval { params, changes: Vec::new() })),
            ("permissions", ApprovalRequest::Permissions(permissions)),
            ("form", form(json!({}), json!([]))),
            ("page", ApprovalRequest::Elicitation(serde_json::from_value(page).unwrap())),
        ]
    }

    #[test]
    fn each_decision_answers_its_subjects() {
        let check = |decision: Value, expected: &[&str]| {
            let parsed: ApprovalDecision = serde_json::from_value(decision.clone()).unwrap();
            let subjects = subjects();
            let fits = subjects.iter().filter(|(_, request)| request.check(&parsed).is_ok());
            assert_eq!(fits.map(|(name, _)| *name).collect::<Vec<_>>(), expected, "{decision}");
        };
        let all = ["command", "edits", "permissions", "form", "page"];
        for decision in ["accept", "acceptForSession", "decline", "cancel"] {
            check(json!(decision), &all);
        }
        let amendment =
            |words: Value| json!({ "acceptWithExecpolicyAmendment": { "execpolicy_amendment": words } });
        check(amendment(json!(["git", "status"])), &["command"]);
        check(amendment(json!([])), &[]);
        let rule = json!({ "network_policy_amendment": { "host": "a.com", "action": "allow" } });
        check(json!({ "applyNetworkPolicyAmendment": rule }), &["command"]);
        check(json!({ "grant": { "permissions": {}, "scope": "session" } }), &["permissions"]);
        check(json!({ "submit": {} }), &["form"]);
    }

    #[test]
    fn a_form_needs_its_required_fields() {
        let text = json!({ "type": "string" });
        let request = form(
            json!({ "name": text, "size": { "type": "number", "default": 2.0 }, "note": text }),
            json!(["name", "size"]),
        );
        let ApprovalRequest::Elicitation(params) = &request else { panic!() };
        let missing = DecisionError::MissingFields(vec!["name".to_owned()]);
        assert_eq!(request.check(&ApprovalDecision::Accept), Err(missing.clone()));
        assert_eq!(missing.to_string(), "the form requires values for name; answer with `submit`");
        assert_eq!(request.check(&ApprovalDecision::Submit(json!([]))), Err(DecisionError::InvalidForm));
        let submitted = ApprovalDecision::Submit(json!({ "name": "Ada", "size": 3 }));
        let answer = submitted.about_elicitation(params).unwrap().unwrap();
        assert_eq!(answer.content, Some(json!({ "name": "Ada", "size": 3 })));

        let optional = form(json!({ "size": { "type": "number", "default": 2.0 } }), json!(["size"]));
        let ApprovalRequest::Elicitation(params) = &optional else { panic!() };
        let answer = ApprovalDecision::Accept.about_elicitation(params).unwrap().unwrap();
        assert_eq!(answer.content, Some(json!({ "size": 2.0 })), "defaults are values");
    }
}
