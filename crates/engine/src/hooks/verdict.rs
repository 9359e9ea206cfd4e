//! What a hook said by its exit code and its output, and what that means for the turn.

use codicil_protocol::{HookOutputEntry, HookOutputEntryKind, HookRunStatus};
use serde::Deserialize;

use super::event::HookEvent;

/// The exit code by which a hook forbids what it was asked about; standard error says why.
const BLOCKS: i32 = 2;

/// How a hook's program ended.
#[derive(Debug)]
pub(super) enum HookExit {
    Exited {
        code: i32,
        stdout: String,
        stderr: String,
    },
    /// It could not be run, or did not end in time.
    Broke(String),
}

/// A hook's run as it is told, and what follows from it.
#[derive(Debug, PartialEq)]
pub(super) struct HookVerdict {
    pub status: HookRunStatus,
    pub entries: Vec<HookOutputEntry>,
    pub effect: HookEffect,
}

/// What hooks want of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HookEffect {
    /// What they were asked about must not happen, and why.
    pub block: Option<String>,
    /// The turn is to end, and why.
    pub stop: Option<String>,
    /// For the model to know.
    pub context: Vec<String>,
}

impl HookEffect {
    /// Adds what another hook wants. The first reason counts.
    pub fn extend(&mut self, other: Self) {
        self.block = self.block.take().or(other.block);
        self.stop = self.stop.take().or(other.stop);
        self.context.extend(other.context);
    }
}

/// JSON on standard output.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct HookOutput {
    #[serde(rename = "continue")]
    goes_on: Option<bool>,
    stop_reason: Option<String>,
    system_message: Option<String>,
    decision: Option<String>,
    reason: Option<String>,
    hook_specific_output: Option<EventOutput>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EventOutput {
    additional_context: Option<String>,
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
}

impl HookVerdict {
    pub fn of(event: &HookEvent, ended: HookExit) -> Self {
        let (code, stdout, stderr) = match ended {
            HookExit::Broke(why) => return Self::failed(why),
            HookExit::Exited { code, stdout, stderr } => (code, stdout, stderr),
        };
        match (code, stdout.trim(), stderr.trim()) {
            (0, "", _) => Self::new(HookRunStatus::Completed),
            (0, output, _) if output.starts_with('{') => Self::of_json(output),
            (0, output, _) if event.takes_words() => Self::new(HookRunStatus::Completed).context(output),
            (0, ..) => Self::new(HookRunStatus::Completed),
            (BLOCKS, _, "") => {
                Self::failed("the hook exited with code 2 and did not say why on stderr".to_owned())
            }
            (BLOCKS, _, reason) => Self::new(HookRunStatus::Completed).block(reason),
            (code, ..) => Self::failed(format!("hook exited with code {code}")),
        }
    }

    fn of_json(output: &str) -> Self {
        let said: HookOutput = match serde_json::from_str(output) {
            Ok(said) => said,
            Err(error) => return Self::failed(format!("the hook's output cannot be read: {error}")),
        };
        let mut verdict = Self::new(HookRunStatus::Completed);
        if let Some(message) = said.system_message {
            verdict.entry(HookOutputEntryKind::Warning, &message);
        }
        let specific = said.hook_specific_output.unwrap_or_default();
        if let Some(context) = specific.additional_context.filter(|context| !context.trim().is_empty()) {
            verdict = verdict.context(&context);
        }
        if said.goes_on == Some(false) {
            return verdict.stop(said.stop_reason.as_deref().unwrap_or("a hook ended the turn"));
        }
        let denied = specific.permission_decision.as_deref() == Some("deny");
        if denied || said.decision.as_deref() == Some("block") {
            let reason = specific.permission_decision_reason.or(said.reason);
            return match reason.filter(|reason| !reason.trim().is_empty()) {
                Some(reason) => verdict.block(&reason),
                None => Self::failed("the hook blocks and does not say why".to_owned()),
            };
        }
        verdict
    }

    fn new(status: HookRunStatus) -> Self {
        Self { status, entries: Vec::new(), effect: HookEffect::default() }
    }

    fn failed(why: String) -> Self {
        let mut verdict = Self::new(HookRunStatus::Failed);
        verdict.entry(HookOutputEntryKind::Error, &why);
        verdict
    }

    fn context(mut self, text: &str) -> Self {
        self.entry(HookOutputEntryKind::Context, text);
        self.effect.context.push(text.to_owned());
        self
    }

    fn block(mut self, reason: &str) -> Self {
        self.status = HookRunStatus::Blocked;
        self.entry(HookOutputEntryKind::Feedback, reason);
        self.effect.block = Some(reason.to_owned());
        self
    }

    fn stop(mut self, reason: &str) -> Self {
        self.status = HookRunStatus::Stopped;
        self.entry(HookOutputEntryKind::Stop, reason);
        self.effect.stop = Some(reason.to_owned());
        self
    }

    fn entry(&mut self, kind: HookOutputEntryKind, text: &str) {
        self.entries.push(HookOutputEntry { kind, text: text.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(event: &HookEvent, code: i32, stdout: &str, stderr: &str) -> (HookRunStatus, HookEffect) {
        let ended = HookExit::Exited { code, stdout: stdout.to_owned(), stderr: stderr.to_owned() };
        let verdict = HookVerdict::of(event, ended);
        (verdict.status, verdict.effect)
    }

    #[test]
    fn exit_codes_and_outputs_mean_what_hooks_mean_by_them() {
        let prompt = HookEvent::UserPromptSubmit { prompt: "go".to_owned() };
        let stop = HookEvent::Stop { again: false, last_message: None };
        let block = |why: &str| HookEffect { block: Some(why.to_owned()), ..HookEffect::default() };
        let context = |text: &str| HookEffect { context: vec![text.to_owned()], ..HookEffect::default() };
        let none = HookEffect::default;
        let check = |event: &HookEvent, code, stdout, stderr, status: HookRunStatus, effect: HookEffect| {
            assert_eq!(verdict(event, code, stdout, stderr), (status, effect), "{code} {stdout} {stderr}");
        };
        use HookRunStatus::{Blocked, Completed, Failed, Stopped};
        check(&prompt, 0, "", "noise", Completed, none());
        check(&prompt, 0, "mind the gap\n", "", Completed, context("mind the gap"));
        check(&stop, 0, "mind the gap\n", "", Completed, none());
        check(&prompt, 2, "", "not allowed\n", Blocked, block("not allowed"));
        check(&prompt, 2, "", " ", Failed, none());
        check(&prompt, 7, "", "oops", Failed, none());
        check(&prompt, 0, "{oops", "", Failed, none());
        check(&prompt, 0, r#"{"decision":"block","reason":"no"}"#, "", Blocked, block("no"));
        check(&prompt, 0, r#"{"decision":"block"}"#, "", Failed, none());
        let deny =
            r#"{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"never"}}"#;
        check(&prompt, 0, deny, "", Blocked, block("never"));
        let more = r#"{"hookSpecificOutput":{"additionalContext":"today is Monday"}}"#;
        check(&prompt, 0, more, "", Completed, context("today is Monday"));
        let halt = HookEffect { stop: Some("enough".to_owned()), ..HookEffect::default() };
        check(&stop, 0, r#"{"continue":false,"stopReason":"enough"}"#, "", Stopped, halt);
    }

    #[test]
    fn a_hook_that_broke_says_why() {
        let event = HookEvent::Stop { again: false, last_message: None };
        let verdict = HookVerdict::of(&event, HookExit::Broke("hook timed out".to_owned()));
        assert_eq!(verdict.entries[0].text, "hook timed out");
        assert_eq!(verdict.effect, HookEffect::default());
    }
}
