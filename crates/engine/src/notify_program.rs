//! The setting `notify`: a program of the user that runs after each turn of a thread.
//!
//! The turn does not wait for the program, and the result of the program changes nothing. Programs belong to the process:
//! a thread may be unloaded before its program has ended.

use std::{path::PathBuf, time::Duration};

use codicil_exec::{CaptureLimit, InputSource, Process, ProcessExit, ProcessSpec, inherited_environment};
use codicil_protocol::{ThreadId, TurnId};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::{task::JoinSet, time::timeout};

/// How many programs may run at once. Further turns are not reported.
const MAX_PROGRAMS: usize = 16;

/// How long a program may run.
const PROGRAM_TIME: Duration = Duration::from_secs(60);

/// How long the end of the server waits for programs.
const STOP_TIME: Duration = Duration::from_secs(2);

/// How much output of a program is read.
const OUTPUT_BYTES: usize = 4096;

/// A completed turn, as the program gets it: its last argument is this as JSON.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "agent-turn-complete", rename_all = "kebab-case")]
pub(crate) struct TurnNotice {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub cwd: PathBuf,
    /// The name of the client that started the turn.
    pub client: String,
    pub input_messages: Vec<String>,
    pub last_assistant_message: Option<String>,
}

/// The running programs. Dropping this ends them.
#[derive(Debug, Default)]
pub(crate) struct NotifyPrograms(Mutex<JoinSet<()>>);

impl NotifyPrograms {
    /// Starts the program. Must be called within a runtime.
    pub fn start(&self, program: &[String], notice: &TurnNotice) {
        let Ok(json) = serde_json::to_string(notice) else { return };
        let argv: Vec<_> = program.iter().cloned().chain([json]).collect();
        let mut running = self.0.lock();
        while running.try_join_next().is_some() {}
        if running.len() < MAX_PROGRAMS {
            let TurnNotice { thread_id, turn_id, cwd, .. } = notice;
            running.spawn(run(argv, thread_id.clone(), turn_id.clone(), cwd.clone()));
        } else {
            tracing::warn!(thread = %notice.thread_id, turn = %notice.turn_id, "too many `notify` programs are running, not starting another");
        }
    }

    /// Waits a moment for the programs that are still running, and then ends them.
    pub async fn stop(&self) {
        let mut running = std::mem::take(&mut *self.0.lock());
        let all_ended = async { while running.join_next().await.is_some() {} };
        let _ = timeout(STOP_TIME, all_ended).await;
    }
}

/// Runs a program to its end. Dropping the future kills it.
async fn run(argv: Vec<String>, thread: ThreadId, turn: TurnId, cwd: PathBuf) {
    let mut spec = ProcessSpec::new(&argv, &cwd, inherited_environment());
    spec.timeout = Some(PROGRAM_TIME);
    spec.stdin = InputSource::Null;
    let process = match Process::spawn(spec).await {
        Ok(process) => process,
        Err(error) => {
            return tracing::warn!(%thread, %turn, "the `notify` program could not be started: {error}");
        }
    };
    match process.capture(CaptureLimit::Head(OUTPUT_BYTES)).await.exit {
        ProcessExit::TimedOut => {
            tracing::warn!(%thread, %turn, "the `notify` program was ended after {PROGRAM_TIME:?}");
        }
        exit if exit.code() != 0 => {
            tracing::warn!(%thread, %turn, "the `notify` program failed with code {}", exit.code());
        }
        _ => {}
    }
}
