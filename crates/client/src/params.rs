//! Params with only the required fields set, for use with struct update syntax: `..turn(&id, "text")`.

use codicil_protocol::{
    CommandExecParams, ReviewStartParams, ReviewTarget, ThreadForkParams, ThreadId, ThreadResumeParams,
    ThreadSourceKind, TurnStartParams, UserInput,
};

/// Input of a turn: text, or a list of input items.
pub trait IntoInput {
    /// Returns the input items, in order.
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

/// Returns the params of a turn that uses the thread's settings.
///
/// ```
/// use codicil_client::{protocol::TurnStartParams, turn};
///
/// let params = TurnStartParams { model: Some("gpt-5.1".into()), ..turn(&"thread".into(), "Tidy up") };
/// assert_eq!(params.input.len(), 1);
/// ```
pub fn turn(thread: &ThreadId, input: impl IntoInput) -> TurnStartParams {
    TurnStartParams::new(thread.clone(), input.into_input())
}

/// Returns the params that resume a stored thread with its stored settings.
pub fn resume(thread: &ThreadId) -> ThreadResumeParams {
    ThreadResumeParams::new(thread.clone())
}

/// Returns the params that fork a thread with the configured settings.
pub fn fork(thread: &ThreadId) -> ThreadForkParams {
    ThreadForkParams::new(thread.clone())
}

/// Returns the sources of threads that were not started by an agent or a review, for `source_kinds` of lists and searches.
pub fn user_thread_sources() -> Vec<ThreadSourceKind> {
    use ThreadSourceKind::{AppServer, Cli, Exec, Unknown, Vscode};
    vec![Cli, Vscode, Exec, AppServer, Unknown]
}

/// Returns the params of a review that runs on the thread itself.
pub fn review(thread: &ThreadId, target: ReviewTarget) -> ReviewStartParams {
    ReviewStartParams { thread_id: thread.clone(), target, delivery: None }
}

/// Returns the params of a command whose output is part of the response.
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
        permission_profile: None,
        timeout_ms: None,
        disable_timeout: None,
        output_bytes_cap: None,
        disable_output_cap: None,
    }
}
