//! Formats messages as lines that are the same in every run: `← item/completed agentMessage <Let me look>`.
//!
//! Ids and times are omitted, directories are `HOME` and `WORK`, and consecutive deltas of one item are one
//! line. A thread is named (`thread-2`) unless it is the first that this client has seen.

use codicil_protocol::{ErrorReported, ItemCompleted, ItemStarted, NotificationMethod, ThreadStatusChanged};
use serde_json::{Map, Value};

use super::{home::HomePlaces, inbox::IncomingMessage};

pub(super) struct Transcript {
    places: HomePlaces,
    threads: Vec<String>,
}

/// A line that deltas may still extend.
struct TranscriptLine {
    head: String,
    body: String,
    /// The item that the body belongs to, if it is a delta.
    delta_of: Option<String>,
}

impl Transcript {
    pub fn new(places: HomePlaces) -> Self {
        Self { places, threads: Vec::new() }
    }

    pub fn lines(&mut self, messages: impl Iterator<Item = IncomingMessage>) -> String {
        let mut lines: Vec<TranscriptLine> = Vec::new();
        for message in messages {
            let line = self.line(&message);
            match lines.last_mut() {
                Some(last) if last.delta_of.is_some() && last.delta_of == line.delta_of => {
                    last.body.push_str(&line.body);
                }
                _ => lines.push(line),
            }
        }
        let text: Vec<_> = lines.into_iter().map(|line| self.finish(line)).collect();
        text.join("\n")
    }

    fn line(&mut self, message: &IncomingMessage) -> TranscriptLine {
        let IncomingMessage { method, id, params, .. } = message;
        let arrow = if id.is_some() { "?" } else { "←" };
        let mut head = format!("{arrow} {method}");
        if let Some(thread) = self.other_thread(params) {
            head.push_str(&format!(" {thread}"));
        }
        match params.get("delta").and_then(Value::as_str) {
            Some(delta) => {
                let item = params.get("itemId").map(Value::to_string).unwrap_or_default();
                TranscriptLine { delta_of: Some(format!("{head} {item}")), head, body: delta.to_owned() }
            }
            None => TranscriptLine { head, body: summary(method, params), delta_of: None },
        }
    }

    fn finish(&self, line: TranscriptLine) -> String {
        let body = if line.delta_of.is_some() { quoted(&line.body) } else { line.body };
        let text = format!("{} {body}", line.head).trim_end().replace('\n', "\\n");
        let hidden = [(&self.places.home, "HOME"), (&self.places.workspace, "WORK")];
        hidden.iter().fold(text, |text, (path, name)| text.replace(&*path.to_string_lossy(), name))
    }

    fn other_thread(&mut self, params: &Value) -> Option<String> {
        let id = params.get("threadId").or(params.pointer("/thread/id"))?.as_str()?;
        let at = self.threads.iter().position(|known| known == id).unwrap_or_else(|| {
            self.threads.push(id.to_owned());
            self.threads.len() - 1
        });
        (at > 0).then(|| format!("thread-{}", at + 1))
    }
}

fn summary(method: &str, params: &Value) -> String {
    let at = |pointer: &str| params.pointer(pointer).map(plain).unwrap_or_default();
    match method {
        ItemStarted::NAME | ItemCompleted::NAME => item(params.get("item").unwrap_or(&Value::Null)),
        ThreadStatusChanged::NAME => words([at("/status/type"), at("/status/activeFlags")]),
        ErrorReported::NAME => {
            let retried = if at("/willRetry") == "true" { "will retry" } else { "" };
            words([quoted(&at("/error/message")), retried.to_owned()])
        }
        _ if params.get("turn").is_some() => {
            words([at("/turn/status"), params.pointer("/turn/error/message").map(text).unwrap_or_default()])
        }
        _ if params.get("thread").is_some() => at("/thread/status/type"),
        _ => scalars(params),
    }
}

fn item(item: &Value) -> String {
    let at = |name: &str| item.get(name).filter(|value| !value.is_null());
    let kind = at("type").map(plain).unwrap_or_default();
    let list = |name: &str| at(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let rest = match kind.as_str() {
        "agentMessage" | "plan" => at("text").map(text).unwrap_or_default(),
        "userMessage" => words(list("content").iter().map(|part| part.get("text").map_or(plain(part), text))),
        "reasoning" => words(list("summary").iter().map(text)),
        "commandExecution" => words([
            at("command").map(text).unwrap_or_default(),
            at("status").map(plain).unwrap_or_default(),
            at("exitCode").map(|code| format!("exit {code}")).unwrap_or_default(),
        ]),
        "fileChange" => words(
            at("status")
                .map(plain)
                .into_iter()
                .chain(list("changes").iter().map(|change| change.get("path").map(text).unwrap_or_default())),
        ),
        _ => scalars(item),
    };
    words([kind, rest])
}

/// Returns all members except ids, times, structures and nulls, as `name=value`.
fn scalars(value: &Value) -> String {
    let empty = Map::new();
    let members = value.as_object().unwrap_or(&empty);
    let shown = members.iter().filter(|(name, value)| {
        let varies = ["id", "type"].contains(&name.as_str())
            || ["Id", "Ids", "At", "Ms"].iter().any(|end| name.ends_with(end));
        !varies && !value.is_null() && !value.is_object() && !value.is_array()
    });
    words(shown.map(|(name, value)| format!("{name}={}", plain(value))))
}

fn words(parts: impl IntoIterator<Item = String>) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

fn text(value: &Value) -> String {
    quoted(&plain(value))
}

fn quoted(text: &str) -> String {
    format!("<{text}>")
}

/// Returns a string without quotes, a list with commas, anything else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(elements) => elements.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn transcript(messages: Vec<(&str, Value)>) -> String {
        let places = HomePlaces { home: "/h/home".into(), workspace: "/h/work".into() };
        let incoming = messages.into_iter().map(|(method, params)| IncomingMessage {
            method: method.to_owned(),
            id: None,
            params,
            place: Default::default(),
        });
        Transcript::new(places).lines(incoming)
    }

    #[test]
    fn lines_omit_what_varies_between_runs() {
        let item = |item: Value| json!({ "threadId": "t", "turnId": "u", "item": item, "startedAtMs": 5 });
        let lines = transcript(vec![
            ("turn/started", json!({ "threadId": "t", "turn": { "id": "u", "status": "inProgress" } })),
            ("item/started", item(json!({ "type": "agentMessage", "id": "i", "text": "" }))),
            ("item/agentMessage/delta", json!({ "threadId": "t", "itemId": "i", "delta": "Let me " })),
            ("item/agentMessage/delta", json!({ "threadId": "t", "itemId": "i", "delta": "look\nnow" })),
            ("item/agentMessage/delta", json!({ "threadId": "t", "itemId": "j", "delta": "other" })),
            (
                "item/completed",
                item(json!({ "type": "commandExecution", "command": "ls /h/work", "status": "completed",
                    "exitCode": 0, "durationMs": 3 })),
            ),
            (
                "thread/status/changed",
                json!({ "threadId": "s", "status": { "type": "active", "activeFlags": ["waitingOnApproval"] } }),
            ),
            ("thread/name/updated", json!({ "threadId": "s", "threadName": "Tidy" })),
            (
                "turn/completed",
                json!({ "threadId": "t", "turn": { "status": "failed", "error": { "message": "no" } } }),
            ),
        ]);
        assert_eq!(
            lines,
            "← turn/started inProgress\n\
             ← item/started agentMessage <>\n\
             ← item/agentMessage/delta <Let me look\\nnow>\n\
             ← item/agentMessage/delta <other>\n\
             ← item/completed commandExecution <ls WORK> completed exit 0\n\
             ← thread/status/changed thread-2 active waitingOnApproval\n\
             ← thread/name/updated thread-2 threadName=Tidy\n\
             ← turn/completed failed <no>"
        );
    }
}
