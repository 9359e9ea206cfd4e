//! Approvals of calls of MCP tools.
//!
//! They reach the client as elicitations. Without the feature `tool_call_mcp_elicitation` they are questions of
//! `item/tool/requestUserInput`, for clients that know only those.

use codicil_config::Feature;
use codicil_mcp::{ApprovalMode, McpTool, ToolHints};
use codicil_policy::{QuestionTopic, why_not_ask};
use codicil_protocol::{
    AskForApproval, ConfigBatchWriteParams, ConfigEdit, ItemId, McpElicitationSchema, McpServerElicitation,
    McpServerElicitationAction, McpServerElicitationRequest, McpServerElicitationRequestParams,
    MergeStrategy, SandboxPolicy, ToolRequestUserInputOption, ToolRequestUserInputParams,
    ToolRequestUserInputQuestion, ToolUserInput,
};
use serde_json::{Value, json};

use crate::tools::{
    TurnTools,
    ask::{QuestionKind, QuestionReply},
    call::{ToolCall, TurnCancelled},
    guardian,
};

const REJECTED: &str = "user rejected MCP tool call";
const CANCELLED: &str = "user cancelled MCP tool call";

/// The options of an approval by `item/tool/requestUserInput`.
const APPROVE_ONCE: &str = "Approve Once";
const APPROVE_FOR_SESSION: &str = "Approve this Session";
const DENY: &str = "Deny";
const CANCEL: &str = "Cancel";

/// Whether a call may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallDecision {
    Run,
    Ask,
    /// The call needs an approval, and the policy forbids to ask for it.
    Refuse(&'static str),
}

/// The user's answer to an approval.
enum ApprovalAnswer {
    Approved(ApprovalScope),
    Rejected,
    Cancelled,
}

/// The calls that an approval covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ApprovalScope {
    Once,
    Thread,
    Always,
}

/// Asks for approval where it is needed. The inner error says why the tool may not run.
pub(super) async fn approve(
    turn: &TurnTools,
    call: &ToolCall,
    tool: &McpTool,
    arguments: &Value,
) -> Result<Result<(), String>, TurnCancelled> {
    let is_approved = turn.thread.approved_mcp_tools().contains(&approval_key(tool));
    match decide(&turn.settings.approval_policy, &turn.settings.sandbox, tool, is_approved) {
        CallDecision::Run => return Ok(Ok(())),
        CallDecision::Refuse(why) => return Ok(Err(refusal(tool, why))),
        CallDecision::Ask => {}
    }
    if guardian::is_enabled(turn) {
        let action = json!({ "tool": "mcp_tool_call", "server": tool.server, "tool_name": tool.tool.name,
            "arguments": arguments });
        return guardian::review(turn, &call.item_id(), action).await;
    }
    let answer = if turn.config.features.enabled(Feature::ToolCallMcpElicitation) {
        ask_by_form(turn, tool, arguments).await?
    } else {
        ask_by_options(turn, call, tool).await?
    };
    Ok(match answer {
        ApprovalAnswer::Approved(scope) => {
            remember_approval(turn, tool, scope).await;
            Ok(())
        }
        ApprovalAnswer::Rejected => Err(REJECTED.to_owned()),
        ApprovalAnswer::Cancelled => Err(CANCELLED.to_owned()),
    })
}

/// Decides about a call by the policies, the tool and what the user has approved before.
fn decide(
    policy: &AskForApproval,
    sandbox: &SandboxPolicy,
    tool: &McpTool,
    is_approved: bool,
) -> CallDecision {
    let may_run = match tool.approval_mode {
        ApprovalMode::Approve => true,
        ApprovalMode::Prompt => false,
        ApprovalMode::Auto => !could_harm(&tool.hints) || is_approved || has_full_access(policy, sandbox),
    };
    if may_run {
        return CallDecision::Run;
    }
    why_not_ask(policy, QuestionTopic::McpElicitations).map_or(CallDecision::Ask, CallDecision::Refuse)
}

/// Returns whether the policies allow everything without a question.
pub(super) fn has_full_access(policy: &AskForApproval, sandbox: &SandboxPolicy) -> bool {
    *policy == AskForApproval::Never
        && matches!(sandbox, SandboxPolicy::DangerFullAccess | SandboxPolicy::ExternalSandbox { .. })
}

/// Returns what the model and the client get instead of a result.
fn refusal(tool: &McpTool, why: &str) -> String {
    format!(
        "the MCP tool was not run: it needs approval, and {why}. The user can allow it with \
         `{} = \"approve\"`",
        tool.approval_key()
    )
}

/// Asks for approval by an elicitation.
async fn ask_by_form(
    turn: &TurnTools,
    tool: &McpTool,
    arguments: &Value,
) -> Result<ApprovalAnswer, TurnCancelled> {
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
            McpServerElicitationAction::Accept => ApprovalAnswer::Approved(persisted(answer.meta.as_ref())),
            McpServerElicitationAction::Decline => ApprovalAnswer::Rejected,
            McpServerElicitationAction::Cancel => ApprovalAnswer::Cancelled,
        },
        QuestionReply::Unreadable | QuestionReply::Error => ApprovalAnswer::Rejected,
    })
}

/// Asks for approval by `item/tool/requestUserInput`.
async fn ask_by_options(
    turn: &TurnTools,
    call: &ToolCall,
    tool: &McpTool,
) -> Result<ApprovalAnswer, TurnCancelled> {
    let question = approval_question(&call.item_id(), tool);
    let id = question.id.clone();
    let params = ToolRequestUserInputParams {
        thread_id: turn.thread_id(),
        turn_id: turn.turn_id.clone(),
        item_id: call.item_id(),
        questions: vec![question],
        is_blocking: true,
        auto_resolution_ms: None,
    };
    Ok(match turn.ask::<ToolUserInput>(params, QuestionKind::UserInput).await? {
        QuestionReply::Answer(mut response) => {
            let given = response.answers.remove(&id).map(|answer| answer.answers).unwrap_or_default();
            chosen(&given)
        }
        QuestionReply::Unreadable | QuestionReply::Error => ApprovalAnswer::Rejected,
    })
}

fn approval_question(item: &ItemId, tool: &McpTool) -> ToolRequestUserInputQuestion {
    let option = |label: &str, description: &str| ToolRequestUserInputOption {
        label: label.to_owned(),
        description: description.to_owned(),
    };
    ToolRequestUserInputQuestion {
        id: format!("mcp_tool_call_approval_{item}"),
        header: "Approve app tool call?".to_owned(),
        question: tool.approval_question(),
        is_other: false,
        is_secret: false,
        options: Some(vec![
            option(APPROVE_ONCE, "Runs the tool."),
            option(APPROVE_FOR_SESSION, "Runs the tool, now and whenever this thread calls it again."),
            option(DENY, "Does not run the tool; the agent continues without it."),
            option(CANCEL, "Cancels this call of the tool."),
        ]),
    }
}

/// Reads the chosen option. Clients of later versions know the first two by other labels.
fn chosen(answers: &[String]) -> ApprovalAnswer {
    match answers.first().map(String::as_str) {
        Some(APPROVE_ONCE | "Allow") => ApprovalAnswer::Approved(ApprovalScope::Once),
        Some(APPROVE_FOR_SESSION | "Allow for this session") => {
            ApprovalAnswer::Approved(ApprovalScope::Thread)
        }
        Some(DENY) => ApprovalAnswer::Rejected,
        _ => ApprovalAnswer::Cancelled,
    }
}

fn approval_key(tool: &McpTool) -> (String, String) {
    (tool.server.clone(), tool.tool.name.clone())
}

/// Returns the scope that the metadata of an accepted elicitation names.
fn persisted(meta: Option<&Value>) -> ApprovalScope {
    match meta.and_then(|meta| meta.get("persist")).and_then(Value::as_str) {
        Some("session") => ApprovalScope::Thread,
        Some("always") => ApprovalScope::Always,
        _ => ApprovalScope::Once,
    }
}

/// Keeps an approval for the thread, or for ever, if the answer says so.
async fn remember_approval(turn: &TurnTools, tool: &McpTool, scope: ApprovalScope) {
    if scope != ApprovalScope::Once {
        turn.thread.approved_mcp_tools().insert(approval_key(tool));
    }
    if scope == ApprovalScope::Always {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(annotations: Value, approval_mode: ApprovalMode) -> McpTool {
        let hint = |name: &str| annotations.get(name).and_then(Value::as_bool);
        McpTool {
            qualified_name: "mcp__s__t".to_owned(),
            server: "s".to_owned(),
            tool: serde_json::from_value(json!({ "name": "t", "inputSchema": {} })).unwrap(),
            parameters: json!({}),
            hints: ToolHints { read_only: hint("readOnlyHint"), ..ToolHints::default() },
            approval_mode,
            app: None,
        }
    }

    #[test]
    fn the_policy_decides_where_it_forbids_questions() {
        let writes = |mode| tool(json!({}), mode);
        let reads = |mode| tool(json!({ "readOnlyHint": true }), mode);
        let granular = |mcp_elicitations| AskForApproval::Granular {
            sandbox_approval: true,
            rules: true,
            skill_approval: true,
            request_permissions: true,
            mcp_elicitations,
        };
        let confined = SandboxPolicy::ReadOnly { access: Default::default(), network_access: false };
        let check = |policy: &AskForApproval, sandbox: &SandboxPolicy, tool: McpTool, expected: &str| {
            let decision = decide(policy, sandbox, &tool, false);
            let shown = match decision {
                CallDecision::Run => "run",
                CallDecision::Ask => "ask",
                CallDecision::Refuse(_) => "refuse",
            };
            assert_eq!(shown, expected, "{policy:?} {sandbox:?} {tool:?}");
        };
        use ApprovalMode::{Approve, Auto, Prompt};
        let never = AskForApproval::Never;
        let full = SandboxPolicy::DangerFullAccess;
        check(&AskForApproval::OnRequest, &confined, writes(Auto), "ask");
        check(&AskForApproval::OnRequest, &full, writes(Auto), "ask");
        check(&AskForApproval::OnRequest, &confined, reads(Auto), "run");
        check(&AskForApproval::OnRequest, &confined, reads(Prompt), "ask");
        check(&never, &confined, writes(Auto), "refuse");
        check(&never, &confined, writes(Approve), "run");
        check(&never, &confined, reads(Auto), "run");
        check(&never, &full, writes(Auto), "run");
        check(&never, &full, writes(Prompt), "refuse");
        check(&granular(false), &confined, writes(Auto), "refuse");
        check(&granular(true), &confined, writes(Auto), "ask");
        assert_eq!(decide(&never, &confined, &writes(Auto), true), CallDecision::Run);
    }

    #[test]
    fn only_the_labels_of_the_options_approve() {
        let check = |answer: &[&str], expected: Option<ApprovalScope>| {
            let answers: Vec<String> = answer.iter().map(|answer| answer.to_string()).collect();
            let scope = match chosen(&answers) {
                ApprovalAnswer::Approved(scope) => Some(scope),
                ApprovalAnswer::Rejected | ApprovalAnswer::Cancelled => None,
            };
            assert_eq!(scope, expected, "{answer:?}");
        };
        check(&["Approve Once"], Some(ApprovalScope::Once));
        check(&["Approve this Session"], Some(ApprovalScope::Thread));
        check(&["Allow"], Some(ApprovalScope::Once));
        check(&["Deny"], None);
        check(&["Cancel"], None);
        check(&["This is a non-interactive session. Operator input is unavailable."], None);
        check(&[], None);
    }

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
