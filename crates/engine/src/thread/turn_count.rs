//! Counts turns for operators: how they end and why, how long they take, and the tokens they use.

use std::time::Duration;

use codicil_metrics::{
    METRICS,
    labels::{TokenKind, TurnEnd},
};
use codicil_protocol::{CodexErrorInfo, ProtocolGeneration, TokenUsageBreakdown, TurnError, TurnStatus};

use super::active_turn::ActiveTurn;

/// Who or what interrupts a turn. Recorded with the turn until its end is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InterruptCause {
    Client,
    /// The thread is unloaded, compacted, reviewed or rolled back.
    Thread,
}

/// Counts the end of a turn that has run for `time`.
pub(super) fn count_turn(end: TurnEnd, time: Option<Duration>) {
    METRICS.turns.inc(end);
    if let Some(time) = time {
        METRICS.turn_seconds.observe(time);
    }
}

/// Returns how a turn is counted that ends with this status.
pub(super) fn turn_end(active: &ActiveTurn, status: &TurnStatus, error: Option<&TurnError>) -> TurnEnd {
    match (status, active.interrupt_cause) {
        (TurnStatus::Failed, _) if active.is_store_failing => TurnEnd::FailedStore,
        (TurnStatus::Failed, _) => failure(error),
        (TurnStatus::Interrupted, Some(InterruptCause::Client)) => TurnEnd::InterruptedByClient,
        (TurnStatus::Interrupted, Some(InterruptCause::Thread)) => TurnEnd::InterruptedByThread,
        // What is left is a user who answered an approval by cancelling the turn.
        (TurnStatus::Interrupted, None) => TurnEnd::InterruptedByAnswer,
        _ => TurnEnd::Completed,
    }
}

fn failure(error: Option<&TurnError>) -> TurnEnd {
    use CodexErrorInfo as Info;
    let Some(info) = error.and_then(|error| error.codex_error_info.clone()) else {
        return TurnEnd::FailedOther;
    };
    // The kinds of 0.118 tell a refused request from a lost connection.
    let is_rate_limit = info == Info::RateLimitExceeded;
    match info.of_failed_turn(ProtocolGeneration::V118) {
        _ if is_rate_limit => TurnEnd::FailedLimit,
        Info::ContextWindowExceeded => TurnEnd::FailedContextWindow,
        Info::UsageLimitExceeded | Info::SessionBudgetExceeded => TurnEnd::FailedLimit,
        Info::Unauthorized => TurnEnd::FailedUnauthorized,
        Info::BadRequest
        | Info::ModelNotFound
        | Info::CyberPolicy
        | Info::MisalignmentPolicyViolation
        | Info::TooManyDenials => TurnEnd::FailedRejected,
        Info::ServerOverloaded
        | Info::InternalServerError
        | Info::FlexUnavailable
        | Info::PolicyCapacityUnavailable => TurnEnd::FailedProvider,
        Info::HttpConnectionFailed { .. }
        | Info::ResponseStreamConnectionFailed { .. }
        | Info::ResponseStreamDisconnected { .. }
        | Info::ResponseTooManyFailedAttempts { .. } => TurnEnd::FailedConnection,
        _ => TurnEnd::FailedOther,
    }
}

/// Counts the tokens of one response.
pub(super) fn count_tokens(usage: &TokenUsageBreakdown) {
    for (kind, tokens) in [
        (TokenKind::Input, usage.input_tokens),
        (TokenKind::CachedInput, usage.cached_input_tokens),
        (TokenKind::Output, usage.output_tokens),
        (TokenKind::Reasoning, usage.reasoning_output_tokens),
    ] {
        METRICS.tokens.add(kind, u64::try_from(tokens).unwrap_or(0));
    }
}
