//! The output of a process as a stream of chunks.
//!
//! Nothing is read ahead: the kernel's pipe is the only buffer, so a slow reader blocks this process and no other.
//! Bytes are passed on unchanged, in chunks as large as available; lines have no meaning here.

use std::{cell::RefCell, fmt, future::pending, io, os::fd::OwnedFd, sync::Arc, time::Duration};

use bytes::Bytes;
use rustix::io::Errno;
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::exit::ProcessExit;

/// How long output is awaited after the process has exited, if a process it started keeps a pipe open.
const DRAIN_TIME: Duration = Duration::from_millis(250);

/// The size of the largest chunk.
const MAX_CHUNK: usize = 256 * 1024;

/// The most bytes read from a stream after [`DRAIN_TIME`]. More than a pipe or terminal holds, so it includes all that
/// the process itself wrote; and bounded, in case a process it started never stops writing.
const MAX_FINAL_READ: usize = 1024 * 1024;

/// Some bytes of output.
#[derive(Clone, PartialEq, Eq)]
pub struct OutputChunk {
    pub source: OutputSource,
    /// Never empty.
    pub bytes: Bytes,
}

/// Prints the size only: output is long and may be secret.
impl fmt::Debug for OutputChunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutputChunk({:?}, {} bytes)", self.source, self.bytes.len())
    }
}

/// The stream that a chunk was written to.
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
    /// Whether the next read polls standard error first. It alternates, so that neither stream starves the other.
    is_stderr_first: bool,
    exit: watch::Receiver<Option<ProcessExit>>,
    phase: ReaderPhase,
}

enum ReaderPhase {
    Running,
    /// The process has exited; its output is still being read.
    Draining {
        until: Instant,
    },
    /// [`DRAIN_TIME`] is over: only bytes that are already available are read.
    FinalRead,
}

enum ReaderEvent {
    Read(usize, io::Result<Bytes>),
    Exited,
    DrainTimeOver,
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
            is_stderr_first: false,
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
            is_stderr_first: false,
            exit,
            phase: ReaderPhase::Running,
        }
    }

    /// Returns the next chunk, in order within each source. `None` once the process has exited and all its output has
    /// been read. Cancel-safe: dropping the future loses no bytes.
    pub async fn next(&mut self) -> Option<OutputChunk> {
        loop {
            if matches!(self.phase, ReaderPhase::Draining { until } if until <= Instant::now()) {
                self.phase = ReaderPhase::FinalRead;
            }
            if matches!(self.phase, ReaderPhase::FinalRead) {
                return self.readers.iter_mut().find_map(final_read);
            }
            if self.readers.iter().all(Option::is_none) {
                wait_for_exit(&mut self.exit).await;
                return None;
            }
            match self.event().await {
                ReaderEvent::Read(from, bytes) => {
                    if let Some(chunk) = self.on_read(from, bytes) {
                        return Some(chunk);
                    }
                }
                ReaderEvent::Exited => {
                    self.phase = ReaderPhase::Draining { until: Instant::now() + DRAIN_TIME }
                }
                ReaderEvent::DrainTimeOver => self.phase = ReaderPhase::FinalRead,
            }
        }
    }

    async fn event(&mut self) -> ReaderEvent {
        let drain_until = match self.phase {
            ReaderPhase::Draining { until } => Some(until),
            ReaderPhase::Running | ReaderPhase::FinalRead => None,
        };
        let exit = &mut self.exit;
        let process_event = async move {
            match drain_until {
                Some(until) => {
                    sleep_until(until).await;
                    ReaderEvent::DrainTimeOver
                }
                None => {
                    wait_for_exit(exit).await;
                    ReaderEvent::Exited
                }
            }
        };
        let [stdout, stderr] = &mut self.readers;
        let first = usize::from(self.is_stderr_first);
        let (first_reader, second_reader) =
            if self.is_stderr_first { (stderr, stdout) } else { (stdout, stderr) };
        tokio::select! {
            biased;
            bytes = read(first_reader) => ReaderEvent::Read(first, bytes),
            bytes = read(second_reader) => ReaderEvent::Read(1 - first, bytes),
            event = process_event => event,
        }
    }

    fn on_read(&mut self, from: usize, bytes: io::Result<Bytes>) -> Option<OutputChunk> {
        let reader = self.readers.get_mut(from)?;
        let chunk = match bytes {
            Ok(bytes) if !bytes.is_empty() => Some(OutputChunk { source: reader.as_ref()?.source, bytes }),
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(%error, "failed to read the output of a process");
                None
            }
        };
        match chunk {
            Some(_) => self.is_stderr_first = from == 0,
            None => *reader = None,
        }
        chunk
    }
}

/// Makes a descriptor non-blocking and registers it with the caller's runtime.
pub(crate) fn register(end: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    rustix::io::ioctl_fionbio(&end, true)?;
    // SAFETY: an `OwnedFd` is open and stays the same descriptor as long as it lives, and it moves in here.
    Ok(unsafe { AsyncFd::register_with_interest(end, interest) }?)
}

async fn wait_for_exit(exit: &mut watch::Receiver<Option<ProcessExit>>) {
    // An error means that the reaper's task is gone, and with it the process.
    let _ = exit.wait_for(Option::is_some).await;
}

async fn read(reader: &mut Option<StreamReader>) -> io::Result<Bytes> {
    match reader {
        Some(reader) => reader.read().await,
        None => pending().await,
    }
}

/// Returns the bytes that are available without waiting, within [`MAX_FINAL_READ`].
fn final_read(slot: &mut Option<StreamReader>) -> Option<OutputChunk> {
    let reader = slot.as_mut()?;
    let available = read_available(reader.end.get_ref()).ok();
    let Some(mut bytes) = available.filter(|bytes| !bytes.is_empty() && reader.remaining > 0) else {
        *slot = None;
        return None;
    };
    bytes.truncate(reader.remaining);
    reader.remaining -= bytes.len();
    Some(OutputChunk { source: reader.source, bytes })
}

struct StreamReader {
    end: Arc<AsyncFd<OwnedFd>>,
    source: OutputSource,
    /// The part of [`MAX_FINAL_READ`] that has not been used.
    remaining: usize,
}

impl StreamReader {
    fn new(end: Arc<AsyncFd<OwnedFd>>, source: OutputSource) -> StreamReader {
        StreamReader { end, source, remaining: MAX_FINAL_READ }
    }

    /// Waits for output. Returns no bytes at its end.
    async fn read(&mut self) -> io::Result<Bytes> {
        self.end.async_io(Interest::READABLE, read_available).await
    }
}

thread_local! {
    /// A buffer for all processes read on this thread, so that an idle process holds none.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(MAX_CHUNK));
}

/// Reads the available bytes up to [`MAX_CHUNK`], in as many reads as needed: a program that writes short lines causes
/// as few chunks as one that writes long blocks.
fn read_available(end: &OwnedFd) -> io::Result<Bytes> {
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.clear();
        while scratch.len() < MAX_CHUNK {
            match rustix::io::read(end, rustix::buffer::spare_capacity(scratch)) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                // A terminal returns this error once its last user has closed it.
                Err(Errno::IO) => break,
                Err(error) if scratch.is_empty() => return Err(error.into()),
                Err(_) => break,
            }
        }
        Ok(Bytes::copy_from_slice(scratch))
    })
}
