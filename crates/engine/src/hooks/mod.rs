//! Hooks: commands of the user's that run at fixed points of a turn and may block, stop or extend it.
//!
//! | part | where |
//! |---|---|
//! | the declared hooks, and their list for clients | `declared.rs` |
//! | the events and what a hook reads | `event.rs` |
//! | the meaning of a hook's exit code and output | `verdict.rs` |
//!
//! This file runs the hooks of an event. A hook that fails is reported as failed and has no effect on the turn.

mod declared;
mod event;
mod verdict;

use std::time::Instant;

use codicil_exec::{CaptureLimit, InputSource, Process, ProcessExit, ProcessSpec, inherited_environment};
use codicil_protocol::{
    Frame, HookCompleted, HookCompletedNotification, HookExecutionMode, HookHandlerType, HookRunStatus,
    HookRunSummary, HookStarted, HookStartedNotification,
};

use crate::{
    clock::{millis, unix_now},
    turn_channel::{TurnEvent, TurnReporter},
};
use declared::DeclaredHook;
use verdict::{HookExit, HookVerdict};

pub use declared::declared_hooks;
pub(crate) use {
    declared::TurnHooks,
    event::{HookContext, HookEvent},
    verdict::HookEffect,
};

/// How much of each output stream of a hook is read.
const OUTPUT_BYTES: usize = 1 << 20;

impl TurnHooks {
    /// Runs the hooks for an event one after the other and combines their effects. Dropping the future kills the hook.
    pub async fn run(&self, event: &HookEvent, context: &HookContext, reporter: &TurnReporter) -> HookEffect {
        let name = event.name();
        let subject = event.subject();
        let mut effect = HookEffect::default();
        for hook in self.0.iter().filter(|hook| hook.matches(&name, subject)) {
            let mut summary = summary(hook, event);
            let began = Instant::now();
            let HookContext { thread_id, turn_id, .. } = context.clone();
            let started = HookStartedNotification {
                thread_id: thread_id.clone(),
                turn_id: Some(turn_id.clone()),
                run: summary.clone(),
            };
            reporter.report_one(TurnEvent::Notification(Frame::notification::<HookStarted>(&started))).await;
            let verdict = HookVerdict::new(event, execute(hook, event, context).await);
            summary.status = verdict.status;
            summary.entries = verdict.entries;
            summary.completed_at = Some(unix_now());
            summary.duration_ms = Some(millis(began.elapsed()));
            let completed = HookCompletedNotification { thread_id, turn_id: Some(turn_id), run: summary };
            reporter
                .report_one(TurnEvent::Notification(Frame::notification::<HookCompleted>(&completed)))
                .await;
            effect.extend(verdict.effect);
        }
        effect
    }
}

fn summary(hook: &DeclaredHook, event: &HookEvent) -> HookRunSummary {
    HookRunSummary {
        id: uuid::Uuid::now_v7().to_string(),
        event_name: event.name(),
        handler_type: HookHandlerType::Command,
        execution_mode: HookExecutionMode::Sync,
        scope: event.scope(),
        source: hook.layer.clone(),
        source_path: hook.source.to_string_lossy().into_owned(),
        display_order: hook.order,
        status: HookRunStatus::Running,
        status_message: hook.status_message.clone(),
        started_at: unix_now(),
        completed_at: None,
        duration_ms: None,
        entries: Vec::new(),
    }
}

/// Runs the command with the event on its standard input.
async fn execute(hook: &DeclaredHook, event: &HookEvent, context: &HookContext) -> HookExit {
    let mut spec = ProcessSpec::new(["/bin/sh", "-c", &hook.command], &context.cwd, inherited_environment());
    spec.timeout = Some(hook.timeout);
    spec.stdin = InputSource::Piped;
    let mut process = match Process::spawn(spec).await {
        Ok(process) => process,
        Err(error) => return HookExit::Failed(format!("hook could not be started: {error}")),
    };
    let input = event.input(context).to_string();
    let stdin = process.stdin.take();
    let write = async move {
        if let Some(mut stdin) = stdin {
            // A hook may exit without reading its input.
            let _ = stdin.write(input.as_bytes()).await;
            let _ = stdin.close().await;
        }
    };
    let (captured, ()) = tokio::join!(process.capture(CaptureLimit::Head(OUTPUT_BYTES)), write);
    match captured.exit {
        ProcessExit::TimedOut => {
            HookExit::Failed(format!("hook timed out after {}s", hook.timeout.as_secs()))
        }
        exit => HookExit::Exited {
            code: exit.code(),
            stdout: String::from_utf8_lossy(&captured.stdout.into_bytes()).into_owned(),
            stderr: String::from_utf8_lossy(&captured.stderr.into_bytes()).into_owned(),
        },
    }
}
