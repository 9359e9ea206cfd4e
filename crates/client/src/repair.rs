//! Messages that leave something out.
//!
//! Servers differ in how much they say: some answer `thread/start` with nothing but an id, some send
//! notifications that name neither thread nor turn. What can be known is filled in here, and only here, after
//! a message could not be read as it is: ids from the only turn that runs, the rest with what says nothing.

use codicil_protocol::{ServerNotification, ServerRequest, ThreadId, TurnId};
use serde_json::{Map, Value, json, value::RawValue};

/// The only turn that runs; its turn id may not be known yet.
pub type OnlyTurn = Option<(ThreadId, Option<TurnId>)>;

/// An answer with what it left out, or `None` when it is no object. Some servers take a turn with nothing
/// but null; it then has no id.
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
        "thread/start" | "thread/resume" | "thread/fork" => fill(members, opened()),
        "turn/start" => fill(members, json!({ "turn": { "id": "" } })),
        "thread/list" => each(members, "data", thread),
        _ => {}
    }
    parts(members);
    Some(value)
}

/// A notification that could not be read as it was; `None` when it cannot be helped.
pub fn notification(method: &str, params: Option<&RawValue>, sole: OnlyTurn) -> Option<ServerNotification> {
    let params = completed(params, sole)?;
    match ServerNotification::decode(method, Some(&params)) {
        ServerNotification::Unknown(_) => None,
        known => Some(known),
    }
}

/// The same for a request of the server.
pub fn request(method: &str, params: Option<&RawValue>, sole: OnlyTurn) -> Option<ServerRequest> {
    // An approval can be answered without knowing where it comes from.
    let sole = sole.or_else(|| Some(("".into(), None)));
    let params = completed(params, sole)?;
    match ServerRequest::decode(method, Some(&params)) {
        ServerRequest::Unknown(_) => None,
        known => Some(known),
    }
}

fn completed(params: Option<&RawValue>, sole: OnlyTurn) -> Option<Box<RawValue>> {
    let mut value: Value = match params {
        Some(params) => serde_json::from_str(params.get()).ok()?,
        None => Value::Null,
    };
    if value.is_null() {
        value = json!({});
    }
    let members = value.as_object_mut()?;
    let (thread_id, turn_id) = sole?;
    let turn_id = turn_id.map(|id| id.to_string()).unwrap_or_default();
    let mut rest = json!({ "threadId": thread_id, "turnId": turn_id, "itemId": "" });
    if let Some(rest) = rest.as_object_mut() {
        more(members, rest, &turn_id);
    }
    fill(members, rest);
    parts(members);
    serde_json::value::to_raw_value(&value).ok()
}

/// Members that one kind of message needs and that do no harm in the others.
fn more(members: &Map<String, Value>, rest: &mut Map<String, Value>, turn_id: &str) {
    rest.insert("willRetry".into(), false.into());
    rest.insert("arguments".into(), json!({}));
    rest.insert("callId".into(), "".into());
    rest.insert("contentIndex".into(), 0.into());
    rest.insert("summaryIndex".into(), 0.into());
    if let Some(name) = members.get("name") {
        rest.insert("tool".into(), name.clone());
    }
    if let Some(thread) = members.get("threadId") {
        rest.insert("conversationId".into(), thread.clone());
    }
    // A turn's end without a turn is that of the only one.
    if !members.contains_key("turn") && !members.contains_key("item") {
        let status = members.get("status").filter(|status| status.is_string());
        let status = status.cloned().unwrap_or_else(|| "completed".into());
        let error = members.get("error").cloned().unwrap_or_default();
        rest.insert("turn".into(), json!({ "id": turn_id, "status": status, "error": error }));
    }
}

fn parts(members: &mut Map<String, Value>) {
    if let Some(found) = members.get_mut("thread").and_then(Value::as_object_mut) {
        thread(found);
    }
    if let Some(found) = members.get_mut("turn").and_then(Value::as_object_mut) {
        turn(found);
    }
    if let Some(found) = members.get_mut("item").and_then(Value::as_object_mut) {
        item(found);
    }
    each(members, "questions", |question| {
        fill(question, json!({ "header": "", "question": "" }));
        each(question, "options", |option| fill(option, json!({ "description": "" })));
    });
}

fn opened() -> Value {
    json!({
        "model": "", "modelProvider": "", "cwd": "", "approvalPolicy": "never", "approvalsReviewer": "user",
        "sandbox": { "type": "readOnly" },
    })
}

fn thread(members: &mut Map<String, Value>) {
    let rest = json!({
        "preview": "", "ephemeral": false, "modelProvider": "", "createdAt": 0, "updatedAt": 0,
        "status": { "type": "idle" }, "cwd": "", "cliVersion": "", "source": "unknown", "turns": [],
    });
    fill(members, rest);
    each(members, "turns", turn);
}

fn turn(members: &mut Map<String, Value>) {
    fill(members, json!({ "items": [], "status": "inProgress" }));
    each(members, "items", item);
}

fn item(members: &mut Map<String, Value>) {
    let rest = json!({
        "id": "", "text": "", "content": [], "command": "", "cwd": "", "status": "completed",
        "commandActions": [], "changes": [], "review": "", "query": "", "arguments": {}, "path": "",
        "server": "", "tool": "", "result": null,
    });
    fill(members, rest);
    each(members, "changes", |change| fill(change, json!({ "diff": "", "kind": { "type": "update" } })));
}

/// Adds what is missing or null.
fn fill(members: &mut Map<String, Value>, rest: Value) {
    let Value::Object(rest) = rest else { return };
    for (name, value) in rest {
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

    fn sole() -> OnlyTurn {
        Some(("t".into(), Some("u".into())))
    }

    #[test]
    fn an_id_is_enough_of_an_answer() {
        let value = response("thread/start", r#"{"thread":{"id":"thread-123"}}"#).unwrap();
        let started: ThreadStartResponse = serde_json::from_value(value).unwrap();
        assert_eq!(&*started.thread.id, "thread-123");
        let value = response("turn/start", r#"{"turn":{"id":"turn-456"}}"#).unwrap();
        let started: TurnStartResponse = serde_json::from_value(value).unwrap();
        assert_eq!((&*started.turn.id, started.turn.status), ("turn-456", TurnStatus::InProgress));
        assert_eq!(response("turn/start", "7"), None);
    }

    #[test]
    fn an_id_itself_is_never_made_up() {
        let value = response("thread/start", r#"{"thread":{}}"#).unwrap();
        assert!(serde_json::from_value::<ThreadStartResponse>(value).is_err());
    }

    #[test]
    fn notifications_without_ids_are_those_of_the_only_turn() {
        let Some(ServerNotification::TurnCompleted(end)) = notification("turn/completed", None, sole())
        else {
            panic!("it is readable");
        };
        assert_eq!((&*end.thread_id, &*end.turn.id, end.turn.status), ("t", "u", TurnStatus::Completed));

        let params =
            raw(r#"{"item":{"type":"commandExecution","id":"i","command":"ls","status":"completed"}}"#);
        let Some(ServerNotification::ItemCompleted(item)) =
            notification("item/completed", Some(&params), sole())
        else {
            panic!("it is readable");
        };
        assert_eq!((&*item.thread_id, &*item.turn_id), ("t", "u"));
        assert!(matches!(item.item, ThreadItem::CommandExecution { command, .. } if command == "ls"));

        let params = raw(r#"{"itemId":"i","delta":"x"}"#);
        assert!(notification("item/agentMessage/delta", Some(&params), sole()).is_some());
        assert!(notification("item/agentMessage/delta", Some(&params), None).is_none());
        assert!(notification("nobody/knows", Some(&params), sole()).is_none());
    }

    #[test]
    fn questions_can_be_read_without_knowing_where_they_come_from() {
        let params = raw(r#"{"command":"gh pr view","cwd":"/tmp","reason":"need approval"}"#);
        let asked = request("item/commandExecution/requestApproval", Some(&params), None);
        let Some(ServerRequest::CommandExecutionApproval(asked)) = asked else { panic!("{asked:?}") };
        assert_eq!((asked.command.as_deref(), &*asked.thread_id), (Some("gh pr view"), ""));

        let params = raw(r#"{"name":"search","callId":"c","threadId":"t","turnId":"u","arguments":{"q":1}}"#);
        let asked = request("item/tool/call", Some(&params), sole());
        let Some(ServerRequest::DynamicToolCall(asked)) = asked else { panic!("{asked:?}") };
        assert_eq!((&*asked.tool, &asked.arguments["q"]), ("search", &json!(1)));

        let params = raw(r#"{"questions":[{"id":"q","question":"Why?","options":[{"label":"Yes"}]}]}"#);
        assert!(request("item/tool/requestUserInput", Some(&params), sole()).is_some());
    }
}
