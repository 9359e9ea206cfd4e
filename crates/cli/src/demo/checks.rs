//! Checks the claims of the demo.

use std::fs;

use codicil_protocol::{CommandExecutionStatus, PatchApplyStatus, Thread, ThreadItem};

use super::home::DemoHome;

/// A claim with its verdict.
#[derive(Debug, PartialEq, Eq)]
pub struct DemoCheck {
    pub claim: &'static str,
    pub verdict: CheckVerdict,
}

/// Whether a claim is true.
#[derive(Debug, PartialEq, Eq)]
pub enum CheckVerdict {
    /// With the evidence.
    True(String),
    /// With what was found instead.
    False(String),
    /// The machine lacks what is needed for it, with the reason.
    Unavailable(String),
}

impl From<Result<String, String>> for CheckVerdict {
    fn from(found: Result<String, String>) -> Self {
        found.map_or_else(Self::False, Self::True)
    }
}

/// What was observed of the first turn.
pub struct TurnEvidence<'a> {
    /// The items in the order in which they were reported as completed.
    pub items: &'a [ThreadItem],
    /// Number of message deltas.
    pub deltas: usize,
    /// What happened to the questions of the turn.
    pub questions: &'a [QuestionEvidence],
    /// Why there is no sandbox on this machine, if there is none.
    pub no_sandbox: Option<&'a str>,
}

/// What was observed of a question whose server was killed.
pub struct QuestionEvidence {
    /// Identities of the open questions before the kill.
    pub before: Vec<String>,
    /// Identities of the open questions of the next server.
    pub after: Vec<String>,
}

/// Checks the first turn and its effects on the disk.
pub fn check_turn(evidence: &TurnEvidence<'_>, home: &DemoHome) -> Vec<DemoCheck> {
    let in_sandbox = |check: Result<String, String>| match evidence.no_sandbox {
        Some(reason) => CheckVerdict::Unavailable(reason.to_owned()),
        None => check.into(),
    };
    let claims = [
        ("the answer was streamed", streamed(evidence).into()),
        ("a command ran in the sandbox", in_sandbox(sandboxed(evidence))),
        ("the sandbox kept a command from writing outside", in_sandbox(blocked(evidence, home))),
        ("a patch changed files", patched(evidence, home).into()),
        ("approval for a command outside the sandbox was asked for", approved(evidence).into()),
        ("the question outlived the server that asked it", outlived(evidence).into()),
        ("the approved command ran once", ran_once(home).into()),
    ];
    claims.into_iter().map(|(claim, verdict)| DemoCheck { claim, verdict }).collect()
}

/// Compares the items that were streamed, by two servers, with those of the store.
pub fn check_history(stored: &Thread, items: &[ThreadItem]) -> DemoCheck {
    let found: Vec<&ThreadItem> = stored.turns.iter().flat_map(|turn| &turn.items).collect();
    let verdict = if found.iter().copied().eq(items.iter()) {
        CheckVerdict::True(format!("{} items, the same as are stored", found.len()))
    } else {
        CheckVerdict::False(format!("{} items were stored and {} streamed", found.len(), items.len()))
    };
    DemoCheck { claim: "the client missed nothing and saw nothing twice", verdict }
}

fn streamed(evidence: &TurnEvidence<'_>) -> Result<String, String> {
    match evidence.deltas {
        0 | 1 => Err("it came in one delta, or not at all".to_owned()),
        deltas => Ok(format!("in {deltas} deltas")),
    }
}

fn command<'a>(evidence: &'a TurnEvidence<'_>, part: &str) -> Result<&'a ThreadItem, String> {
    let found = evidence
        .items
        .iter()
        .find(|item| matches!(item, ThreadItem::CommandExecution { command, .. } if command.contains(part)));
    found.ok_or_else(|| "the server ran no such command".to_owned())
}

fn sandboxed(evidence: &TurnEvidence<'_>) -> Result<String, String> {
    match command(evidence, "ls -A")? {
        ThreadItem::CommandExecution { exit_code: Some(0), .. } => Ok("exit 0".to_owned()),
        ThreadItem::CommandExecution { aggregated_output, .. } => Err(last_line(aggregated_output)),
        _ => Err("no command".to_owned()),
    }
}

fn blocked(evidence: &TurnEvidence<'_>, home: &DemoHome) -> Result<String, String> {
    if home.outside("outside.txt").exists() {
        return Err("it wrote outside of its workspace".to_owned());
    }
    match command(evidence, "outside.txt")? {
        ThreadItem::CommandExecution {
            status: CommandExecutionStatus::Failed, aggregated_output, ..
        } => Ok(last_line(aggregated_output)),
        _ => Err("the command did not fail".to_owned()),
    }
}

fn patched(evidence: &TurnEvidence<'_>, home: &DemoHome) -> Result<String, String> {
    let is_done = evidence
        .items
        .iter()
        .any(|item| matches!(item, ThreadItem::FileChange { status: PatchApplyStatus::Completed, .. }));
    if !is_done {
        return Err("no patch was applied".to_owned());
    }
    match fs::read_to_string(home.work().join("greeting.txt")) {
        Ok(text) if text == "Hello, world!\n" => Ok("greeting.txt says \"Hello, world!\"".to_owned()),
        Ok(text) => Err(format!("greeting.txt says {text:?}")),
        Err(error) => Err(format!("greeting.txt cannot be read: {error}")),
    }
}

fn approved(evidence: &TurnEvidence<'_>) -> Result<String, String> {
    match evidence.questions {
        [] => Err("nothing was asked".to_owned()),
        [_, ..] => Ok("asked, and allowed".to_owned()),
    }
}

fn outlived(evidence: &TurnEvidence<'_>) -> Result<String, String> {
    let Some(QuestionEvidence { before, after }) = evidence.questions.first() else {
        return Err("nothing was asked".to_owned());
    };
    if before.len() == 1 && before == after {
        return Ok("killed with SIGKILL, and the next server asked the same".to_owned());
    }
    Err(format!("{} open questions before the kill, {} after it", before.len(), after.len()))
}

fn ran_once(home: &DemoHome) -> Result<String, String> {
    match fs::read_to_string(home.outside("stamp.txt")) {
        Ok(text) if text == "fixed\n" => Ok("stamp.txt has one line".to_owned()),
        Ok(text) => Err(format!("stamp.txt says {text:?}")),
        Err(error) => Err(format!("stamp.txt cannot be read: {error}")),
    }
}

fn last_line(output: &Option<String>) -> String {
    let text = output.as_deref().unwrap_or_default().trim();
    text.lines().last().unwrap_or("no output").to_owned()
}
