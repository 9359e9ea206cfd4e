//! Running hooks: one after the other, each told before and after.

use std::time::Instant;

use codicil_exec::{Cap, Exit, Input, Process, Spec};
use codicil_protocol::{
    Frame, HookCompleted, HookCompletedNotification, HookExecutionMode, HookHandlerType, HookRunStatus,
    HookRunSummary, HookStarted, HookStartedNotification, ThreadId, TurnId,
};

use super::{
    Effect, Hooks,
    declared::Hook,
    event::{Event, Occasion},
    verdict::{Ended, Verdict},
};
use crate::{
    clock::{millis, unix_now},
    step::{Step, Steps},
};

/// How much of each of a hook's streams counts.
const OUTPUT_BYTES: usize = 1 << 20;

impl Hooks {
    /// Runs the hooks for an event. What they want is added up; dropped half way, they are killed.
    pub async fn run(&self, event: &Event, occasion: &Occasion, steps: &Steps) -> Effect {
        let (name, subject) = (event.name(), event.subject());
        let mut effect = Effect::default();
        for hook in self.0.iter().filter(|hook| hook.is_for(&name, subject)) {
            let mut summary = summary(hook, event);
            let began = Instant::now();
            let (thread_id, turn_id) = (ThreadId::from(&*occasion.session), TurnId::from(&*occasion.turn));
            let started = HookStartedNotification {
                thread_id: thread_id.clone(),
                turn_id: Some(turn_id.clone()),
                run: summary.clone(),
            };
            steps.one(Step::Told(Frame::notification::<HookStarted>(&started))).await;
            let verdict = Verdict::of(event, execute(hook, event, occasion).await);
            summary.status = verdict.status;
            summary.entries = verdict.entries;
            summary.completed_at = Some(unix_now());
            summary.duration_ms = Some(millis(began.elapsed()));
            let completed = HookCompletedNotification { thread_id, turn_id: Some(turn_id), run: summary };
            steps.one(Step::Told(Frame::notification::<HookCompleted>(&completed))).await;
            effect.extend(verdict.effect);
        }
        effect
    }
}

fn summary(hook: &Hook, event: &Event) -> HookRunSummary {
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
async fn execute(hook: &Hook, event: &Event, occasion: &Occasion) -> Ended {
    let env = std::env::vars_os().collect();
    let mut spec = Spec::new(["/bin/sh", "-c", &hook.command], &occasion.cwd, env);
    spec.timeout = Some(hook.timeout);
    spec.stdin = Input::Piped;
    let mut process = match Process::spawn(spec).await {
        Ok(process) => process,
        Err(error) => return Ended::Broke(format!("hook could not be started: {error}")),
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
    let (captured, ()) = tokio::join!(process.capture(Cap::Head(OUTPUT_BYTES)), write);
    match captured.exit {
        Exit::TimedOut => Ended::Broke(format!("hook timed out after {}s", hook.timeout.as_secs())),
        exit => Ended::Exited {
            code: exit.code(),
            stdout: String::from_utf8_lossy(&captured.stdout.into_bytes()).into_owned(),
            stderr: String::from_utf8_lossy(&captured.stderr.into_bytes()).into_owned(),
        },
    }
}
