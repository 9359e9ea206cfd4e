//! Fills in fields that some servers leave out of their messages.
//!
//! Some servers answer `thread/start` with nothing but an id; some send notifications that name neither thread nor
//! turn. A message that cannot be decoded is completed here and decoded again: ids come from the only running turn,
//! other fields get empty values. Thread ids in responses are never invented.

use codicil_protocol::{ServerNotification, ServerRequest, ThreadId, TurnId};
use serde_json::{Map, Value, json, value::RawValue};

/// The thread and turn of the only running turn. The turn id is `None` until the server has named it.
pub type OnlyTurn = Option<(ThreadId, Option<TurnId>)>;

/// Completes a response; `None` if it is not an object. Some servers answer `turn/start` with null; that turn gets an
/// empty id.
pub fn response(method: &str, raw: &str) -> Option<Value> {
    let mut value: Value = serde_json::from_str(raw).ok()?;
    if value.is_null() {
        value = json!({});
    }
    let members = value.as_object_mut()?;
    match method {
        "initialize" => fill(
            members,
            json!({ "userAgent": "", "codexHome": "/", "platformFamily": "", "platformOs": "" }),
        ),
        "thread/start" | "thread/resume" | "thread/fork" => fill(members, thread_settings()),
        "turn/start" => fill(members, json!({ "turn": { "id": "" } })),
        "thread/list" => each(members, "data", fill_thread),
        _ => {}
    }
    fill_nested(members);
    Some(value)
}

/// Completes and decodes a notification; `None` if that fails.
pub fn notification(
    method: &str,
    params: Option<&RawValue>,
    only_turn: OnlyTurn,
) -> Option<ServerNotification> {
    let params = complete_params(params, only_turn)?;
    match ServerNotification::decode(method, Some(&params)) {
        ServerNotification::Unknown(_) => None,
        known => Some(known),
    }
}

/// Completes and decodes a server request; `None` if that fails.
pub fn request(method: &str, params: Option<&RawValue>, only_turn: OnlyTurn) -> Option<ServerRequest> {
    // An approval can be answered without knowing its thread.
    let only_turn = only_turn.or_else(|| Some(("".into(), None)));
    let params = complete_params(params, only_turn)?;
    match ServerRequest::decode(method, Some(&params)) {
        ServerRequest::Unknown(_) => None,
        known => Some(known),
    }
}

fn complete_params(params: Option<&RawValue>, only_turn: OnlyTurn) -> Option<Box<RawValue>> {
    let mut value: Value = match params {
        Some(params) => serde_json::from_str(params.get()).ok()?,
        None => Value::Null,
    };
    if value.is_null() {
        value = json!({});
    }
    let members = value.as_object_mut()?;
    let (thread_id, turn_id) = only_turn?;
    let turn_id = turn_id.map(|id| id.to_string()).unwrap_or_default();
    let mut defaults = json!({ "threadId": thread_id, "turnId": turn_id, "itemId": "" });
    if let Some(defaults) = defaults.as_object_mut() {
        add_special_fields(members, defaults, &turn_id);
    }
    fill(members, defaults);
    fill_nested(members);
    serde_json::value::to_raw_value(&value).ok()
}

/// Adds fields that one kind of message needs and that are harmless in the others.
fn add_special_fields(members: &Map<String, Value>, defaults: &mut Map<String, Value>, turn_id: &str) {
    defaults.insert("willRetry".into(), false.into());
    defaults.insert("arguments".into(), json!({}));
    defaults.insert("callId".into(), "".into());
    defaults.insert("contentIndex".into(), 0.into());
    defaults.insert("summaryIndex".into(), 0.into());
    if let Some(name) = members.get("name") {
        defaults.insert("tool".into(), name.clone());
    }
    if let Some(thread) = members.get("threadId") {
        defaults.insert("conversationId".into(), thread.clone());
    }
    // The end of a turn without a `turn` is the end of the only running one.
    if !members.contains_key("turn") && !members.contains_key("item") {
        let status = members.get("status").filter(|status| status.is_string());
        let status = status.cloned().unwrap_or_else(|| "completed".into());
        let error = members.get("error").cloned().unwrap_or_default();
        defaults.insert("turn".into(), json!({ "id": turn_id, "status": status, "error": error }));
    }
}

fn fill_nested(members: &mut Map<String, Value>) {
    if let Some(thread) = members.get_mut("thread").and_then(Value::as_object_mut) {
        fill_thread(thread);
    }
    if let Some(turn) = members.get_mut("turn").and_then(Value::as_object_mut) {
        fill_turn(turn);
    }
    if let Some(item) = members.get_mut("item").and_then(Value::as_object_mut) {
        fill_item(item);
    }
    each(members, "questions", |question| {
        fill(question, json!({ "header": "", "question": "" }));
        each(question, "options", |option| fill(option, json!({ "description": "" })));
    });
}

fn thread_settings() -> Value {
    json!({
        "model": "", "modelProvider": "", "cwd": "", "approvalPolicy": "never", "approvalsReviewer": "user",
        "sandbox": { "type": "readOnly" },
    })
}

fn fill_thread(members: &mut Map<String, Value>) {
    let defaults = json!({
        "preview": "", "ephemeral": false, "modelProvider": "", "createdAt": 0, "updatedAt": 0,
        "status": { "type": "idle" }, "cwd": "", "cliVersion": "", "source": "unknown", "turns": [],
    });
    fill(members, defaults);
    each(members, "turns", fill_turn);
}

fn fill_turn(members: &mut Map<String, Value>) {
    fill(members, json!({ "items": [], "status": "inProgress" }));
    each(members, "items", fill_item);
}

fn fill_item(members: &mut Map<String, Value>) {
    let defaults = json!({
        "id": "", "text": "", "content": [], "command": "", "cwd": "", "status": "completed",
        "commandActions": [], "changes": [], "review": "", "query": "", "arguments": {}, "path": "",
        "server": "", "tool": "", "result": null,
    });
    fill(members, defaults);
    each(members, "changes", |change| fill(change, json!({ "diff": "", "kind": { "type": "update" } })));
}

/// Inserts the fields that are missing or null.
fn fill(members: &mut Map<String, Value>, defaults: Value) {
    let Value::Object(defaults) = defaults else { return };
    for (name, value) in defaults {
        if members.get(&name).is_none_or(Value::is_null) {
            members.insert(name, value);
        }
    }
}

fn each(members: &mut Map<String, Value>, name: &str, change: impl Fn(&mut Map<String, Value>)) {
    let elements = members.get_mut(name).and_then(Value::as_array_mut);
    elements.into_iter().flatten().filter_map(Value::as_object_mut).for_each(change);
}

#[cfg(test)]
mod tests {
    use codicil_protocol::{ThreadItem, ThreadStartResponse, TurnStartResponse, TurnStatus};

    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        serde_json::from_str(json).unwrap()
    }

    fn only_turn() -> OnlyTurn {
        Some(("t".into(), Some("u".into())))
    }

    #[test]
    fn a_response_with_only_an_id_is_completed() {
        let value = response("thread/start", r#"{"thread":{"id":"thread-123"}}"#).unwrap();
        let started: ThreadStartResponse = serde_json::from_value(value).unwrap();
        assert_eq!(&*started.thread.id, "thread-123");
        let value = response("turn/start", r#"{"turn":{"id":"turn-456"}}"#).unwrap();
        let started: TurnStartResponse = serde_json::from_value(value).unwrap();
        assert_eq!((&*started.turn.id, started.turn.status), ("turn-456", TurnStatus::InProgress));
        assert_eq!(response("turn/start", "7"), None);
    }

    #[test]
    fn ids_are_never_invented() {
        let value = response("thread/start", r#"{"thread":{}}"#).unwrap();
        assert!(serde_json::from_value::<ThreadStartResponse>(value).is_err());
    }

    #[test]
    fn notifications_without_ids_belong_to_the_only_turn() {
        let Some(ServerNotification::TurnCompleted(end)) = notification("turn/completed", None, only_turn())
        else {
            panic!("cannot be decoded");
        };
        assert_eq!((&*end.thread_id, &*end.turn.id, end.turn.status), ("t", "u", TurnStatus::Completed));

        let params =
            raw(r#"{"item":{"type":"commandExecution","id":"i","command":"ls","status":"completed"}}"#);
        let Some(ServerNotification::ItemCompleted(item)) =
            notification("item/completed", Some(&params), only_turn())
        else {
            panic!("cannot be decoded");
        };
        assert_eq!((&*item.thread_id, &*item.turn_id), ("t", "u"));
        assert!(matches!(item.item, ThreadItem::CommandExecution { command, .. } if command == "ls"));

        let params = raw(r#"{"itemId":"i","delta":"x"}"#);
        assert!(notification("item/agentMessage/delta", Some(&params), only_turn()).is_some());
        assert!(notification("item/agentMessage/delta", Some(&params), None).is_none());
        assert!(notification("unknown/method", Some(&params), only_turn()).is_none());
    }

    #[test]
    fn requests_without_ids_are_decoded() {
        let params = raw(r#"{"command":"gh pr view","cwd":"/tmp","reason":"need approval"}"#);
        let decoded = request("item/commandExecution/requestApproval", Some(&params), None);
        let Some(ServerRequest::CommandExecutionApproval(decoded)) = decoded else { panic!("{decoded:?}") };
        assert_eq!((decoded.command.as_deref(), &*decoded.thread_id), (Some("gh pr view"), ""));

        let params = raw(r#"{"name":"search","callId":"c","threadId":"t","turnId":"u","arguments":{"q":1}}"#);
        let decoded = request("item/tool/call", Some(&params), only_turn());
        let Some(ServerRequest::DynamicToolCall(decoded)) = decoded else { panic!("{decoded:?}") };
        assert_eq!((&*decoded.tool, &decoded.arguments["q"]), ("search", &json!(1)));

        let params = raw(r#"{"questions":[{"id":"q","question":"Why?","options":[{"label":"Yes"}]}]}"#);
        assert!(request("item/tool/requestUserInput", Some(&params), only_turn()).is_some());
    }
}
