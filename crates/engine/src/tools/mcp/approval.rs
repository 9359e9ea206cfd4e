//! May an MCP tool run? Asked as an elicitation, which is how clients of the protocol expect it.

use codicil_mcp::{ApprovalMode, McpTool, ToolHints};
use codicil_protocol::{
    AskForApproval, ConfigBatchWriteParams, ConfigEdit, McpElicitationSchema, McpServerElicitation,
    McpServerElicitationAction, McpServerElicitationRequest, McpServerElicitationRequestParams,
    MergeStrategy, SandboxPolicy,
};
use serde_json::{Value, json};

use super::{ToolCall, TurnCancelled, TurnTools};
use crate::tools::ask::{QuestionKind, QuestionReply};

const REJECTED: &str = "user rejected MCP tool call";
const CANCELLED: &str = "user cancelled MCP tool call";

impl TurnTools {
    /// Asks if that is needed. The inner error is why not.
    pub(super) async fn approve_mcp(
        &self,
        call: &ToolCall,
        tool: &McpTool,
        arguments: &Value,
    ) -> Result<Result<(), String>, TurnCancelled> {
        if !self.needs_approval(tool) {
            return Ok(Ok(()));
        }
        if self.is_guarded() {
            let action = json!({ "tool": "mcp_tool_call", "server": tool.server, "tool_name": tool.tool.name,
                "arguments": arguments });
            return self.consult_guardian(&call.item_id(), action).await;
        }
        let params = McpServerElicitationRequestParams {
            thread_id: self.kit.thread.clone(),
            turn_id: Some(self.turn.clone()),
            server_name: tool.server.clone(),
            request: McpServerElicitationRequest::Form {
                meta: Some(meta(tool, arguments)),
                message: format!("Allow the {} MCP server to run tool \"{}\"?", tool.server, tool.tool.name),
                requested_schema: empty_form(),
            },
        };
        Ok(match self.ask::<McpServerElicitation>(params, QuestionKind::Approval).await? {
            QuestionReply::Answer(answer) => match answer.action {
                McpServerElicitationAction::Accept => {
                    self.remember_mcp(tool, answer.meta.as_ref()).await;
                    Ok(())
                }
                McpServerElicitationAction::Decline => Err(REJECTED.to_owned()),
                McpServerElicitationAction::Cancel => Err(CANCELLED.to_owned()),
            },
            QuestionReply::Nonsense | QuestionReply::Error => Err(REJECTED.to_owned()),
        })
    }

    fn needs_approval(&self, tool: &McpTool) -> bool {
        let is_free = self.settings.approval_policy == AskForApproval::Never
            && matches!(
                self.settings.sandbox,
                SandboxPolicy::DangerFullAccess | SandboxPolicy::ExternalSandbox { .. }
            );
        let key = (tool.server.clone(), tool.tool.name.clone());
        match tool.approval_mode {
            ApprovalMode::Approve => false,
            ApprovalMode::Prompt => true,
            ApprovalMode::Auto => {
                could_harm(&tool.hints) && !is_free && !self.kit.approved_mcp_tools().contains(&key)
            }
        }
    }

    /// An answer may hold for more than this call.
    async fn remember_mcp(&self, tool: &McpTool, meta: Option<&Value>) {
        let persist = meta.and_then(|meta| meta.get("persist")).and_then(Value::as_str);
        if matches!(persist, Some("session" | "always")) {
            let key = (tool.server.clone(), tool.tool.name.clone());
            self.kit.approved_mcp_tools().insert(key);
        }
        if persist == Some("always") {
            self.write_approval(tool).await;
        }
    }

    /// The tool ran with leave either way; a rule that cannot be kept is asked about again another time.
    async fn write_approval(&self, tool: &McpTool) {
        let quoted = |part: &str| format!("{part:?}");
        let key_path =
            format!("mcp_servers.{}.tools.{}.approval_mode", quoted(&tool.server), quoted(&tool.tool.name));
        let params = ConfigBatchWriteParams {
            edits: vec![ConfigEdit {
                key_path,
                value: json!("approve"),
                merge_strategy: MergeStrategy::Replace,
            }],
            file_path: None,
            expected_version: None,
            reload_user_config: None,
        };
        let config = self.kit.engine.config.clone();
        match tokio::task::spawn_blocking(move || config.batch_write(&params)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::error!("an approval could not be kept: {error}"),
            Err(error) => tracing::error!("an approval could not be kept: {error}"),
        }
    }
}

/// What the server says of its tool; what it leaves out counts as the worse.
fn could_harm(hints: &ToolHints) -> bool {
    match (hints.destructive, hints.read_only) {
        (Some(true), _) => true,
        (_, Some(true)) => false,
        _ => hints.destructive.unwrap_or(true) || hints.open_world.unwrap_or(true),
    }
}

fn meta(tool: &McpTool, arguments: &Value) -> Value {
    let shown = arguments.as_object().into_iter().flatten();
    let display: Vec<_> =
        shown.map(|(name, value)| json!({ "name": name, "value": value, "display_name": name })).collect();
    json!({
        "codex_approval_kind": "mcp_tool_call",
        "persist": ["session", "always"],
        "tool_description": tool.tool.description,
        "tool_params": arguments,
        "tool_params_display": display,
    })
}

fn empty_form() -> McpElicitationSchema {
    serde_json::from_value(json!({ "type": "object", "properties": {} })).expect("a form without fields")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_of_its_tool_decides() {
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
