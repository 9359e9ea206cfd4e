//! One command from its start to its end.

use std::panic::resume_unwind;

use codicil_exec::{Process, ProcessExit, ProcessHandle};
use codicil_protocol::CommandExecResponse;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::Instrument;

use super::{CommandError, CommandSlot, OutputSink, ReadyCommand, input::InputFeed, network::CommandNetwork};

/// How a command ends that was killed before it had begun.
const KILLED: ProcessExit = ProcessExit::Signal(9);

/// The command's ends of what a client reaches it by.
pub struct CommandEnds {
    pub started: watch::Sender<Option<ProcessHandle>>,
    pub feed: Option<InputFeed>,
    pub terminate: CancellationToken,
}

impl CommandSlot {
    /// Runs the command. The answer is ready when the command has ended and the client has been told all of
    /// its output. Dropped before that, the command is killed.
    pub async fn run(
        self,
        ready: ReadyCommand,
        sink: OutputSink,
    ) -> Result<CommandExecResponse, CommandError> {
        let Self { ends, _stay } = self;
        let task = AbortOnDropHandle::new(tokio::spawn(run(ready, sink, ends).in_current_span()));
        match task.await.map_err(|error| error.try_into_panic()) {
            Ok(result) => result,
            Err(Ok(panic)) => resume_unwind(panic),
            Err(Err(_cancelled)) => Err(CommandError::Ending),
        }
    }
}

async fn run(
    ready: ReadyCommand,
    mut sink: OutputSink,
    ends: CommandEnds,
) -> Result<CommandExecResponse, CommandError> {
    let CommandEnds { started, feed, terminate } = ends;
    if terminate.is_cancelled() {
        return Ok(sink.finish(KILLED));
    }
    let mut process = Process::spawn(ready.spec).await?;
    // Ends with the command, whichever way this ends.
    let _proxy = ready.behind.map(CommandNetwork::open).transpose()?;
    let handle = process.handle();
    started.send_replace(Some(handle.clone()));
    let stdin = process.stdin.take();
    let feeding = async {
        match feed {
            Some(feed) => feed.run(stdin).await,
            None => std::future::pending().await,
        }
    };
    let killing = async {
        terminate.cancelled().await;
        handle.terminate();
        std::future::pending().await
    };
    // Only the output tells the end: after the process itself, and after everything it wrote.
    tokio::select! {
        () = sink.fill(&mut process.output) => {}
        never = feeding => match never {},
        never = killing => match never {},
    }
    Ok(sink.finish(process.exit().await))
}
