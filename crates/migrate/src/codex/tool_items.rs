//! Converts tool calls into items: from events (`…_event`), or from a call and its output in the history.

use codicil_patch::{Patch, PatchLine, PatchOperation, PatchSection};
use codicil_policy::{CommandLine, command_actions};
use codicil_protocol::{
    CommandExecutionSource, CommandExecutionStatus, DynamicToolCallOutputContentItem, DynamicToolCallStatus,
    FileUpdateChange, ItemId, McpToolCallError, McpToolCallResult, McpToolCallStatus, PatchApplyStatus,
    PatchChangeKind, ThreadItem,
};
use serde_json::{Value, json};

use super::rollout::{member, owned, text};

/// A command and its result.
pub struct CommandResult {
    argv: Vec<String>,
    output: Option<String>,
    exit_code: Option<i32>,
    status: CommandExecutionStatus,
    duration_ms: Option<i64>,
}

impl CommandResult {
    /// Reads the arguments of a call and the text of its output.
    pub fn from_call(arguments: &Value, output: &str) -> Option<Self> {
        let script = text(arguments, "cmd").or_else(|| text(arguments, "command"));
        let shown = output.lines().next().and_then(|line| line.strip_prefix("Command: "));
        let argv = match (shown.and_then(shlex::split), script) {
            (Some(argv), _) => argv,
            (None, Some(script)) => vec!["bash".to_owned(), "-lc".to_owned(), script.to_owned()],
            (None, None) => member(arguments, "command")?,
        };
        Some(Self { argv, ..Self::from_output(output) })
    }

    /// Parses the output of a command, in the forms of all versions of codex.
    fn from_output(raw: &str) -> Self {
        let (exit_code, seconds, output) = match serde_json::from_str::<Value>(raw) {
            Ok(json) if json.get("metadata").is_some() => {
                let about = json.get("metadata").unwrap_or(&Value::Null);
                let seconds = about.get("duration_seconds").and_then(Value::as_f64);
                (member(about, "exit_code"), seconds, Some(owned(&json, "output")))
            }
            _ => {
                let after = |mark: &str| raw.lines().find_map(|line| line.strip_prefix(mark));
                let code = after("Process exited with code ").or_else(|| after("Exit code: "));
                let seconds = after("Wall time: ").or_else(|| after("Duration: "));
                let seconds = seconds.and_then(|time| time.split(' ').next()?.parse().ok());
                let output = raw.split_once("Output:\n").map(|(_, output)| output.to_owned());
                (code.and_then(|code| code.trim().parse().ok()), seconds, output)
            }
        };
        let status = match exit_code {
            Some(0) => CommandExecutionStatus::Completed,
            None if raw.contains("rejected by user") => CommandExecutionStatus::Declined,
            // The command was still running when the model received this output.
            None if raw.contains("Process running") => CommandExecutionStatus::Completed,
            _ => CommandExecutionStatus::Failed,
        };
        let output = output.filter(|output| !output.is_empty());
        let duration_ms = seconds.map(|seconds: f64| (seconds * 1000.0) as i64);
        Self { argv: Vec::new(), output, exit_code, status, duration_ms }
    }

    pub fn item(self, id: ItemId, cwd: String, source: CommandExecutionSource) -> ThreadItem {
        let line = CommandLine::new(self.argv);
        ThreadItem::CommandExecution {
            id,
            plugin_id: None,
            script_path: None,
            command: codicil_policy::join(line.argv().iter().map(String::as_str)),
            cwd,
            process_id: None,
            source,
            status: self.status,
            command_actions: command_actions(&line),
            aggregated_output: self.output,
            exit_code: self.exit_code,
            duration_ms: self.duration_ms,
        }
    }
}

/// Parses the message that reports a command of the user to the model.
pub fn user_command(message: &str) -> Option<CommandResult> {
    let rest = message.trim().strip_prefix("<user_shell_command>")?;
    let (_, rest) = rest.split_once("<command>\n")?;
    let (script, rest) = rest.split_once("\n</command>")?;
    let (_, rest) = rest.split_once("<result>\n")?;
    let (result, _) = rest.rsplit_once("\n</result>")?;
    let argv = ["bash", "-lc", script].map(str::to_owned).to_vec();
    Some(CommandResult { argv, ..CommandResult::from_output(result) })
}

pub fn command_event(event: &Value) -> ThreadItem {
    let exit_code = member(event, "exit_code");
    let status = match (text(event, "status"), exit_code) {
        (Some("declined"), _) => CommandExecutionStatus::Declined,
        (Some("completed"), _) | (None, Some(0)) => CommandExecutionStatus::Completed,
        _ => CommandExecutionStatus::Failed,
    };
    let output = text(event, "aggregated_output").filter(|output| !output.is_empty());
    let result = CommandResult {
        argv: member(event, "command").unwrap_or_default(),
        output: output.map(str::to_owned),
        exit_code,
        status,
        duration_ms: duration(event),
    };
    let source = match text(event, "source") {
        Some("user_shell") => CommandExecutionSource::UserShell,
        Some("unified_exec_startup") => CommandExecutionSource::UnifiedExecStartup,
        Some("unified_exec_interaction") => CommandExecutionSource::UnifiedExecInteraction,
        _ => CommandExecutionSource::Agent,
    };
    result.item(owned(event, "call_id").into(), owned(event, "cwd"), source)
}

pub fn patch_event(event: &Value) -> ThreadItem {
    let status = match (text(event, "status"), member(event, "success")) {
        (Some("declined"), _) => PatchApplyStatus::Declined,
        (Some("completed"), _) | (None, Some(true)) => PatchApplyStatus::Completed,
        _ => PatchApplyStatus::Failed,
    };
    let changes = event.get("changes").and_then(Value::as_object);
    let changes = changes.into_iter().flatten().map(|(path, change)| changed(path, change)).collect();
    ThreadItem::FileChange { id: owned(event, "call_id").into(), changes, status }
}

fn changed(path: &str, change: &Value) -> FileUpdateChange {
    let (kind, diff) = match text(change, "type") {
        Some("add") => (PatchChangeKind::Add, owned(change, "content")),
        Some("delete") => (PatchChangeKind::Delete, owned(change, "content")),
        _ => {
            let move_path = member::<String>(change, "move_path");
            let diff = owned(change, "unified_diff");
            let diff = match &move_path {
                Some(to) => format!("{diff}\n\nMoved to: {to}"),
                None => diff,
            };
            (PatchChangeKind::Update { move_path }, diff)
        }
    };
    FileUpdateChange { path: path.to_owned(), kind, diff }
}

/// Converts the text of a patch. The diffs have no line numbers, because the files it applied to are not
/// known.
pub fn patch(id: ItemId, input: &str, arguments: &Value, output: &str, cwd: &str) -> Option<ThreadItem> {
    let input = text(arguments, "input").unwrap_or(input);
    let operations = Patch::parse(input).ok()?.operations;
    let result = CommandResult::from_output(output);
    let status = match result.status {
        CommandExecutionStatus::Completed => PatchApplyStatus::Completed,
        CommandExecutionStatus::Declined => PatchApplyStatus::Declined,
        _ => PatchApplyStatus::Failed,
    };
    let absolute = |path: &str| std::path::Path::new(cwd).join(path).to_string_lossy().into_owned();
    let changes = operations.into_iter().map(|operation| match operation {
        PatchOperation::Add { path, content } => {
            FileUpdateChange { path: absolute(&path), kind: PatchChangeKind::Add, diff: content }
        }
        PatchOperation::Delete { path } => {
            FileUpdateChange { path: absolute(&path), kind: PatchChangeKind::Delete, diff: String::new() }
        }
        PatchOperation::Update { path, move_to, sections } => {
            let move_path = move_to.as_deref().map(absolute);
            let mut diff: String = sections.iter().map(section).collect();
            if let Some(to) = &move_path {
                diff.push_str(&format!("\n\nMoved to: {to}"));
            }
            FileUpdateChange { path: absolute(&path), kind: PatchChangeKind::Update { move_path }, diff }
        }
    });
    Some(ThreadItem::FileChange { id, changes: changes.collect(), status })
}

fn section(section: &PatchSection) -> String {
    let mut text = format!("@@ {}", section.anchors.join(" ")).trim_end().to_owned();
    for line in &section.lines {
        let (mark, line) = match line {
            PatchLine::Keep(line) => (' ', line),
            PatchLine::Remove(line) => ('-', line),
            PatchLine::Add(line) => ('+', line),
        };
        text.push('\n');
        text.push(mark);
        text.push_str(line);
    }
    text + "\n"
}

pub fn mcp_event(event: &Value) -> ThreadItem {
    let call = event.get("invocation").unwrap_or(&Value::Null);
    let result = event.get("result").unwrap_or(&Value::Null);
    let failure = result.get("Err").map(|error| error.as_str().unwrap_or_default().to_owned());
    let result = result.get("Ok").map(|ok| McpToolCallResult {
        content: member(ok, "content").unwrap_or_default(),
        structured_content: member(ok, "structuredContent").or_else(|| member(ok, "structured_content")),
        meta: member(ok, "_meta"),
    });
    let is_error = event.pointer("/result/Ok/isError") == Some(&Value::Bool(true));
    let status =
        if failure.is_some() || is_error { McpToolCallStatus::Failed } else { McpToolCallStatus::Completed };
    ThreadItem::McpToolCall {
        id: owned(event, "call_id").into(),
        server: owned(call, "server"),
        tool: owned(call, "tool"),
        status,
        arguments: call.get("arguments").cloned().unwrap_or_default(),
        app_context: None,
        mcp_app_resource_uri: None,
        mcp_app_ui: None,
        plugin_id: None,
        read_only_hint: None,
        result,
        error: failure.map(|message| McpToolCallError { message }),
        duration_ms: duration(event),
    }
}

/// Converts a call of an MCP tool. The output is the content as JSON, or else the text of an error.
pub fn mcp(id: ItemId, server: &str, tool: &str, arguments: Value, output: &str) -> ThreadItem {
    let content = serde_json::from_str::<Vec<Value>>(output)
        .unwrap_or_else(|_| vec![json!({ "type": "text", "text": output })]);
    ThreadItem::McpToolCall {
        id,
        server: server.to_owned(),
        tool: tool.to_owned(),
        status: McpToolCallStatus::Completed,
        arguments,
        app_context: None,
        mcp_app_resource_uri: None,
        mcp_app_ui: None,
        plugin_id: None,
        read_only_hint: None,
        result: Some(McpToolCallResult { content, structured_content: None, meta: None }),
        error: None,
        duration_ms: None,
    }
}

pub fn dynamic_event(event: &Value) -> ThreadItem {
    let success: Option<bool> = member(event, "success");
    ThreadItem::DynamicToolCall {
        id: owned(event, "call_id").into(),
        namespace: member(event, "namespace"),
        tool: owned(event, "tool"),
        arguments: event.get("arguments").cloned().unwrap_or_default(),
        status: match success {
            Some(true) => DynamicToolCallStatus::Completed,
            _ => DynamicToolCallStatus::Failed,
        },
        content_items: member(event, "content_items"),
        success,
        duration_ms: duration(event),
    }
}

pub fn dynamic(
    id: ItemId,
    namespace: Option<String>,
    tool: &str,
    arguments: Value,
    output: String,
) -> ThreadItem {
    ThreadItem::DynamicToolCall {
        id,
        namespace,
        tool: tool.to_owned(),
        arguments,
        status: DynamicToolCallStatus::Completed,
        content_items: Some(vec![DynamicToolCallOutputContentItem::InputText { text: output }]),
        success: Some(true),
        duration_ms: None,
    }
}

pub fn duration(event: &Value) -> Option<i64> {
    let duration = event.get("duration")?;
    let part = |name| duration.get(name).and_then(Value::as_i64).unwrap_or(0);
    Some(part("secs").saturating_mul(1000).saturating_add(part("nanos") / 1_000_000))
}
