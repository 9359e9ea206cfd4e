//! The wire format of the central types, with all members and nulls.

use codicil_protocol::{
    CommandExecutionRequestApprovalParams, FileChangeRequestApprovalParams, ItemStartedNotification,
    PermissionsRequestApprovalParams, Thread, ThreadItem, ThreadStartResponse, ToolRequestUserInputParams,
    Turn, TurnCompletedNotification,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Decodes a value with the required members and returns what is written.
fn written<T: Serialize + DeserializeOwned>(value: Value) -> String {
    let read: T = serde_json::from_value(value).unwrap();
    format!("{:#}", serde_json::to_value(&read).unwrap())
}

/// A thread with all members.
pub fn thread() -> Value {
    json!({
        "id": "0199a213-81c0-7800-8aa1-bbab2a035a53",
        "sessionId": "0199a213-81c0-7800-8aa1-bbab2a035a53",
        "forkedFromId": "f",
        "parentThreadId": "p",
        "projectId": null,
        "section": { "id": "s", "name": "Pinned", "appearance": { "icon": "pin", "color": null } },
        "sectionEnteredAt": 1_730_910_001,
        "environments": [{ "environmentId": "local", "cwd": "/home/me/project", "runtimeWorkspaceRoots": [] }],
        "historyMode": "legacy",
        "preview": "Fix the tests",
        "ephemeral": false,
        "modelProvider": "openai",
        "model": "m",
        "reasoningEffort": "high",
        "createdAt": 1_730_910_000,
        "updatedAt": 1_730_910_001,
        "recencyAt": 1_730_910_001,
        "status": { "type": "active", "activeFlags": ["waitingOnApproval"] },
        "path": "/home/me/.codicil/sessions/x.jsonl",
        "cwd": "/home/me/project",
        "cliVersion": "0.118.0",
        "source": { "subAgent": { "thread_spawn": {
            "parent_thread_id": "p", "depth": 1, "agent_path": null, "agent_nickname": "Atlas", "agent_role": null,
        } } },
        "originator": "editor",
        "threadSource": "user",
        "canAcceptDirectInput": true,
        "agentNickname": "Atlas",
        "agentRole": null,
        "gitInfo": { "sha": "abc", "branch": "main", "originUrl": null },
        "name": null,
        "turns": [turn()],
    })
}

fn turn() -> Value {
    json!({
        "id": "turn-1",
        "items": items(),
        "status": "failed",
        "error": {
            "message": "stream disconnected",
            "codexErrorInfo": { "responseStreamDisconnected": { "httpStatusCode": null } },
            "additionalDetails": null,
        },
        "rootTurnId": "turn-1",
        "itemsView": "full",
        "startedAt": 1_730_910_000,
        "completedAt": 1_730_910_001,
        "durationMs": 1000,
    })
}

/// An item of every kind.
pub fn items() -> Vec<Value> {
    let change = json!({ "path": "/a", "kind": { "type": "update", "move_path": null }, "diff": "@@" });
    vec![
        json!({ "type": "userMessage", "id": "1", "content": [
            { "type": "text", "text": "hi", "text_elements": [
                { "byteRange": { "start": 0, "end": 2 }, "placeholder": null },
            ] },
            { "type": "image", "url": "data:," },
            { "type": "image", "fileId": "file-1", "detail": "high" },
            { "type": "localImage", "path": "/i.png" },
            { "type": "audio", "url": "data:," },
            { "type": "localAudio", "path": "/i.wav" },
            { "type": "skill", "name": "s", "path": "/s/SKILL.md" },
            { "type": "mention", "name": "m", "path": "app://m" },
        ], "clientId": "mine" }),
        json!({ "type": "hookPrompt", "id": "2", "fragments": [{ "text": "t", "hookRunId": "h" }] }),
        json!({ "type": "agentMessage", "id": "3", "text": "t", "phase": "final_answer", "memoryCitation": null,
            "delivery": "async", "questions": [{ "title": "q", "options": null }] }),
        json!({ "type": "plan", "id": "4", "text": "t" }),
        json!({ "type": "reasoning", "id": "5", "summary": ["s"], "content": [] }),
        json!({ "type": "commandExecution", "id": "6", "pluginId": null, "scriptPath": null, "command": "ls", "cwd": "/", "processId": null,
            "source": "agent", "status": "declined", "commandActions": [
                { "type": "read", "command": "cat a", "name": "a", "path": "a" },
                { "type": "listFiles", "command": "ls", "path": null },
                { "type": "search", "command": "rg x", "query": "x", "path": null },
                { "type": "unknown", "command": "make" },
            ], "aggregatedOutput": null, "exitCode": null, "durationMs": null }),
        json!({ "type": "fileChange", "id": "7", "changes": [change], "status": "completed" }),
        json!({ "type": "mcpToolCall", "id": "8", "server": "s", "tool": "t", "status": "failed",
            "arguments": { "a": 1 }, "appContext": null, "mcpAppResourceUri": null,
            "mcpAppUi": { "resourceUri": "ui://a", "preferredModelDisplayMode": "inline" }, "pluginId": null,
            "readOnlyHint": true, "result": null, "error": { "message": "no" }, "durationMs": 5 }),
        json!({ "type": "dynamicToolCall", "id": "9", "tool": "t", "arguments": {}, "status": "inProgress",
            "contentItems": null, "success": null, "durationMs": null }),
        json!({ "type": "collabAgentToolCall", "id": "10", "tool": "spawnAgent", "status": "completed",
            "senderThreadId": "a", "receiverThreadIds": ["b"], "prompt": "p", "model": null,
            "reasoningEffort": "xhigh", "agentsStates": { "b": { "status": "running", "message": null } } }),
        json!({ "type": "webSearch", "id": "11", "query": "q",
            "action": { "type": "search", "query": "q", "queries": null }, "results": null }),
        json!({ "type": "imageView", "id": "12", "path": "/i.png" }),
        json!({ "type": "imageGeneration", "id": "13", "status": "completed", "revisedPrompt": null,
            "result": "", "savedPath": "/i.png", "failure": { "type": "usageLimitExceeded", "limitId": "l", "resetsAt": null },
            "generationId": null, "inputImages": [{ "path": "/j.png", "sha256": "0" }],
            "transparentBackground": null }),
        json!({ "type": "enteredReviewMode", "id": "14", "review": "current changes" }),
        json!({ "type": "exitedReviewMode", "id": "15", "review": "fine" }),
        json!({ "type": "contextCompaction", "id": "16" }),
        json!({ "type": "subAgentActivity", "id": "17", "kind": "started", "agentThreadId": "a", "agentPath": "root/a",
            "model": null, "reasoningEffort": null }),
        json!({ "type": "sleep", "id": "18", "durationMs": 5 }),
    ]
}

#[test]
fn whole_values_are_written_as_they_were_read() {
    let read: Thread = serde_json::from_value(thread()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), thread());
    let known = |item: &ThreadItem| !matches!(item, ThreadItem::Unrecognized(_));
    assert!(read.turns[0].items.iter().all(known), "every kind is known");
    assert_eq!(read.turns[0].items.len(), 18);
}

#[test]
fn a_thread_shows_its_nulls() {
    let thread = json!({
        "id": "t", "preview": "", "ephemeral": true, "modelProvider": "mock", "createdAt": 1, "updatedAt": 2,
        "status": { "type": "idle" }, "cwd": "/", "cliVersion": "0.118.0", "source": "vscode", "turns": [],
    });
    snapshot!("thread_with_nulls", written::<Thread>(thread.clone()));
    let started = json!({
        "thread": thread, "model": "m", "modelProvider": "mock", "cwd": "/", "approvalPolicy": "never",
        "approvalsReviewer": "user", "sandbox": { "type": "workspaceWrite" },
    });
    snapshot!("thread_start_response_with_nulls", written::<ThreadStartResponse>(started));
}

#[test]
fn turns_show_their_nulls() {
    let turn = json!({ "id": "u", "items": [], "status": "inProgress" });
    snapshot!("turn_with_nulls", written::<Turn>(turn));
    let failed = json!({ "threadId": "t", "turn": { "id": "u", "items": [], "status": "failed",
        "error": { "message": "no" } } });
    snapshot!("turn_completed_with_nulls", written::<TurnCompletedNotification>(failed));
}

/// The smallest form of each kind of item that has optional members.
#[test]
fn items_show_their_nulls() {
    let smallest = [
        json!({ "type": "userMessage", "id": "i", "content": [{ "type": "text", "text": "hi" }] }),
        json!({ "type": "agentMessage", "id": "i", "text": "" }),
        json!({ "type": "reasoning", "id": "i" }),
        json!({ "type": "commandExecution", "id": "i", "command": "ls", "cwd": "/", "status": "inProgress",
            "commandActions": [{ "type": "listFiles", "command": "ls" }] }),
        json!({ "type": "fileChange", "id": "i", "status": "inProgress", "changes": [
            { "path": "/a", "kind": { "type": "add" }, "diff": "" },
            { "path": "/b", "kind": { "type": "update" }, "diff": "" },
        ] }),
        json!({ "type": "mcpToolCall", "id": "i", "server": "s", "tool": "t", "status": "inProgress",
            "arguments": null }),
        json!({ "type": "dynamicToolCall", "id": "i", "tool": "t", "arguments": null, "status": "inProgress" }),
        json!({ "type": "collabAgentToolCall", "id": "i", "tool": "wait", "status": "inProgress",
            "senderThreadId": "a", "receiverThreadIds": [], "agentsStates": {} }),
        json!({ "type": "webSearch", "id": "i", "query": "" }),
        json!({ "type": "imageGeneration", "id": "i", "status": "in_progress", "result": "" }),
    ];
    let shown: Vec<_> = smallest.into_iter().map(written::<ThreadItem>).collect();
    snapshot!("items_with_nulls", shown.join("\n"));
    let started =
        json!({ "threadId": "t", "turnId": "u", "item": { "type": "contextCompaction", "id": "i" } });
    snapshot!("item_started", written::<ItemStartedNotification>(started));
}

#[test]
fn approvals_leave_out_what_does_not_apply() {
    let ids = json!({ "threadId": "t", "turnId": "u", "itemId": "i" });
    let with = |extra: Value| {
        let mut params = ids.clone();
        params.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        params
    };
    snapshot!(
        "approval_of_a_command_smallest",
        written::<CommandExecutionRequestApprovalParams>(ids.clone())
    );
    let whole = with(json!({
        "startedAtMs": 5, "approvalId": "a", "reason": "r", "command": "ls", "cwd": "/",
        "networkApprovalContext": { "host": "example.com", "protocol": "https" },
        "commandActions": [{ "type": "unknown", "command": "ls" }],
        "additionalPermissions": { "network": { "enabled": true }, "fileSystem": { "write": ["/w"] } },
        "proposedExecpolicyAmendment": ["ls"],
        "proposedNetworkPolicyAmendments": [{ "host": "example.com", "action": "allow" }],
        "availableDecisions": [
            "accept",
            { "acceptWithExecpolicyAmendment": { "execpolicy_amendment": ["ls"] } },
            { "applyNetworkPolicyAmendment": {
                "network_policy_amendment": { "host": "example.com", "action": "deny" } } },
            "cancel",
        ],
    }));
    snapshot!("approval_of_a_command_whole", written::<CommandExecutionRequestApprovalParams>(whole));
    snapshot!("approval_of_edits", written::<FileChangeRequestApprovalParams>(ids.clone()));
    let permissions = with(json!({ "permissions": { "fileSystem": { "write": ["/w"] } } }));
    snapshot!("approval_of_permissions", written::<PermissionsRequestApprovalParams>(permissions));
    let questions = with(json!({ "questions": [{ "id": "q", "header": "H", "question": "Q?" }] }));
    snapshot!("questions", written::<ToolRequestUserInputParams>(questions));
}
