//! The model that every server talks to: the prompt of a turn says what it answers.

use std::{collections::HashMap, time::Duration};

use codicil_testkit::{Reply, Script};
use serde_json::json;

/// What a prompt begins with. The request is searched for it as text, because a model that reads its requests whole
/// takes time on the cores that the servers are measured on.
const MARK: &str = "bench: ";

/// A prompt for a short answer at once.
pub const HELLO: &str = "bench: deltas=5 bytes=20 ms=0";

/// A prompt for `deltas` pieces of text of `bytes` each, spread over a time.
pub fn text(deltas: usize, bytes: usize, time: Duration) -> String {
    format!("{MARK}deltas={deltas} bytes={bytes} ms={}", time.as_millis())
}

/// A prompt for that many calls of a shell command, one after the other, and a short answer.
pub fn calls(count: usize) -> String {
    format!("{HELLO} count={count}")
}

/// Answers each request by the words of its last prompt. Long answers are made once.
pub fn script() -> Script {
    let mut made = HashMap::<String, Reply>::new();
    Script::new().respond_with(move |request| {
        let body = str::from_utf8(request.bytes()).unwrap_or_default();
        let (prompt, since) = last_prompt(body);
        let done = since.matches("\"function_call_output\"").count();
        if done < word(prompt, "count=").unwrap_or(0) {
            return shell_call(body, format!("call_{}_{done}", request.number()));
        }
        made.entry(prompt.to_owned()).or_insert_with_key(|prompt| spoken(prompt)).clone()
    })
}

/// The words of the last prompt, and what comes after them.
fn last_prompt(body: &str) -> (&str, &str) {
    let prompt = body.rfind(MARK).and_then(|at| body.get(at..));
    prompt.and_then(|rest| rest.split_once('"')).unwrap_or_default()
}

fn spoken(prompt: &str) -> Reply {
    let deltas = word(prompt, "deltas=").unwrap_or(5);
    let piece = "x".repeat(word(prompt, "bytes=").unwrap_or(20));
    let time = Duration::from_millis(word(prompt, "ms=").unwrap_or(0) as u64);
    let reply = Reply::new();
    let reply =
        if time.is_zero() { reply } else { reply.pace(time / deltas.saturating_sub(1).max(1) as u32) };
    reply.say_deltas(vec![piece; deltas])
}

/// Calls the tool for shell commands that this request offers, in that tool's own words.
fn shell_call(body: &str, id: String) -> Reply {
    let offers = |tool: &str| body.contains(&format!("\"name\":\"{tool}\""));
    let reply = match () {
        () if offers("exec_command") => Reply::new().call("exec_command", json!({ "cmd": "true" })),
        () if offers("shell_command") => Reply::new().call("shell_command", json!({ "command": "true" })),
        () => Reply::new().call("shell", json!({ "command": ["true"] })),
    };
    reply.call_id(id)
}

fn word(prompt: &str, key: &str) -> Option<usize> {
    prompt.split_whitespace().find_map(|word| word.strip_prefix(key)?.parse().ok())
}
