//! Options of a client and their defaults.

use std::time::Duration;

use codicil_protocol::{AskForApproval, SandboxMode};

/// Timeouts of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTimeouts {
    /// Time to open a connection and complete the handshake: 30 s.
    pub connect: Duration,
    /// Time from a request to its response, retries included: 30 s.
    pub request: Duration,
    /// Time from the start of a turn or review to its end: 5 min. A turn that takes longer is interrupted. The time in
    /// which an approval or a question is open does not count.
    pub turn: Option<Duration>,
    /// Longest time between two messages of a turn, except while it waits for an answer; no limit by default.
    pub turn_silence: Option<Duration>,
    /// Time for a server to exit after its client closes: 3 s. After that a spawned server is killed.
    pub close: Duration,
}

impl Default for ClientTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            request: Duration::from_secs(30),
            turn: Some(Duration::from_secs(5 * 60)),
            turn_silence: None,
            close: Duration::from_secs(3),
        }
    }
}

/// Upper bounds for everything that a server can make the client keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Size of a message: 256 MiB. A longer line is skipped and logged; a longer websocket frame ends the connection.
    pub message_bytes: usize,
    /// Unread notifications in one [`EventStream`](crate::EventStream): 10,000.
    pub events: usize,
    /// Bytes of unread notifications in one [`EventStream`](crate::EventStream): 32 MiB.
    pub event_bytes: usize,
    /// Bytes of items collected for one turn: 256 MiB. Further items are counted and dropped.
    pub turn_bytes: usize,
    /// Messages queued for the server: 256. Further callers wait.
    pub outgoing: usize,
    /// Server requests answered at the same time: 1,024. Further requests are refused.
    pub server_requests: usize,
    /// Bytes kept of the end of a spawned server's standard error: 16 KiB.
    pub stderr_tail: usize,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            message_bytes: 256 << 20,
            events: 10_000,
            event_bytes: 32 << 20,
            turn_bytes: 256 << 20,
            outgoing: 256,
            server_requests: 1024,
            stderr_tail: 16 << 10,
        }
    }
}

/// Repetition of requests that the server refused as overload (`-32001`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryOptions {
    /// Repetitions after the first attempt: 10. The request's timeout may end them earlier.
    pub max_retries: u32,
    /// Delay before the first repetition: 100 ms. Each delay doubles, and is shortened by up to half at random so that
    /// clients do not retry all at once.
    pub first_delay: Duration,
    /// Longest delay: 5 s.
    pub max_delay: Duration,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self { max_retries: 10, first_delay: Duration::from_millis(100), max_delay: Duration::from_secs(5) }
    }
}

impl RetryOptions {
    /// Returns the delay before repetition `number`, counted from 0; `None` when the request is not repeated again.
    pub(crate) fn delay(&self, number: u32) -> Option<Duration> {
        (number < self.max_retries).then(|| backoff(self.first_delay, self.max_delay, number))
    }
}

/// Returns the delay before repetition `number`, counted from 0: it doubles up to `max` and is shortened by up to half at
/// random.
pub(crate) fn backoff(first: Duration, max: Duration, number: u32) -> Duration {
    let doubled = first.saturating_mul(1_u32.checked_shl(number).unwrap_or(u32::MAX));
    doubled.min(max).mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// Values that [`Client::start_thread`](crate::Client::start_thread) fills in where its params leave them out.
///
/// The defaults suit a client without a user: it works in its own directory and the server asks for no approvals.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadDefaults {
    /// `None` by default: the server chooses the model.
    pub model: Option<String>,
    /// `None` by default: the directory of this process. Over a websocket it is left to the server, which may run on
    /// another machine.
    pub cwd: Option<String>,
    /// `never`.
    pub approval_policy: Option<AskForApproval>,
    /// `workspace-write`.
    pub sandbox: Option<SandboxMode>,
}

impl ThreadDefaults {
    /// Returns the defaults of the TypeScript client's specification: the model `gpt-5.3-codex`, and otherwise those of
    /// [`default`](Self::default).
    pub fn openclaw() -> Self {
        Self { model: Some("gpt-5.3-codex".to_owned()), ..Self::default() }
    }
}

impl Default for ThreadDefaults {
    fn default() -> Self {
        Self {
            model: None,
            cwd: None,
            approval_policy: Some(AskForApproval::Never),
            sandbox: Some(SandboxMode::WorkspaceWrite),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum_and_vary() {
        let retry = RetryOptions { max_retries: 40, ..RetryOptions::default() };
        for number in 0..40 {
            let full = (100_u64 << number.min(20)).min(5000);
            let delay = retry.delay(number).unwrap().as_millis() as u64;
            assert!((full / 2..=full).contains(&delay), "{number}: {delay} of {full}");
        }
        assert_eq!(retry.delay(40), None);
        let delays: Vec<_> = (0..20).map(|_| retry.delay(10)).collect();
        assert!(delays.iter().any(|delay| *delay != delays[0]), "all the same: {delays:?}");
    }
}
