//! The model of all servers. The prompt of a turn determines the answer.

use std::{collections::HashMap, time::Duration};

use codicil_testkit::{Reply, Script};
use serde_json::json;

/// The beginning of a prompt. Requests are searched for it as text, because parsing them takes time on the
/// cores that the servers are measured on.
const MARK: &str = "bench: ";

/// A prompt for a short, immediate answer.
pub const HELLO: &str = "bench: deltas=5 bytes=20 ms=0";

/// Returns a prompt for `deltas` deltas of `bytes` each, spread over a time.
pub fn text(deltas: usize, bytes: usize, time: Duration) -> String {
    format!("{MARK}deltas={deltas} bytes={bytes} ms={}", time.as_millis())
}

/// Returns a prompt for that many calls of a shell command, one after the other, and a short answer.
pub fn calls(count: usize) -> String {
    format!("{HELLO} count={count}")
}

/// Returns a script that answers each request as its last prompt says. Long answers are created once.
pub fn script() -> Script {
    let mut made = HashMap::<String, Reply>::new();
    Script::new().respond_with(move |request| {
        let body = str::from_utf8(request.bytes()).unwrap_or_default();
        let (prompt, since) = last_prompt(body, MARK);
        let done = since.matches("\"function_call_output\"").count();
        if done < parameter(prompt, "count=").unwrap_or(0) {
            return shell_call(body, format!("call_{}_{done}", request.number()));
        }
        made.entry(prompt.to_owned()).or_insert_with_key(|prompt| text_reply(prompt)).clone()
    })
}

/// Returns the words of the last prompt that begins with `mark`, and what comes after it.
pub fn last_prompt<'b>(body: &'b str, mark: &str) -> (&'b str, &'b str) {
    let prompt = body.rfind(mark).and_then(|at| body.get(at + mark.len()..));
    prompt.and_then(|rest| rest.split_once('"')).unwrap_or_default()
}

fn text_reply(prompt: &str) -> Reply {
    let deltas = parameter(prompt, "deltas=").unwrap_or(5);
    let piece = "x".repeat(parameter(prompt, "bytes=").unwrap_or(20));
    let time = Duration::from_millis(parameter(prompt, "ms=").unwrap_or(0) as u64);
    let reply = Reply::new();
    let reply =
        if time.is_zero() { reply } else { reply.pace(time / deltas.saturating_sub(1).max(1) as u32) };
    reply.say_deltas(vec![piece; deltas])
}

/// Calls the shell tool that this request offers.
fn shell_call(body: &str, id: String) -> Reply {
    let offers = |tool: &str| body.contains(&format!("\"name\":\"{tool}\""));
    let reply = if offers("exec_command") {
        Reply::new().call("exec_command", json!({ "cmd": "true" }))
    } else if offers("shell_command") {
        Reply::new().call("shell_command", json!({ "command": "true" }))
    } else {
        Reply::new().call("shell", json!({ "command": ["true"] }))
    };
    reply.call_id(id)
}

fn parameter(prompt: &str, key: &str) -> Option<usize> {
    prompt.split_whitespace().find_map(|parameter| parameter.strip_prefix(key)?.parse().ok())
}
