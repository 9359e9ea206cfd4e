//! Running hooks: one after the other, each told before and after.

use std::time::Instant;

use codicil_exec::{CaptureLimit, InputSource, Process, ProcessExit, ProcessSpec};
use codicil_protocol::{
    Frame, HookCompleted, HookCompletedNotification, HookExecutionMode, HookHandlerType, HookRunStatus,
    HookRunSummary, HookStarted, HookStartedNotification, ThreadId, TurnId,
};

use super::{
    HookEffect, TurnHooks,
    declared::DeclaredHook,
    event::{HookContext, HookEvent},
    verdict::{HookExit, HookVerdict},
};
use crate::{
    clock::{millis, unix_now},
    turn_channel::{TurnEvent, TurnReporter},
};

/// How much of each of a hook's streams counts.
const OUTPUT_BYTES: usize = 1 << 20;

impl TurnHooks {
    /// Runs the hooks for an event. What they want is added up; dropped half way, they are killed.
    pub async fn run(
        &self,
        event: &HookEvent,
        occasion: &HookContext,
        reporter: &TurnReporter,
    ) -> HookEffect {
        let (name, subject) = (event.name(), event.subject());
        let mut effect = HookEffect::default();
        for hook in self.0.iter().filter(|hook| hook.is_for(&name, subject)) {
            let mut summary = summary(hook, event);
            let began = Instant::now();
            let (thread_id, turn_id) = (ThreadId::from(&*occasion.session), TurnId::from(&*occasion.turn));
            let started = HookStartedNotification {
                thread_id: thread_id.clone(),
                turn_id: Some(turn_id.clone()),
                run: summary.clone(),
            };
            reporter.report_one(TurnEvent::Notification(Frame::notification::<HookStarted>(&started))).await;
            let verdict = HookVerdict::of(event, execute(hook, event, occasion).await);
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

/// Runs the program with the event on its standard input.
async fn execute(hook: &DeclaredHook, event: &HookEvent, occasion: &HookContext) -> HookExit {
    let env = std::env::vars_os().collect();
    let mut spec = ProcessSpec::new(["/bin/sh", "-c", &hook.command], &occasion.cwd, env);
    spec.timeout = Some(hook.timeout);
    spec.stdin = InputSource::Piped;
    let mut process = match Process::spawn(spec).await {
        Ok(process) => process,
        Err(error) => return HookExit::Broke(format!("hook could not be started: {error}")),
    };
    let input = event.input(occasion).to_string();
    let stdin = process.stdin.take();
    let write = async move {
        if let Some(mut stdin) = stdin {
            // A hook that does not read its input has no use for it.
            let _ = stdin.write(input.as_bytes()).await;
            let _ = stdin.close().await;
        }
    };
    let (captured, ()) = tokio::join!(process.capture(CaptureLimit::Head(OUTPUT_BYTES)), write);
    match captured.exit {
        ProcessExit::TimedOut => HookExit::Broke(format!("hook timed out after {}s", hook.timeout.as_secs())),
        exit => HookExit::Exited {
            code: exit.code(),
            stdout: String::from_utf8_lossy(&captured.stdout.into_bytes()).into_owned(),
            stderr: String::from_utf8_lossy(&captured.stderr.into_bytes()).into_owned(),
        },
    }
}
