//! The requests that take a key: `"codicil": {"key": "…"}` beside the params of a request.
//!
//! A repetition of a request with the same key has no second effect and gets the first result.

use crate::{
    CodicilRequestAnswer, Method, ReviewStart, ThreadArchive, ThreadCompactStart, ThreadDelete, ThreadFork,
    ThreadGoalClear, ThreadGoalSet, ThreadInjectItems, ThreadNameSet, ThreadQueueAdd, ThreadQueueDelete,
    ThreadQueueReorder, ThreadQueueStart, ThreadQueueUpdate, ThreadRevert, ThreadRollback,
    ThreadSettingsUpdate, ThreadShellCommand, ThreadStart, ThreadUnarchive, TurnInterrupt, TurnStart,
    TurnSteer,
};

/// The names of the requests that take a key.
pub const KEYED_REQUESTS: &[&str] = &[
    ThreadStart::NAME,
    ThreadFork::NAME,
    ThreadArchive::NAME,
    ThreadUnarchive::NAME,
    ThreadDelete::NAME,
    ThreadNameSet::NAME,
    ThreadSettingsUpdate::NAME,
    ThreadCompactStart::NAME,
    ThreadRollback::NAME,
    ThreadRevert::NAME,
    ThreadInjectItems::NAME,
    ThreadShellCommand::NAME,
    ThreadGoalSet::NAME,
    ThreadGoalClear::NAME,
    ThreadQueueAdd::NAME,
    ThreadQueueUpdate::NAME,
    ThreadQueueDelete::NAME,
    ThreadQueueReorder::NAME,
    ThreadQueueStart::NAME,
    TurnStart::NAME,
    TurnSteer::NAME,
    TurnInterrupt::NAME,
    ReviewStart::NAME,
    CodicilRequestAnswer::NAME,
];
