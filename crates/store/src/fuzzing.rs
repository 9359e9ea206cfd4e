//! Entry points of the fuzz targets in `fuzz/`.

use crate::{
    record_lines::RecordLines,
    replay::{HistoryWanted, Replay},
};

/// Replays the content of a thread's file.
pub fn replay_file(bytes: &[u8]) {
    let lines = RecordLines::of(bytes);
    let _ = Replay::run(&lines, HistoryWanted::TurnsAndHistory);
}
