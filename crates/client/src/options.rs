//! What a client is told before it connects, with defaults that suit most.

use std::time::Duration;

use codicil_protocol::{AskForApproval, SandboxMode};

/// How long things may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTimeouts {
    /// To open a connection and shake hands: 30 s.
    pub connect: Duration,
    /// From a request to its answer, retries included: 30 s.
    pub request: Duration,
    /// From the start of a turn or review to its end: 5 min. A turn that takes longer is interrupted.
    pub turn: Option<Duration>,
    /// Between two messages of a turn; nothing by default.
    pub turn_silence: Option<Duration>,
    /// For a server to end by itself once its client closes: 3 s. Then a spawned one is killed.
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

/// How much is kept at most, whatever the server does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// The longest message: 256 MiB. A longer line is skipped and logged, a longer frame ends the connection.
    pub message_bytes: usize,
    /// Notifications that wait in one [`EventStream`](crate::EventStream): 10,000.
    pub events: usize,
    /// Bytes of such notifications: 32 MiB.
    pub event_bytes: usize,
    /// What is collected of one turn: 256 MiB. Items beyond it are counted and not kept.
    pub turn_bytes: usize,
    /// Messages on their way to the server: 256. Callers beyond it wait.
    pub outgoing: usize,
    /// Requests of the server that are being answered at a time: 1,024. More are refused.
    pub questions: usize,
    /// The last of a spawned server's standard error: 16 KiB.
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
            questions: 1024,
            stderr_tail: 16 << 10,
        }
    }
}

/// How requests are repeated that the server refused as overload (`-32001`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryOptions {
    /// How often, after the first time: 10. The request's own timeout may end it earlier.
    pub max_retries: u32,
    /// The wait before the first repetition: 100 ms. Each wait doubles, and is shortened by up to half at
    /// random so that clients do not come back all at once.
    pub first: Duration,
    /// The longest wait: 5 s.
    pub max: Duration,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self { max_retries: 10, first: Duration::from_millis(100), max: Duration::from_secs(5) }
    }
}

impl RetryOptions {
    /// The wait before the repetition with this number, the first being 0. `None` when there is none.
    pub(crate) fn pause(&self, number: u32) -> Option<Duration> {
        if number >= self.max_retries {
            return None;
        }
        let doubled = self.first.saturating_mul(1_u32.checked_shl(number).unwrap_or(u32::MAX));
        Some(doubled.min(self.max).mul_f64(0.5 + fastrand::f64() / 2.0))
    }
}

/// What [`Client::start_thread`](crate::Client::start_thread) fills in where its params say nothing.
///
/// A client without a person in front of it: it works in its own directory and asks nobody.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadDefaults {
    /// None: the server's configuration knows which models there are.
    pub model: Option<String>,
    /// When left out, this process's directory; over a websocket the server's own, since that may be
    /// another machine.
    pub cwd: Option<String>,
    /// `never`.
    pub approval_policy: Option<AskForApproval>,
    /// `workspace-write`.
    pub sandbox: Option<SandboxMode>,
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
    fn waits_double_up_to_a_ceiling_and_vary() {
        let retry = RetryOptions { max_retries: 40, ..RetryOptions::default() };
        for number in 0..40 {
            let full = (100_u64 << number.min(20)).min(5000);
            let pause = retry.pause(number).unwrap().as_millis() as u64;
            assert!((full / 2..=full).contains(&pause), "{number}: {pause} of {full}");
        }
        assert_eq!(retry.pause(40), None);
        let pauses: Vec<_> = (0..20).map(|_| retry.pause(10)).collect();
        assert!(pauses.iter().any(|pause| *pause != pauses[0]), "all the same: {pauses:?}");
    }
}
