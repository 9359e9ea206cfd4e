//! The built-in tools as the model is told about them. Names and arguments are the reference server's, so
//! that models trained for them feel at home; the words are ours.

use codicil_mcp::McpTool;
use codicil_model::{ToolGrammar, ToolSpec};
use codicil_protocol::{DynamicToolNamespace, DynamicToolSpec};
use serde_json::{Value, json};

pub(super) fn function(name: &str, description: &str, properties: Value, required: &[&str]) -> ToolSpec {
    ToolSpec::Function {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: object(properties, required),
        strict: false,
    }
}

pub(super) fn object(properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if let (false, Some(members)) = (required.is_empty(), schema.as_object_mut()) {
        members.insert("required".to_owned(), json!(required));
    }
    schema
}

pub(super) fn string(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

pub(super) fn number(description: &str) -> Value {
    json!({ "type": "number", "description": description })
}

pub(super) fn boolean(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

pub(super) fn strings(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "description": description })
}

pub(super) fn exec_command(permissions: bool) -> ToolSpec {
    let mut properties = json!({
        "cmd": string("The shell command to run."),
        "workdir": string("Where to run it; the turn's working directory by default."),
        "shell": string("The shell to run it with; the user's own by default."),
        "login": boolean("Whether the shell reads the user's profile first. True by default."),
        "tty": boolean(
            "Whether the command gets a terminal, which programs that ask questions need. False by default."
        ),
        "yield_time_ms": number(
            "How long to wait for the end, in milliseconds. A command that takes longer goes on as a session."
        ),
        "max_output_tokens": number("How much of the output to show. More is cut in its middle."),
    });
    escalation(&mut properties, permissions);
    let about = "Runs a command and returns its output. A command that is still running after \
                 `yield_time_ms` stays alive; its session id is returned for `write_stdin`.";
    function("exec_command", about, properties, &["cmd"])
}

pub(super) fn shell_command(permissions: bool) -> ToolSpec {
    let mut properties = json!({
        "command": string("The shell command to run."),
        "workdir": string("Where to run it; the turn's working directory by default."),
        "timeout_ms": number("When to give up on it, in milliseconds. 10000 by default."),
        "login": boolean("Whether the shell reads the user's profile first. True by default."),
    });
    escalation(&mut properties, permissions);
    let about = "Runs a command in the user's shell, waits for its end and returns its output.";
    function("shell_command", about, properties, &["command"])
}

/// What a command may say about leaving its sandbox.
fn escalation(properties: &mut Value, permissions: bool) {
    let Some(properties) = properties.as_object_mut() else { return };
    let choices = match permissions {
        true => "`use_default`, `require_escalated`, or `with_additional_permissions`",
        false => "`use_default` or `require_escalated`",
    };
    let modes =
        format!("How the command is to be sandboxed: {choices}. The user is asked when it needs more.");
    properties.insert("sandbox_permissions".to_owned(), string(&modes));
    properties.insert(
        "justification".to_owned(),
        string("With `require_escalated`: one sentence that asks the user, and says why it is needed."),
    );
    properties.insert(
        "prefix_rule".to_owned(),
        strings(
            "With `require_escalated`: the first words of commands like this one, as a rule that the user \
             may agree to for the future. For example [\"git\", \"pull\"].",
        ),
    );
    if permissions {
        properties.insert("additional_permissions".to_owned(), profile());
    }
}

/// Permissions to ask for.
fn profile() -> Value {
    object(
        json!({
            "network": object(json!({ "enabled": boolean("Whether the network is needed.") }), &[]),
            "file_system": object(
                json!({
                    "read": strings("Files and folders to read."),
                    "write": strings("Files and folders to write."),
                }),
                &[],
            ),
        }),
        &[],
    )
}

pub(super) fn write_stdin() -> ToolSpec {
    let properties = json!({
        "session_id": number("The session, as `exec_command` returned it."),
        "chars": string("What to type. Leave it empty to see what has happened since."),
        "yield_time_ms": number("How long to wait for output, in milliseconds."),
        "max_output_tokens": number("How much of the output to show. More is cut in its middle."),
    });
    let about = "Types into a running session, or looks at it, and returns what it has written since.";
    function("write_stdin", about, properties, &["session_id"])
}

pub(super) fn update_plan() -> ToolSpec {
    let step = object(
        json!({
            "step": string("What is to be done, in a few words."),
            "status": string("`pending`, `in_progress` or `completed`."),
        }),
        &["step", "status"],
    );
    let properties = json!({
        "explanation": string("Why the plan changed, if it did."),
        "plan": { "type": "array", "items": step, "description": "All steps, in order." },
    });
    let about = "Shows the user the plan for the task and how far it has come. Give the whole plan each \
                 time; at most one step is in progress.";
    function("update_plan", about, properties, &["plan"])
}

pub(super) fn request_user_input() -> ToolSpec {
    let option = object(
        json!({
            "label": string("The answer in one to five words."),
            "description": string("What choosing it means, in one sentence."),
        }),
        &["label", "description"],
    );
    let question = object(
        json!({
            "id": string("A name for the answer, in snake_case."),
            "header": string("A word or two to stand above the question."),
            "question": string("The question, in one sentence."),
            "options": {
                "type": "array",
                "items": option,
                "description": "Two or three answers that exclude each other, the one you suggest first. \
                                Words of their own are always open to the user.",
            },
        }),
        &["id", "header", "question", "options"],
    );
    let properties = json!({
        "questions": {
            "type": "array",
            "items": question,
            "description": "One to three short questions.",
        },
    });
    let about = "Asks the user to choose and waits for the answers. Works in plan mode.";
    function("request_user_input", about, properties, &["questions"])
}

pub(super) fn request_permissions() -> ToolSpec {
    let properties = json!({
        "permissions": profile(),
        "reason": string("One sentence for the user that says what they are for."),
    });
    let about = "Asks the user for permissions that commands to come will need: the network, or files \
                 outside the sandbox. Returns what was granted.";
    function("request_permissions", about, properties, &["permissions"])
}

/// What a patch looks like, for models that can be held to a grammar.
const PATCH_GRAMMAR: &str = r#"start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?
hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?
filename: /(.+)/
add_line: "+" /(.*)/ LF
change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF
%import common.LF
"#;

pub(super) fn apply_patch() -> ToolSpec {
    ToolSpec::Custom {
        name: "apply_patch".to_owned(),
        description: "Changes files. The input is the patch itself, as free text and not as JSON.".to_owned(),
        grammar: Some(ToolGrammar { syntax: "lark".to_owned(), definition: PATCH_GRAMMAR.to_owned() }),
    }
}

pub(super) fn view_image() -> ToolSpec {
    let properties = json!({ "path": string("The image file on this machine.") });
    let about = "Looks at an image file. Use it when the user names a file that is not in the \
                 conversation yet.";
    function("view_image", about, properties, &["path"])
}

/// What MCP servers have to read.
pub(super) fn mcp_resources() -> [ToolSpec; 3] {
    let list = || {
        json!({
            "server": string("The server to ask; all of them by default."),
            "cursor": string("Where the last answer left off, if it was not complete."),
        })
    };
    let read = json!({
        "server": string("The server, by its name in the list."),
        "uri": string("The resource, by its address in the list."),
    });
    [
        function("list_mcp_resources", "Lists what MCP servers offer to read.", list(), &[]),
        function(
            "list_mcp_resource_templates",
            "Lists the patterns of addresses that MCP servers can read.",
            list(),
            &[],
        ),
        function("read_mcp_resource", "Reads a resource of an MCP server.", read, &["server", "uri"]),
    ]
}

/// A tool of an MCP server.
pub(super) fn mcp(tool: &McpTool) -> ToolSpec {
    ToolSpec::Function {
        name: tool.qualified_name.clone(),
        description: tool.description(),
        parameters: tool.parameters.clone(),
        strict: false,
    }
}

/// A tool that the client runs, in its namespace.
pub(super) fn dynamic(namespace: Option<&DynamicToolNamespace>, tool: &DynamicToolSpec) -> ToolSpec {
    let function = ToolSpec::Function {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.input_schema.clone(),
        strict: false,
    };
    match namespace {
        None => function,
        Some(DynamicToolNamespace { name, description, .. }) => ToolSpec::Namespace {
            name: name.clone(),
            description: description.clone(),
            tools: vec![function],
        },
    }
}
