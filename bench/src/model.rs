//! The model that every server talks to: the prompt of a turn says what it answers.

use std::{collections::HashMap, time::Duration};

use codicil_testkit::{Recorded, Reply, Script};
use serde_json::json;

/// Words of a prompt that asks for `deltas` pieces of text of `bytes` each, spread over a time.
pub fn text(deltas: usize, bytes: usize, time: Duration) -> String {
    format!("say deltas={deltas} bytes={bytes} ms={}", time.as_millis())
}

/// Words of a prompt that asks for that many calls of a shell command, one after the other.
pub fn calls(count: usize) -> String {
    format!("call count={count}")
}

/// Answers each request by the words of its last prompt. Long answers are made once.
pub fn script() -> Script {
    let mut made = HashMap::<String, Reply>::new();
    Script::new().respond_with(move |request| {
        let prompt = request.last_user_text().unwrap_or_default();
        let calls = word(&prompt, "count=").unwrap_or(0);
        let done = calls_since_prompt(request);
        if done < calls {
            return shell_call(request, done);
        }
        made.entry(prompt).or_insert_with_key(|prompt| spoken(prompt)).clone()
    })
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
fn shell_call(request: &Recorded, number: usize) -> Reply {
    let id = format!("call_{}_{number}", request.number());
    let offered = request.tools();
    let reply = Reply::new();
    let reply = match offered.iter().find(|tool| ["exec_command", "shell_command", "shell"].contains(tool)) {
        Some(&"shell") => reply.call("shell", json!({ "command": ["true"] })),
        Some(&"shell_command") => reply.call("shell_command", json!({ "command": "true" })),
        _ => reply.call("exec_command", json!({ "cmd": "true" })),
    };
    reply.call_id(id)
}

fn calls_since_prompt(request: &Recorded) -> usize {
    let is_prompt = |item: &&serde_json::Value| item.get("role").is_some_and(|role| role == "user");
    let since = request.input().iter().rev().take_while(|item| !is_prompt(item));
    since.filter(|item| item.get("output").is_some()).count()
}

fn word(prompt: &str, key: &str) -> Option<usize> {
    prompt.split_whitespace().find_map(|word| word.strip_prefix(key)?.parse().ok())
}
