//! Params with everything but the essential left out, to be completed with `..turn(&id, "text")`.

use codicil_protocol::{
    CommandExecParams, Patch, ReviewStartParams, ReviewTarget, ThreadForkParams, ThreadId,
    ThreadResumeParams, TurnStartParams, UserInput,
};

/// Input of a turn: a text, or parts.
pub trait IntoInput {
    fn into_input(self) -> Vec<UserInput>;
}

impl IntoInput for &str {
    fn into_input(self) -> Vec<UserInput> {
        self.to_owned().into_input()
    }
}

impl IntoInput for String {
    fn into_input(self) -> Vec<UserInput> {
        vec![UserInput::Text { text: self, text_elements: Vec::new() }]
    }
}

impl IntoInput for Vec<UserInput> {
    fn into_input(self) -> Vec<UserInput> {
        self
    }
}

/// A turn with the thread's settings.
///
/// ```
/// use codicil_client::{protocol::TurnStartParams, turn};
///
/// let params = TurnStartParams { model: Some("gpt-5.1".into()), ..turn(&"thread".into(), "Tidy up") };
/// assert_eq!(params.input.len(), 1);
/// ```
pub fn turn(thread: &ThreadId, input: impl IntoInput) -> TurnStartParams {
    TurnStartParams {
        thread_id: thread.clone(),
        input: input.into_input(),
        cwd: None,
        approval_policy: None,
        approvals_reviewer: None,
        sandbox_policy: None,
        model: None,
        service_tier: Patch::Missing,
        effort: None,
        summary: None,
        personality: None,
        output_schema: None,
        collaboration_mode: None,
    }
}

/// A stored thread with the settings it had.
pub fn resume(thread: &ThreadId) -> ThreadResumeParams {
    ThreadResumeParams {
        thread_id: thread.clone(),
        history: None,
        path: None,
        model: None,
        model_provider: None,
        service_tier: Patch::Missing,
        cwd: None,
        approval_policy: None,
        approvals_reviewer: None,
        sandbox: None,
        config: None,
        base_instructions: None,
        developer_instructions: None,
        personality: None,
        persist_extended_history: false,
    }
}

/// A copy of a thread with the configured settings.
pub fn fork(thread: &ThreadId) -> ThreadForkParams {
    ThreadForkParams {
        thread_id: thread.clone(),
        path: None,
        model: None,
        model_provider: None,
        service_tier: Patch::Missing,
        cwd: None,
        approval_policy: None,
        approvals_reviewer: None,
        sandbox: None,
        config: None,
        base_instructions: None,
        developer_instructions: None,
        ephemeral: None,
        persist_extended_history: false,
    }
}

/// A review on the thread itself.
pub fn review(thread: &ThreadId, target: ReviewTarget) -> ReviewStartParams {
    ReviewStartParams { thread_id: thread.clone(), target, delivery: None }
}

/// A command with its output in the answer.
pub fn command<A: Into<String>>(argv: impl IntoIterator<Item = A>) -> CommandExecParams {
    CommandExecParams {
        command: argv.into_iter().map(Into::into).collect(),
        process_id: None,
        tty: None,
        size: None,
        stream_stdin: None,
        stream_stdout_stderr: None,
        cwd: None,
        env: None,
        sandbox_policy: None,
        timeout_ms: None,
        disable_timeout: None,
        output_bytes_cap: None,
        disable_output_cap: None,
    }
}
