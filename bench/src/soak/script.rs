//! The model of the soak. A prompt `soak: KIND …` determines what it does.

use std::time::Duration;

use codicil_testkit::{Reply, Script};
use serde_json::json;

use crate::model::last_prompt;

/// The beginning of a prompt.
const MARK: &str = "soak: ";

/// Number of deltas of an answer that takes a while.
const SLOW_DELTAS: usize = 40;

/// What a turn of the soak does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnKind {
    /// An immediate answer.
    Text,
    /// An answer that takes a second.
    Slow,
    /// A command in the sandbox.
    Command,
    /// A command that needs an approval.
    Asking,
    /// A command that never ends by itself.
    Endless,
    /// A patch.
    Patch,
    /// A call of an MCP server's tool.
    Mcp,
    /// An answer that never comes.
    Hanging,
}

impl TurnKind {
    const ALL: [(Self, &str); 8] = [
        (Self::Text, "text"),
        (Self::Slow, "slow"),
        (Self::Command, "command"),
        (Self::Asking, "asking"),
        (Self::Endless, "endless"),
        (Self::Patch, "patch"),
        (Self::Mcp, "mcp"),
        (Self::Hanging, "hanging"),
    ];

    /// Returns the prompt. The tag is for commands and files.
    pub fn prompt(self, tag: &str) -> String {
        let name = Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("text", |(_, name)| name);
        format!("{MARK}{name} {tag}")
    }

    fn named(wanted: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, name)| *name == wanted).map(|(kind, _)| *kind)
    }
}

pub fn script() -> Script {
    Script::new().respond_with(|request| {
        let body = str::from_utf8(request.bytes()).unwrap_or_default();
        let (prompt, since) = last_prompt(body, MARK);
        let mut words = prompt.split_whitespace();
        let kind = words.next().and_then(TurnKind::named).unwrap_or(TurnKind::Text);
        let tag = words.next().unwrap_or_default();
        if since.contains("call_output\"") {
            return Reply::new().say("That is done.");
        }
        reply(kind, tag, request.number())
    })
}

fn reply(kind: TurnKind, tag: &str, number: u64) -> Reply {
    let reply = Reply::new();
    let reply = match kind {
        TurnKind::Text => return reply.think("A greeting.").say("Hello to you. How can I help with this?"),
        TurnKind::Slow => {
            return reply.pace(Duration::from_millis(25)).say_deltas(vec!["a few words "; SLOW_DELTAS]);
        }
        TurnKind::Hanging => return reply.hang(),
        TurnKind::Command => reply.call("exec_command", json!({ "cmd": "seq 1 500; pwd" })),
        TurnKind::Asking => reply.call(
            "exec_command",
            json!({ "cmd": "touch approved", "sandbox_permissions": "require_escalated", "justification": "May I?" }),
        ),
        TurnKind::Endless => reply.call("exec_command", json!({ "cmd": format!("sleep 1000; : {tag}") })),
        TurnKind::Patch => reply.custom_call(
            "apply_patch",
            format!("*** Begin Patch\n*** Add File: {tag}\n+one line\n*** End Patch"),
        ),
        TurnKind::Mcp => reply.call("mcp__soak__echo", json!({ "text": tag })),
    };
    reply.call_id(format!("call_{number}"))
}
