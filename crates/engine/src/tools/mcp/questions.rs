//! Questions about MCP tools: approvals before a call, and elicitations of servers while a tool runs.
//!
//! Both reach the client as elicitations, which is what clients of the protocol expect for MCP.

use std::{pin::Pin, sync::Arc};

use codicil_mcp::{ApprovalMode, Elicitor, McpTool, ToolHints};
use codicil_policy::{QuestionTopic, why_not_ask};
use codicil_protocol::{
    AskForApproval, ConfigBatchWriteParams, ConfigEdit, McpElicitationSchema, McpServerElicitation,
    McpServerElicitationAction, McpServerElicitationRequest, McpServerElicitationRequestParams,
    McpServerElicitationRequestResponse, MergeStrategy, SandboxPolicy, ThreadId, TurnId,
};
use serde_json::{Value, json};

use crate::tools::{
    TurnTools,
    ask::{QuestionKind, QuestionReply, QuestionSender},
    call::{ToolCall, TurnCancelled},
    guardian,
};

const REJECTED: &str = "user rejected MCP tool call";
const CANCELLED: &str = "user cancelled MCP tool call";

/// Asks for approval where it is needed. The inner error says why the tool may not run.
pub(super) async fn approve(
    turn: &TurnTools,
    call: &ToolCall,
    tool: &McpTool,
    arguments: &Value,
) -> Result<Result<(), String>, TurnCancelled> {
    if !needs_approval(turn, tool) {
        return Ok(Ok(()));
    }
    if guardian::is_enabled(turn) {
        let action = json!({ "tool": "mcp_tool_call", "server": tool.server, "tool_name": tool.tool.name,
            "arguments": arguments });
        return guardian::review(turn, &call.item_id(), action).await;
    }
    let params = McpServerElicitationRequestParams {
        thread_id: turn.thread_id(),
        turn_id: Some(turn.turn_id.clone()),
        server_name: tool.server.clone(),
        request: McpServerElicitationRequest::Form {
            meta: Some(approval_meta(tool, arguments)),
            message: tool.approval_question(),
            requested_schema: empty_form(),
        },
    };
    Ok(match turn.ask::<McpServerElicitation>(params, QuestionKind::Approval).await? {
        QuestionReply::Answer(answer) => match answer.action {
            McpServerElicitationAction::Accept => {
                remember_approval(turn, tool, answer.meta.as_ref()).await;
                Ok(())
            }
            McpServerElicitationAction::Decline => Err(REJECTED.to_owned()),
            McpServerElicitationAction::Cancel => Err(CANCELLED.to_owned()),
        },
        QuestionReply::Nonsense | QuestionReply::Error => Err(REJECTED.to_owned()),
    })
}

fn needs_approval(turn: &TurnTools, tool: &McpTool) -> bool {
    let has_full_access = turn.settings.approval_policy == AskForApproval::Never
        && matches!(
            turn.settings.sandbox,
            SandboxPolicy::DangerFullAccess | SandboxPolicy::ExternalSandbox { .. }
        );
    match tool.approval_mode {
        ApprovalMode::Approve => false,
        ApprovalMode::Prompt => true,
        ApprovalMode::Auto => {
            could_harm(&tool.hints)
                && !has_full_access
                && !turn.thread.approved_mcp_tools().contains(&approval_key(tool))
        }
    }
}

fn approval_key(tool: &McpTool) -> (String, String) {
    (tool.server.clone(), tool.tool.name.clone())
}

/// Keeps an approval for the thread, or for ever, if the answer says so.
async fn remember_approval(turn: &TurnTools, tool: &McpTool, meta: Option<&Value>) {
    let persist = meta.and_then(|meta| meta.get("persist")).and_then(Value::as_str);
    if matches!(persist, Some("session" | "always")) {
        turn.thread.approved_mcp_tools().insert(approval_key(tool));
    }
    if persist == Some("always") {
        write_approval(turn, tool).await;
    }
}

/// Writes an approval to the configuration. If that fails, the user is asked again in the next thread.
async fn write_approval(turn: &TurnTools, tool: &McpTool) {
    let params = ConfigBatchWriteParams {
        edits: vec![ConfigEdit {
            key_path: tool.approval_key(),
            value: json!("approve"),
            merge_strategy: MergeStrategy::Replace,
        }],
        file_path: None,
        expected_version: None,
        reload_user_config: None,
    };
    let config = turn.thread.engine.config.clone();
    match tokio::task::spawn_blocking(move || config.batch_write(&params)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::error!("failed to store the approval of an MCP tool: {error}"),
        Err(error) => tracing::error!("failed to store the approval of an MCP tool: {error}"),
    }
}

/// Whether a tool could do harm, by the hints of its server. Missing hints count as harmful.
fn could_harm(hints: &ToolHints) -> bool {
    match (hints.destructive, hints.read_only) {
        (Some(true), _) => true,
        (_, Some(true)) => false,
        _ => hints.destructive.unwrap_or(true) || hints.open_world.unwrap_or(true),
    }
}

fn approval_meta(tool: &McpTool, arguments: &Value) -> Value {
    let shown = arguments.as_object().into_iter().flatten();
    let display: Vec<_> =
        shown.map(|(name, value)| json!({ "name": name, "value": value, "display_name": name })).collect();
    let mut meta = json!({
        "codex_approval_kind": "mcp_tool_call",
        "persist": ["session", "always"],
        "tool_description": tool.tool.description,
        "tool_params": arguments,
        "tool_params_display": display,
    });
    if let (Some(app), Some(members)) = (&tool.app, meta.as_object_mut()) {
        members.insert("source".to_owned(), json!("connector"));
        members.insert("connector_id".to_owned(), json!(app.id));
        members.insert("connector_name".to_owned(), json!(app.name));
        members.insert("connector_description".to_owned(), json!(app.description));
    }
    meta
}

fn empty_form() -> McpElicitationSchema {
    serde_json::from_value(json!({ "type": "object", "properties": {} })).expect("a form without fields")
}

/// Returns the elicitor that all MCP calls of the turn share.
pub(super) fn elicitor(turn: &TurnTools) -> Arc<dyn Elicitor> {
    let make = || -> Arc<dyn Elicitor> {
        Arc::new(ServerElicitor {
            thread_id: turn.thread_id(),
            turn_id: turn.turn_id.clone(),
            asker: turn.asker(),
            can_ask: why_not_ask(&turn.settings.approval_policy, QuestionTopic::McpElicitations).is_none(),
        })
    };
    turn.elicitor.get_or_init(make).clone()
}

/// Forwards the questions of MCP servers to the thread's subscribers.
struct ServerElicitor {
    thread_id: ThreadId,
    turn_id: TurnId,
    asker: QuestionSender,
    /// Whether the approval policy allows questions.
    can_ask: bool,
}

impl Elicitor for ServerElicitor {
    fn elicit<'a>(
        &'a self,
        server: &'a str,
        request: McpServerElicitationRequest,
    ) -> Pin<Box<dyn Future<Output = McpServerElicitationRequestResponse> + Send + 'a>> {
        Box::pin(async move {
            if !self.can_ask {
                return without_content(McpServerElicitationAction::Decline);
            }
            let params = McpServerElicitationRequestParams {
                thread_id: self.thread_id.clone(),
                turn_id: Some(self.turn_id.clone()),
                server_name: server.to_owned(),
                request,
            };
            match self.asker.ask::<McpServerElicitation>(params, QuestionKind::Approval).await {
                Ok(QuestionReply::Answer(answer)) => answer,
                Ok(QuestionReply::Nonsense | QuestionReply::Error) => {
                    without_content(McpServerElicitationAction::Decline)
                }
                Err(_) => without_content(McpServerElicitationAction::Cancel),
            }
        })
    }
}

fn without_content(action: McpServerElicitationAction) -> McpServerElicitationRequestResponse {
    McpServerElicitationRequestResponse { action, content: None, meta: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_decide_whether_approval_is_needed() {
        let check = |destructive, read_only, open_world, expected| {
            let hints = ToolHints { destructive, read_only, open_world, ..ToolHints::default() };
            assert_eq!(could_harm(&hints), expected, "{hints:?}");
        };
        check(None, None, None, true);
        check(None, Some(true), None, false);
        check(Some(true), Some(true), None, true);
        check(Some(false), None, None, true);
        check(Some(false), None, Some(false), false);
        check(Some(false), Some(false), Some(true), true);
    }
}
