//! What a process writes, as a stream of chunks.
//!
//! Nothing is read ahead: the kernel's pipe is the only buffer, so a slow reader slows the process down and
//! nobody else. Bytes are passed on as they are, in pieces as large as there are; nothing looks at lines.

use std::{cell::RefCell, fmt, future::pending, io, os::fd::OwnedFd, sync::Arc, time::Duration};

use bytes::Bytes;
use rustix::io::Errno;
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::exit::ProcessExit;

/// How long output is waited for after the process has ended, when something it started keeps a pipe open.
const GRACE: Duration = Duration::from_millis(250);

/// The largest chunk.
const PIECE: usize = 256 * 1024;

/// What is read of a stream after the grace, at most. More than a pipe or terminal holds, so all that the
/// process itself wrote is there; and bounded, in case something it started never stops writing.
const LAST_LOOK: usize = 1024 * 1024;

/// A piece of output.
#[derive(Clone, PartialEq, Eq)]
pub struct OutputChunk {
    pub source: OutputSource,
    /// Never empty.
    pub bytes: Bytes,
}

/// Shows the size: output may be secret, and it is long.
impl fmt::Debug for OutputChunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chunk({:?}, {} bytes)", self.source, self.bytes.len())
    }
}

/// Where a chunk was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputSource {
    Stdout,
    Stderr,
    /// Standard output and error of a process with a terminal, and the echo of its input.
    Terminal,
}

/// The output of one process. Dropping it closes the server's ends of the pipes.
pub struct ProcessOutput {
    /// Standard output or the terminal, and standard error, until they are closed.
    readers: [Option<StreamReader>; 2],
    /// Which of the two is looked at first; it alternates, so that neither starves the other.
    second_first: bool,
    exit: watch::Receiver<Option<ProcessExit>>,
    phase: ReaderPhase,
}

enum ReaderPhase {
    Running,
    /// The process has ended; what it wrote is still being read.
    Draining {
        until: Instant,
    },
    /// The grace is over: only what is there already.
    LastLook,
}

enum ReaderEvent {
    Read(usize, io::Result<Bytes>),
    Exited,
    GraceOver,
}

impl ProcessOutput {
    pub(crate) fn pipes(
        stdout: Option<OwnedFd>,
        stderr: Option<OwnedFd>,
        exit: watch::Receiver<Option<ProcessExit>>,
    ) -> io::Result<ProcessOutput> {
        let reader = |end: Option<OwnedFd>, source| {
            end.map(|end| Ok(StreamReader::new(Arc::new(register(end, Interest::READABLE)?), source)))
                .transpose()
        };
        let readers: [io::Result<_>; 2] =
            [reader(stdout, OutputSource::Stdout), reader(stderr, OutputSource::Stderr)];
        let [stdout, stderr] = readers;
        Ok(ProcessOutput {
            readers: [stdout?, stderr?],
            second_first: false,
            exit,
            phase: ReaderPhase::Running,
        })
    }

    pub(crate) fn terminal(
        controller: Arc<AsyncFd<OwnedFd>>,
        exit: watch::Receiver<Option<ProcessExit>>,
    ) -> ProcessOutput {
        let reader = StreamReader::new(controller, OutputSource::Terminal);
        ProcessOutput {
            readers: [Some(reader), None],
            second_first: false,
            exit,
            phase: ReaderPhase::Running,
        }
    }

    /// The next piece, in order within each source. `None` when the process has ended and everything it wrote
    /// has been read. Safe to drop while waiting: nothing is lost.
    pub async fn next(&mut self) -> Option<OutputChunk> {
        loop {
            if matches!(self.phase, ReaderPhase::Draining { until } if until <= Instant::now()) {
                self.phase = ReaderPhase::LastLook;
            }
            if matches!(self.phase, ReaderPhase::LastLook) {
                return self.readers.iter_mut().find_map(last_look);
            }
            if self.readers.iter().all(Option::is_none) {
                exited(&mut self.exit).await;
                return None;
            }
            match self.event().await {
                ReaderEvent::Read(from, bytes) => {
                    if let Some(chunk) = self.on_read(from, bytes) {
                        return Some(chunk);
                    }
                }
                ReaderEvent::Exited => self.phase = ReaderPhase::Draining { until: Instant::now() + GRACE },
                ReaderEvent::GraceOver => self.phase = ReaderPhase::LastLook,
            }
        }
    }

    async fn event(&mut self) -> ReaderEvent {
        let [one, two] = &mut self.readers;
        let ((i, first), (j, second)) =
            if self.second_first { ((1, two), (0, one)) } else { ((0, one), (1, two)) };
        let (running, until) = match self.phase {
            ReaderPhase::Draining { until } => (false, until),
            _ => (true, Instant::now()),
        };
        tokio::select! {
            biased;
            bytes = read(first) => ReaderEvent::Read(i, bytes),
            bytes = read(second) => ReaderEvent::Read(j, bytes),
            () = exited(&mut self.exit), if running => ReaderEvent::Exited,
            () = sleep_until(until), if !running => ReaderEvent::GraceOver,
        }
    }

    fn on_read(&mut self, from: usize, bytes: io::Result<Bytes>) -> Option<OutputChunk> {
        let reader = self.readers.get_mut(from)?;
        let chunk = match bytes {
            Ok(bytes) if !bytes.is_empty() => Some(OutputChunk { source: reader.as_ref()?.source, bytes }),
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(%error, "the output of a process cannot be read further");
                None
            }
        };
        match chunk {
            Some(_) => self.second_first = from == 0,
            None => *reader = None,
        }
        chunk
    }
}

/// Makes a descriptor non-blocking and known to the runtime of the caller.
pub(crate) fn register(end: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    rustix::io::ioctl_fionbio(&end, true)?;
    // SAFETY: an `OwnedFd` is open and stays the same descriptor as long as it lives, and it moves in here.
    Ok(unsafe { AsyncFd::register_with_interest(end, interest) }?)
}

async fn exited(exit: &mut watch::Receiver<Option<ProcessExit>>) {
    // An error means that the keeper is gone, and then the process is too.
    let _ = exit.wait_for(Option::is_some).await;
}

async fn read(reader: &mut Option<StreamReader>) -> io::Result<Bytes> {
    match reader {
        Some(reader) => reader.read().await,
        None => pending().await,
    }
}

/// What is there without waiting, within the bound.
fn last_look(place: &mut Option<StreamReader>) -> Option<OutputChunk> {
    let reader = place.as_mut()?;
    let bytes = take(reader.end.get_ref()).ok().filter(|bytes| !bytes.is_empty() && reader.left > 0);
    let Some(mut bytes) = bytes else {
        *place = None;
        return None;
    };
    bytes.truncate(reader.left);
    reader.left -= bytes.len();
    Some(OutputChunk { source: reader.source, bytes })
}

struct StreamReader {
    end: Arc<AsyncFd<OwnedFd>>,
    source: OutputSource,
    /// How much of [`LAST_LOOK`] is left.
    left: usize,
}

impl StreamReader {
    fn new(end: Arc<AsyncFd<OwnedFd>>, source: OutputSource) -> StreamReader {
        StreamReader { end, source, left: LAST_LOOK }
    }

    /// Waits for output; empty at its end.
    async fn read(&mut self) -> io::Result<Bytes> {
        self.end.async_io(Interest::READABLE, take).await
    }
}

thread_local! {
    /// Shared by all processes that are read on this thread, so that an idle process holds no buffer.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(PIECE));
}

/// Takes what is there, up to a piece, in as many reads as that needs: a program that writes short lines is
/// woken and told of as rarely as one that writes long blocks.
fn take(end: &OwnedFd) -> io::Result<Bytes> {
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.clear();
        while scratch.len() < PIECE {
            match rustix::io::read(end, rustix::buffer::spare_capacity(scratch)) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                // A terminal says so when its last user has closed it.
                Err(Errno::IO) => break,
                Err(error) if scratch.is_empty() => return Err(error.into()),
                Err(_) => break,
            }
        }
        Ok(Bytes::copy_from_slice(scratch))
    })
}
