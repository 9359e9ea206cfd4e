//! What the demo claims, and whether it is true.

use std::fs;

use codicil_protocol::{CommandExecutionStatus, PatchApplyStatus, Thread, ThreadItem};

use super::place::DemoHome;

/// One claim.
#[derive(Debug, PartialEq, Eq)]
pub struct DemoCheck {
    pub claim: &'static str,
    pub verdict: CheckVerdict,
}

/// Whether a claim is true.
#[derive(Debug, PartialEq, Eq)]
pub enum CheckVerdict {
    /// With what makes it so.
    True(String),
    /// With what was found instead.
    False(String),
    /// This machine lacks what it needs.
    NotHere(String),
}

impl From<Result<String, String>> for CheckVerdict {
    fn from(found: Result<String, String>) -> Self {
        found.map_or_else(Self::False, Self::True)
    }
}

/// What can be seen of the first turn.
pub struct TurnEvidence<'a> {
    pub items: &'a [ThreadItem],
    /// Pieces in which messages came.
    pub pieces: usize,
    /// Commands that were asked about, and allowed.
    pub asked: &'a [String],
    /// Why commands cannot be confined here, if they cannot.
    pub no_sandbox: Option<&'a str>,
}

/// Looks at the turn and at the disk.
pub fn of_turn(seen: &TurnEvidence<'_>, place: &DemoHome) -> Vec<DemoCheck> {
    let in_sandbox = |check: Result<String, String>| match seen.no_sandbox {
        Some(reason) => CheckVerdict::NotHere(reason.to_owned()),
        None => check.into(),
    };
    let claims = [
        ("the answer was streamed", streamed(seen).into()),
        ("a command ran in the sandbox", in_sandbox(sandboxed(seen))),
        ("the sandbox kept a command from writing outside", in_sandbox(fenced(seen, place))),
        ("a patch changed files", patched(seen, place).into()),
        ("what the agent must not do by itself was asked for", approved(seen, place).into()),
    ];
    claims.into_iter().map(|(claim, verdict)| DemoCheck { claim, verdict }).collect()
}

/// Compares what was streamed with what another server found stored.
pub fn of_history(stored: &Thread, items: &[ThreadItem]) -> DemoCheck {
    let found: Vec<&ThreadItem> = stored.turns.iter().flat_map(|turn| &turn.items).collect();
    let verdict = match found.iter().copied().eq(items.iter()) {
        true => CheckVerdict::True(format!("{} items, the same as were streamed", found.len())),
        false => {
            CheckVerdict::False(format!("{} items were stored and {} streamed", found.len(), items.len()))
        }
    };
    DemoCheck { claim: "another server found the thread as it was", verdict }
}

fn streamed(seen: &TurnEvidence<'_>) -> Result<String, String> {
    match seen.pieces {
        0 | 1 => Err("it came in one piece, or not at all".to_owned()),
        pieces => Ok(format!("in {pieces} pieces")),
    }
}

fn command<'a>(seen: &'a TurnEvidence<'_>, part: &str) -> Result<&'a ThreadItem, String> {
    let found = seen
        .items
        .iter()
        .find(|item| matches!(item, ThreadItem::CommandExecution { command, .. } if command.contains(part)));
    found.ok_or_else(|| "the server ran no such command".to_owned())
}

fn sandboxed(seen: &TurnEvidence<'_>) -> Result<String, String> {
    match command(seen, "ls -A")? {
        ThreadItem::CommandExecution { exit_code: Some(0), .. } => Ok("exit 0".to_owned()),
        ThreadItem::CommandExecution { aggregated_output, .. } => Err(said(aggregated_output)),
        _ => Err("no command".to_owned()),
    }
}

fn fenced(seen: &TurnEvidence<'_>, place: &DemoHome) -> Result<String, String> {
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

fn patched(seen: &TurnEvidence<'_>, place: &DemoHome) -> Result<String, String> {
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

fn approved(seen: &TurnEvidence<'_>, place: &DemoHome) -> Result<String, String> {
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
