//! Interprets the exit code and the output of a hook.

use codicil_protocol::{HookOutputEntry, HookOutputEntryKind, HookRunStatus};
use serde::Deserialize;

use super::event::HookEvent;

/// The exit code that blocks the event. The reason is on standard error.
const BLOCK_EXIT_CODE: i32 = 2;

/// How a hook's program ended.
#[derive(Debug)]
pub(super) enum HookExit {
    Exited {
        code: i32,
        stdout: String,
        stderr: String,
    },
    /// It could not be run or timed out, for this reason.
    Failed(String),
}

/// The outcome of one hook run.
#[derive(Debug, PartialEq)]
pub(super) struct HookVerdict {
    pub status: HookRunStatus,
    pub entries: Vec<HookOutputEntry>,
    pub effect: HookEffect,
}

/// What hooks request of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HookEffect {
    /// Why the event is blocked.
    pub block: Option<String>,
    /// Why the turn is to end.
    pub stop: Option<String>,
    /// Texts for the model.
    pub context: Vec<String>,
}

impl HookEffect {
    /// Adds the effect of another hook. The first reason wins.
    pub fn extend(&mut self, other: Self) {
        self.block = self.block.take().or(other.block);
        self.stop = self.stop.take().or(other.stop);
        self.context.extend(other.context);
    }
}

/// The JSON that a hook writes to standard output.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct HookOutput {
    #[serde(rename = "continue")]
    should_continue: Option<bool>,
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
    pub fn new(event: &HookEvent, exit: HookExit) -> Self {
        let (code, stdout, stderr) = match exit {
            HookExit::Failed(why) => return Self::failed(why),
            HookExit::Exited { code, stdout, stderr } => (code, stdout, stderr),
        };
        match (code, stdout.trim(), stderr.trim()) {
            (0, "", _) => Self::with_status(HookRunStatus::Completed),
            (0, output, _) if output.starts_with('{') => Self::from_json(output),
            (0, output, _) if event.accepts_plain_output() => {
                Self::with_status(HookRunStatus::Completed).context(output)
            }
            (0, ..) => Self::with_status(HookRunStatus::Completed),
            (BLOCK_EXIT_CODE, _, "") => {
                Self::failed("the hook exited with code 2 and did not say why on stderr".to_owned())
            }
            (BLOCK_EXIT_CODE, _, reason) => Self::with_status(HookRunStatus::Completed).block(reason),
            (code, ..) => Self::failed(format!("hook exited with code {code}")),
        }
    }

    fn from_json(text: &str) -> Self {
        let output: HookOutput = match serde_json::from_str(text) {
            Ok(output) => output,
            Err(error) => return Self::failed(format!("the hook's output cannot be read: {error}")),
        };
        let mut verdict = Self::with_status(HookRunStatus::Completed);
        if let Some(message) = output.system_message {
            verdict.entry(HookOutputEntryKind::Warning, &message);
        }
        let specific = output.hook_specific_output.unwrap_or_default();
        if let Some(context) = specific.additional_context.filter(|context| !context.trim().is_empty()) {
            verdict = verdict.context(&context);
        }
        if output.should_continue == Some(false) {
            return verdict.stop(output.stop_reason.as_deref().unwrap_or("a hook ended the turn"));
        }
        let is_denied = specific.permission_decision.as_deref() == Some("deny");
        if is_denied || output.decision.as_deref() == Some("block") {
            let reason = specific.permission_decision_reason.or(output.reason);
            return match reason.filter(|reason| !reason.trim().is_empty()) {
                Some(reason) => verdict.block(&reason),
                None => Self::failed("the hook blocks and does not say why".to_owned()),
            };
        }
        verdict
    }

    fn with_status(status: HookRunStatus) -> Self {
        Self { status, entries: Vec::new(), effect: HookEffect::default() }
    }

    fn failed(why: String) -> Self {
        let mut verdict = Self::with_status(HookRunStatus::Failed);
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
        let exit = HookExit::Exited { code, stdout: stdout.to_owned(), stderr: stderr.to_owned() };
        let verdict = HookVerdict::new(event, exit);
        (verdict.status, verdict.effect)
    }

    #[test]
    fn exit_codes_and_outputs_are_interpreted() {
        let prompt = HookEvent::UserPromptSubmit { prompt: "go".to_owned() };
        let stop = HookEvent::Stop { is_repeated: false, last_message: None };
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
    fn a_failed_hook_reports_the_reason() {
        let event = HookEvent::Stop { is_repeated: false, last_message: None };
        let verdict = HookVerdict::new(&event, HookExit::Failed("hook timed out".to_owned()));
        assert_eq!(verdict.entries[0].text, "hook timed out");
        assert_eq!(verdict.effect, HookEffect::default());
    }
}
