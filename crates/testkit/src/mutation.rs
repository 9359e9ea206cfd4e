//! Generates corrupted messages from a seed, for tests of robustness.
//!
//! They begin as messages of the protocol and are then mutated, as JSON and as bytes. A server must answer
//! those that still have a usable id, and survive the others. A mutated message is harmless: methods that
//! change files or run programs never get params that could be executed.

use bytes::Bytes;
use codicil_protocol::{CLIENT_REQUESTS, rpc::RequestId};
use fastrand::Rng;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};

/// Methods that change something outside the server's home, or use the network.
const DANGEROUS: &[&str] = &[
    "account/login/start",
    "command/exec",
    "externalAgentConfig/detect",
    "externalAgentConfig/import",
    "feedback/upload",
    "fs/copy",
    "fs/createDirectory",
    "fs/remove",
    "fs/writeFile",
    "mcpServer/oauth/login",
    "plugin/install",
    "plugin/uninstall",
    "thread/shellCommand",
    "windowsSandbox/setupStart",
];

/// Fragments that parsers handle specially.
const ODD_FRAGMENTS: &[&[u8]] = &[
    b"null",
    b"{}",
    b"[]",
    b"\"\"",
    b"-0",
    b"1e999",
    b"1.5",
    b"9223372036854775808",
    b"\\u0000",
    b"\\ud800",
    b"\\",
    b"\"",
    b",",
    b":",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\xff",
    b"\xc3",
    b"\xf0\x9f",
    b"\0",
    b"\t",
    b"\r",
    b"true",
    b"\xef\xbb\xbf",
    b"//",
    b"NaN",
    b"\"id\":",
    b"\"params\":",
];

/// An endless iterator of messages, determined by the seed.
pub struct MessageMutations {
    random: Rng,
    originals: Vec<Value>,
    made: i64,
}

impl MessageMutations {
    pub fn new(seed: u64) -> Self {
        Self { random: Rng::with_seed(seed), originals: originals(), made: 0 }
    }

    fn next_message(&mut self) -> Vec<u8> {
        let at = self.random.usize(..self.originals.len());
        let mut message = self.originals.get(at).cloned().unwrap_or_default();
        self.made += 1;
        let id = match self.random.u8(..8) {
            0 => json!(format!("s{}", self.made)),
            1 => self.odd_value(),
            _ => json!(self.made),
        };
        message.as_object_mut().into_iter().for_each(|members| drop(members.insert("id".into(), id.clone())));
        if self.random.bool() {
            let depth = self.random.u8(1..6);
            self.mutate_value(&mut message, depth);
        }
        let mut text = message.to_string().into_bytes();
        for _ in 0..self.random.u8(..4) {
            self.mutate_bytes(&mut text);
        }
        // One message, one line.
        text.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
        text
    }

    /// Replaces a value somewhere inside. The result is still JSON.
    fn mutate_value(&mut self, value: &mut Value, depth: u8) {
        let parts = match value {
            Value::Object(members) => members.len(),
            Value::Array(elements) => elements.len(),
            _ => 0,
        };
        if depth == 0 || parts == 0 {
            *value = self.odd_value();
            return;
        }
        let at = self.random.usize(..parts);
        let part = match value {
            Value::Object(members) => members.values_mut().nth(at),
            Value::Array(elements) => elements.get_mut(at),
            _ => None,
        };
        part.into_iter().for_each(|part| self.mutate_value(part, depth - 1));
    }

    fn odd_value(&mut self) -> Value {
        match self.random.u8(..12) {
            0 => Value::Null,
            1 => json!(self.random.bool()),
            2 => json!(self.random.i64(..)),
            3 => json!(self.random.f64() * 1e300),
            4 => json!(u64::MAX),
            5 => json!("x".repeat(self.random.usize(..5000))),
            6 => json!("\u{0}\u{7f}\u{2028}\u{10ffff}\"\\/"),
            7 => json!([]),
            8 => json!({}),
            9 => json!({ "type": "text", "text": "t" }),
            10 => nested(self.random.usize(..200)),
            _ => json!("/nonexistent/codicil"),
        }
    }

    /// Changes bytes. The result may be anything.
    fn mutate_bytes(&mut self, text: &mut Vec<u8>) {
        let at = self.random.usize(..=text.len());
        match self.random.u8(..7) {
            0 => text.truncate(at),
            1 => drop(text.drain(..at)),
            2 => text.insert(at, self.random.u8(..)),
            3 => {
                let end = (at + self.random.usize(..20)).min(text.len());
                drop(text.drain(at..end));
            }
            4 => {
                if let Some(byte) = text.get_mut(at) {
                    *byte ^= 1 << self.random.u8(..8);
                }
            }
            5 => {
                let copied: Vec<_> = text.iter().copied().skip(at).take(self.random.usize(..40)).collect();
                let to = self.random.usize(..=text.len());
                drop(text.splice(to..to, copied));
            }
            _ => {
                let fragment = self.random.choice(ODD_FRAGMENTS).copied().unwrap_or_default();
                drop(text.splice(at..at, fragment.iter().copied()));
            }
        }
    }
}

impl Iterator for MessageMutations {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        loop {
            let message = self.next_message();
            if is_harmless(&message) {
                return Some(message.into());
            }
        }
    }
}

/// Returns the id that a server must answer, if the message is a valid request.
pub(crate) fn usable_id(message: &[u8]) -> Option<RequestId> {
    #[derive(Deserialize)]
    struct MutatedRequest {
        id: Value,
        #[serde(rename = "method")]
        _method: String,
        #[serde(rename = "params")]
        _params: Option<IgnoredAny>,
        result: Option<IgnoredAny>,
        error: Option<IgnoredAny>,
    }
    let text = std::str::from_utf8(message).ok()?;
    let request: MutatedRequest = serde_json::from_str(text).ok()?;
    let is_answer = request.result.is_some() || request.error.is_some();
    serde_json::from_value(request.id).ok().filter(|_| !is_answer)
}

/// Returns whether a message cannot cause harm: a dangerous method must have params that cannot be executed.
fn is_harmless(message: &[u8]) -> bool {
    let Ok(message) = serde_json::from_slice::<Value>(message) else { return true };
    let dangerous = message.get("method").and_then(Value::as_str).is_some_and(|m| DANGEROUS.contains(&m));
    !dangerous || !message.get("params").is_some_and(Value::is_object)
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(Value::Null, |inner, at| if at % 2 == 0 { json!([inner]) } else { json!({ "a": inner }) })
}

/// Returns valid messages of clients, at least one for every method.
fn originals() -> Vec<Value> {
    let thread = "0199a213-81c0-7800-8aa1-bbab2a035a53";
    let mut messages: Vec<_> = CLIENT_REQUESTS
        .iter()
        .map(|method| {
            let is_dangerous = DANGEROUS.contains(&method.name);
            let params = if is_dangerous { json!([5]) } else { json!({ "threadId": thread }) };
            json!({ "method": method.name, "params": params })
        })
        .collect();
    messages.extend([
        json!({ "jsonrpc": "2.0", "method": "initialize", "params": {
            "clientInfo": { "name": "fuzz", "title": null, "version": "1" },
            "capabilities": { "experimentalApi": true, "optOutNotificationMethods": ["thread/started"] },
        } }),
        json!({ "method": "thread/start", "params": {
            "model": "m", "cwd": "/nonexistent/codicil", "approvalPolicy": "never", "sandbox": "read-only",
            "config": { "a.b": 1 }, "ephemeral": true, "personality": "friendly", "serviceTier": null,
            "dynamicTools": [{ "name": "a", "description": "b", "inputSchema": { "type": "object" } }],
        } }),
        json!({ "method": "thread/list", "params": {
            "cursor": null, "limit": 5, "sortKey": "created_at", "sourceKinds": ["cli"], "searchTerm": "x",
        } }),
        json!({ "method": "turn/start", "params": {
            "threadId": thread, "model": "m", "effort": "low", "summary": "auto", "outputSchema": {},
            "input": [
                { "type": "text", "text": "hello", "text_elements": [{ "byteRange": { "start": 0, "end": 1 } }] },
                { "type": "image", "url": "data:," },
                { "type": "localImage", "path": "/nonexistent/codicil.png" },
                { "type": "mention", "name": "n", "path": "app://n" },
            ],
            "approvalPolicy": { "granular": { "sandbox_approval": true, "rules": true, "mcp_elicitations": true } },
            "sandboxPolicy": { "type": "workspaceWrite", "writableRoots": ["/nonexistent"], "networkAccess": true },
            "collaborationMode": { "mode": "plan", "settings": { "model": "m" } },
        } }),
        json!({ "method": "thread/metadata/update", "params": {
            "threadId": thread, "gitInfo": { "sha": null, "branch": "b" },
        } }),
        json!({ "method": "review/start", "params": {
            "threadId": thread, "target": { "type": "custom", "instructions": "look" }, "delivery": "detached",
        } }),
        json!({ "method": "thread/resume", "params": {
            "threadId": thread, "history": [{ "type": "message", "role": "user", "content": [] }],
        } }),
        json!({ "method": "mock/experimentalMethod", "params": { "value": "v" } }),
        json!({ "method": "no/such/method", "params": {} }),
        json!({ "method": "initialized" }),
        json!({ "result": { "decision": "accept" } }),
        json!({ "error": { "code": -1, "message": "no", "data": [1] } }),
        json!({ "method": "thread/loaded/list" }),
        json!({ "method": "thread/loaded/list", "params": null }),
    ]);
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_messages() {
        let first: Vec<_> = MessageMutations::new(7).take(500).collect();
        assert_eq!(first, MessageMutations::new(7).take(500).collect::<Vec<_>>());
        assert_ne!(first, MessageMutations::new(8).take(500).collect::<Vec<_>>());
    }

    #[test]
    fn messages_are_varied_and_harmless() {
        let messages: Vec<_> = MessageMutations::new(1).take(5000).collect();
        let answerable = messages.iter().filter(|message| usable_id(message).is_some()).count();
        let json = messages.iter().filter(|m| serde_json::from_slice::<Value>(m).is_ok()).count();
        assert!(answerable > 1000, "{answerable}");
        assert!(json - answerable > 100 && messages.len() - json > 1000, "{json}");
        assert!(messages.iter().all(|message| is_harmless(message) && !message.contains(&b'\n')));
    }

    #[test]
    fn only_requests_have_usable_ids() {
        let check = |message: &str, expected: Option<RequestId>| {
            assert_eq!(usable_id(message.as_bytes()), expected, "{message}");
        };
        check(r#"{"id":5,"method":"m"}"#, Some(RequestId::Integer(5)));
        check(r#"{"id":"5","method":"m","params":[[]]}"#, Some(RequestId::String("5".into())));
        check(r#"{"id":null,"method":"m"}"#, None);
        check(r#"{"id":1.5,"method":"m"}"#, None);
        check(r#"{"id":5}"#, None);
        check(r#"{"id":5,"method":5}"#, None);
        check(r#"{"id":5,"result":{}}"#, None);
        check(r#"{"id":5,"id":6,"method":"m"}"#, None);
        check(r#"{"id":5,"method":"m""#, None);
    }
}
