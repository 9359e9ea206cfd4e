//! Where a fork leaves its source.

use codicil_protocol::{ThreadForkParams, TurnId};
use codicil_store::{ForkPoint, StoredTurn};

use crate::error::ThreadError;

/// What a request says, checked as far as the request alone can be.
pub(super) fn asked(params: &mut ThreadForkParams) -> Result<ForkPoint, ThreadError> {
    let point = match (params.last_turn_id.take(), params.before_turn_id.take()) {
        (Some(_), Some(_)) => return Err(ThreadError::TwoForkPoints),
        (Some(last), None) => ForkPoint::After(last),
        (None, Some(next)) => ForkPoint::Before(next),
        (None, None) => ForkPoint::End,
    };
    match point != ForkPoint::End && params.ephemeral == Some(true) {
        true => Err(ThreadError::EphemeralForkPoint),
        false => Ok(point),
    }
}

/// Whether the source has such a turn. One that is running has no end to copy; `running` is that one.
pub(super) fn check(
    point: &ForkPoint,
    turns: &[StoredTurn],
    running: Option<&TurnId>,
) -> Result<(), ThreadError> {
    let id = match point {
        ForkPoint::End => return Ok(()),
        ForkPoint::After(id) | ForkPoint::Before(id) => id,
    };
    if !turns.iter().any(|turn| turn.id == *id) {
        return Err(ThreadError::NoTurn(id.clone()));
    }
    match point {
        ForkPoint::After(last) if running == Some(last) => Err(ThreadError::ForkPointRunning(last.clone())),
        _ => Ok(()),
    }
}
