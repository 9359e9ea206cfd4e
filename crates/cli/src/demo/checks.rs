//! What the demo claims, and whether it is true.

use std::fs;

use codicil_protocol::{CommandExecutionStatus, PatchApplyStatus, Thread, ThreadItem};

use super::place::Place;

/// One claim.
#[derive(Debug, PartialEq, Eq)]
pub struct Check {
    pub claim: &'static str,
    /// What makes it true, or what was found instead.
    pub result: Result<String, String>,
}

/// What can be seen of the first turn.
pub struct Seen<'a> {
    pub items: &'a [ThreadItem],
    /// Pieces in which messages came.
    pub pieces: usize,
    /// Commands that were asked about, and allowed.
    pub asked: &'a [String],
}

/// Looks at the turn and at the disk.
pub fn of_turn(seen: &Seen<'_>, place: &Place) -> Vec<Check> {
    vec![
        Check { claim: "the answer was streamed", result: streamed(seen) },
        Check { claim: "a command ran in the sandbox", result: sandboxed(seen) },
        Check { claim: "the sandbox kept a command from writing outside", result: fenced(seen, place) },
        Check { claim: "a patch changed files", result: patched(seen, place) },
        Check { claim: "what the agent must not do by itself was asked for", result: approved(seen, place) },
    ]
}

/// Compares what was streamed with what another server found stored.
pub fn of_history(stored: &Thread, items: &[ThreadItem]) -> Check {
    let found: Vec<&ThreadItem> = stored.turns.iter().flat_map(|turn| &turn.items).collect();
    let same = found.iter().copied().eq(items.iter());
    let result = match same {
        true => Ok(format!("{} items, the same as were streamed", found.len())),
        false => Err(format!("{} items were stored and {} streamed", found.len(), items.len())),
    };
    Check { claim: "another server found the thread as it was", result }
}

fn streamed(seen: &Seen<'_>) -> Result<String, String> {
    match seen.pieces {
        0 | 1 => Err("it came in one piece, or not at all".to_owned()),
        pieces => Ok(format!("in {pieces} pieces")),
    }
}

fn command<'a>(seen: &'a Seen<'_>, part: &str) -> Result<&'a ThreadItem, String> {
    let found = seen
        .items
        .iter()
        .find(|item| matches!(item, ThreadItem::CommandExecution { command, .. } if command.contains(part)));
    found.ok_or_else(|| "the server ran no such command".to_owned())
}

fn sandboxed(seen: &Seen<'_>) -> Result<String, String> {
    match command(seen, "ls -A")? {
        ThreadItem::CommandExecution { exit_code: Some(0), .. } => Ok("exit 0".to_owned()),
        ThreadItem::CommandExecution { aggregated_output, .. } => Err(said(aggregated_output)),
        _ => Err("no command".to_owned()),
    }
}

fn fenced(seen: &Seen<'_>, place: &Place) -> Result<String, String> {
    if place.outside("outside.txt").exists() {
        return Err("it wrote outside of its workspace".to_owned());
    }
    match command(seen, "outside.txt")? {
        ThreadItem::CommandExecution {
            status: CommandExecutionStatus::Failed, aggregated_output, ..
        } => Ok(said(aggregated_output)),
        _ => Err("the command did not fail".to_owned()),
    }
}

fn patched(seen: &Seen<'_>, place: &Place) -> Result<String, String> {
    let is_done = seen
        .items
        .iter()
        .any(|item| matches!(item, ThreadItem::FileChange { status: PatchApplyStatus::Completed, .. }));
    if !is_done {
        return Err("no patch was applied".to_owned());
    }
    match fs::read_to_string(place.work().join("greeting.txt")) {
        Ok(text) if text == "Hello, world!\n" => Ok("greeting.txt says \"Hello, world!\"".to_owned()),
        Ok(text) => Err(format!("greeting.txt says {text:?}")),
        Err(error) => Err(format!("greeting.txt cannot be read: {error}")),
    }
}

fn approved(seen: &Seen<'_>, place: &Place) -> Result<String, String> {
    match (seen.asked, place.outside("stamp.txt").exists()) {
        ([], _) => Err("nothing was asked".to_owned()),
        ([_, ..], true) => Ok("asked, allowed, done".to_owned()),
        ([_, ..], false) => Err("it was allowed and not done".to_owned()),
    }
}

fn said(output: &Option<String>) -> String {
    let text = output.as_deref().unwrap_or_default().trim();
    text.lines().last().unwrap_or("no output").to_owned()
}
