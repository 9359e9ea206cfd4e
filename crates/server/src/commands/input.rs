//! The input that a client writes to a command.
//!
//! A write gets its response when its bytes are queued, not when the command has read them: a command that never
//! reads must not keep requests open. The queue is bounded; further writes wait for room, in order of arrival.

use std::{
    convert::Infallible,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use codicil_exec::ProcessInput;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::CommandError;
use crate::limits::{MAX_INPUT_BYTES, MAX_WAITING_INPUT_BYTES};

/// The bytes that even the shortest write counts as, so that the number of writes is bounded too.
const MIN_COST: usize = 1024;

/// Whether more input may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputEnd {
    Later,
    Here,
}

/// The client's end of a command's input.
#[derive(Clone)]
pub struct InputFeeder {
    queue: mpsc::Sender<InputPiece>,
    shared: Arc<InputShared>,
}

/// The command's end of its input. Dropping it closes the input.
pub struct InputFeed {
    queue: mpsc::Receiver<InputPiece>,
    shared: Arc<InputShared>,
}

struct InputShared {
    room: Arc<Semaphore>,
    /// Bytes of the writes that wait for room.
    waiting: AtomicUsize,
    is_closed: AtomicBool,
}

struct InputPiece {
    bytes: Vec<u8>,
    end: InputEnd,
    _room: OwnedSemaphorePermit,
}

impl InputFeeder {
    pub async fn write(&self, bytes: Vec<u8>, end: InputEnd) -> Result<(), CommandError> {
        // Before the first `.await`: a write after a closing one is refused, even if both still wait for room.
        let was_closed = match end {
            InputEnd::Here => self.shared.is_closed.swap(true, Ordering::Relaxed),
            InputEnd::Later => self.shared.is_closed.load(Ordering::Relaxed),
        };
        if was_closed {
            return Err(CommandError::StdinClosed);
        }
        let room = self.room_for(bytes.len()).await?;
        // The queue has a slot for each piece that has room, so this fails only if the receiver is gone.
        let piece = InputPiece { bytes, end, _room: room };
        self.queue.try_send(piece).map_err(|_| CommandError::StdinClosed)
    }

    async fn room_for(&self, bytes: usize) -> Result<OwnedSemaphorePermit, CommandError> {
        let _waiting = WaitingBytes::new(&self.shared, bytes)?;
        let cost = u32::try_from(bytes.clamp(MIN_COST, MAX_INPUT_BYTES)).unwrap_or(u32::MAX);
        let room = self.shared.room.clone().acquire_many_owned(cost).await;
        room.map_err(|_| CommandError::StdinClosed)
    }
}

/// Counts bytes as waiting while it lives.
struct WaitingBytes<'a> {
    shared: &'a InputShared,
    bytes: usize,
}

impl<'a> WaitingBytes<'a> {
    fn new(shared: &'a InputShared, bytes: usize) -> Result<Self, CommandError> {
        let before = shared.waiting.fetch_add(bytes, Ordering::Relaxed);
        let waiting = Self { shared, bytes };
        // Without the new bytes: a single long write may exceed the limit.
        if before > MAX_WAITING_INPUT_BYTES { Err(CommandError::TooMany) } else { Ok(waiting) }
    }
}

impl Drop for WaitingBytes<'_> {
    fn drop(&mut self) {
        self.shared.waiting.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl InputFeed {
    pub fn new() -> (InputFeeder, Self) {
        let (sender, receiver) = mpsc::channel(MAX_INPUT_BYTES / MIN_COST);
        let shared = Arc::new(InputShared {
            room: Arc::new(Semaphore::new(MAX_INPUT_BYTES)),
            waiting: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
        });
        (InputFeeder { queue: sender, shared: shared.clone() }, Self { queue: receiver, shared })
    }

    /// Writes queued input to the command until the input is closed. Never returns: a command ends when its output
    /// ends.
    pub async fn run(self, stdin: Option<ProcessInput>) -> Infallible {
        if let Some(stdin) = stdin {
            self.feed(stdin).await;
        }
        pending().await
    }

    async fn feed(mut self, mut stdin: ProcessInput) {
        while let Some(piece) = self.queue.recv().await {
            // The command has closed its input or has ended. The next write gets an error.
            let Ok(()) = stdin.write(&piece.bytes).await else { return };
            if piece.end == InputEnd::Here {
                let _ = stdin.close().await;
                return;
            }
        }
    }
}

impl Drop for InputFeed {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        self.shared.room.close();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn write(feeder: &InputFeeder, bytes: usize, end: InputEnd) -> Option<Result<(), CommandError>> {
        feeder.write(vec![0; bytes], end).now_or_never()
    }

    #[test]
    fn writes_wait_when_the_queue_is_full() {
        let (feeder, mut feed) = InputFeed::new();
        assert!(
            matches!(write(&feeder, MAX_INPUT_BYTES * 3, InputEnd::Later), Some(Ok(()))),
            "one long write"
        );
        let mut second = Box::pin(feeder.write(vec![1], InputEnd::Later));
        let mut third = Box::pin(feeder.write(vec![2], InputEnd::Here));
        assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_none());
        assert!(matches!(write(&feeder, 1, InputEnd::Later), Some(Err(CommandError::StdinClosed))));

        assert_eq!(feed.queue.try_recv().unwrap().bytes.len(), MAX_INPUT_BYTES * 3);
        assert!(matches!((&mut third).now_or_never(), Some(Ok(())) | None));
        assert!(matches!(second.now_or_never(), Some(Ok(()))), "there is room, and this write came first");
    }

    #[test]
    fn the_number_of_short_writes_is_bounded() {
        let (feeder, _feed) = InputFeed::new();
        let queued =
            (0..2 * MAX_INPUT_BYTES / MIN_COST).filter(|_| write(&feeder, 1, InputEnd::Later).is_some());
        assert_eq!(queued.count(), MAX_INPUT_BYTES / MIN_COST);
    }

    #[test]
    fn too_much_waiting_input_is_refused() {
        let (feeder, _feed) = InputFeed::new();
        assert!(matches!(write(&feeder, MAX_INPUT_BYTES, InputEnd::Later), Some(Ok(()))));
        let mut long = Box::pin(feeder.write(vec![0; MAX_WAITING_INPUT_BYTES + 1], InputEnd::Later));
        assert!((&mut long).now_or_never().is_none());
        assert!(matches!(write(&feeder, 1, InputEnd::Later), Some(Err(CommandError::TooMany))));
        drop(long);
        assert!(write(&feeder, 1, InputEnd::Later).is_none(), "the short write waits for room");
    }

    #[test]
    fn writes_fail_when_the_command_has_ended() {
        let (feeder, feed) = InputFeed::new();
        assert!(write(&feeder, MAX_INPUT_BYTES, InputEnd::Later).is_some());
        let mut waiting = Box::pin(feeder.write(vec![0], InputEnd::Later));
        assert!((&mut waiting).now_or_never().is_none());
        drop(feed);
        assert!(matches!(waiting.now_or_never(), Some(Err(CommandError::StdinClosed))));
        assert!(matches!(write(&feeder, 1, InputEnd::Later), Some(Err(CommandError::StdinClosed))));
    }
}
