//! `wait_agent`: until one of the agents is done, or the time is up.

use std::{collections::BTreeSet, pin::pin, time::Duration};

use codicil_protocol::{CollabAgentState, CollabAgentStatus, CollabAgentTool, ThreadId};
use futures_util::future::select_all;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::{
    ToolCall, ToolOutput, TurnCancelled, TurnTools,
    error::AgentError,
    item::{AgentStates, told},
    say,
    target::AgentTarget,
};
use crate::{subagent, tools::call::number};

/// Without a word about it.
const DEFAULT_TIME: Duration = Duration::from_secs(30);
/// Shorter waits would be a model asking again and again.
const MIN_TIME: Duration = Duration::from_secs(10);
const MAX_TIME: Duration = Duration::from_secs(60 * 60);

#[derive(Deserialize)]
struct WaitArguments {
    #[serde(default, alias = "ids", deserialize_with = "one_or_more")]
    targets: Vec<String>,
    #[serde(default, deserialize_with = "number")]
    timeout_ms: Option<u64>,
}

/// An agent that is waited for.
type AgentWatch = (ThreadId, watch::Receiver<CollabAgentState>);

impl TurnTools {
    pub(super) async fn wait_agent(&self, call: &ToolCall) -> Result<ToolOutput, TurnCancelled> {
        let arguments: WaitArguments = match call.arguments() {
            Ok(arguments) => arguments,
            Err(told) => return Ok(told),
        };
        let prepared = self.watched(&arguments.targets);
        let (mut done, mut watches, time) = match (prepared, wait_time(arguments.timeout_ms)) {
            (Ok((lost, watches)), Ok(time)) => (lost, watches, time),
            (Err(error), _) | (_, Err(error)) => return Ok(say(error.to_string())),
        };
        let note = self.note(call, CollabAgentTool::Wait);
        let receivers = done.iter().map(|(id, _)| id).chain(watches.iter().map(|(id, _)| id));
        self.note_started(&note, receivers.cloned().collect()).await;
        done.extend(done_now(&mut watches));
        if done.is_empty() {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Err(TurnCancelled),
                states = first_done(&mut watches, time) => done = states,
            }
        }
        let statuses: Map<_, _> = done.iter().map(|(id, state)| (id.to_string(), told(state))).collect();
        let output = json!({ "status": statuses, "timed_out": done.is_empty() });
        self.note_completed(&note, done).await;
        Ok(say(output.to_string()))
    }

    /// Those who are lost, and those who can be waited for. Nobody named: every agent there is.
    fn watched(&self, targets: &[String]) -> Result<(AgentStates, Vec<AgentWatch>), AgentError> {
        let threads = self.threads()?;
        let found: Vec<_> = match targets {
            [] if self.addresses_by_path() => {
                threads.agents_below(&self.kit.thread).into_iter().map(AgentTarget::Live).collect()
            }
            targets => targets.iter().map(|name| self.target(&threads, name)).collect::<Result<_, _>>()?,
        };
        let (mut lost, mut watches) = (Vec::new(), Vec::<AgentWatch>::new());
        let mut seen = BTreeSet::new();
        for target in found {
            match target {
                target if !seen.insert(target.id().clone()) => {}
                AgentTarget::Live(handle) => watches.push((handle.id().clone(), handle.progress())),
                AgentTarget::Gone(id) => lost.push((id, subagent::state(CollabAgentStatus::NotFound))),
            }
        }
        if seen.is_empty() { Err(AgentError::NoTargets) } else { Ok((lost, watches)) }
    }
}

/// The agents that are done by now.
fn done_now(watches: &mut [AgentWatch]) -> AgentStates {
    let states = watches.iter_mut().map(|(id, watch)| (id.clone(), current(watch)));
    states.filter(|(_, state)| subagent::is_final(&state.status)).collect()
}

/// How far an agent is. One that ended without being done was shut down.
fn current(watch: &mut watch::Receiver<CollabAgentState>) -> CollabAgentState {
    let is_over = watch.has_changed().is_err();
    let state = watch.borrow_and_update().clone();
    match is_over && !subagent::is_final(&state.status) {
        true => subagent::state(CollabAgentStatus::Shutdown),
        false => state,
    }
}

/// Waits until some are done; nobody is when the time is up.
async fn first_done(watches: &mut [AgentWatch], time: Duration) -> AgentStates {
    let mut time_up = pin!(tokio::time::sleep(time));
    loop {
        let done = done_now(watches);
        if !done.is_empty() {
            return done;
        }
        let changes: Vec<_> = watches.iter_mut().map(|(_, watch)| Box::pin(watch.changed())).collect();
        if changes.is_empty() {
            return Vec::new();
        }
        tokio::select! {
            biased;
            _ = select_all(changes) => {}
            () = &mut time_up => return Vec::new(),
        }
    }
}

fn wait_time(asked_ms: Option<u64>) -> Result<Duration, AgentError> {
    match asked_ms {
        None => Ok(DEFAULT_TIME),
        Some(0) => Err(AgentError::NoTime),
        Some(ms) => Ok(Duration::from_millis(ms).clamp(MIN_TIME, MAX_TIME)),
    }
}

/// A list, or the one that a model did not put into a list.
fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let value = if value.is_string() { json!([value]) } else { value };
    serde_json::from_value(value).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Sender = watch::Sender<CollabAgentState>;

    fn agent(id: &str) -> (Sender, AgentWatch) {
        let (sender, watch) = watch::channel(subagent::state(CollabAgentStatus::Running));
        (sender, (ThreadId::from(id), watch))
    }

    fn names(states: &AgentStates) -> Vec<(&str, CollabAgentStatus)> {
        states.iter().map(|(id, state)| (&id[..], state.status.clone())).collect()
    }

    #[test]
    fn times_are_kept_within_bounds() {
        let check = |asked, expected| assert_eq!(wait_time(asked).ok(), expected, "{asked:?}");
        check(None, Some(DEFAULT_TIME));
        check(Some(1), Some(MIN_TIME));
        check(Some(12_500), Some(Duration::from_millis(12_500)));
        check(Some(u64::MAX), Some(MAX_TIME));
        check(Some(0), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_to_be_done_ends_the_wait() {
        let ((a, first), (b, second)) = (agent("a"), agent("b"));
        let mut watches = [first, second];
        let waiting = first_done(&mut watches, MAX_TIME);
        let working = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            a.send_replace(subagent::state(CollabAgentStatus::Interrupted));
            tokio::time::sleep(Duration::from_secs(60)).await;
            b.send_replace(subagent::state_with(CollabAgentStatus::Completed, "done"));
        };
        let (done, ()) = tokio::join!(waiting, working);
        assert_eq!(names(&done), [("b", CollabAgentStatus::Completed)]);
        assert_eq!(done[0].1.message.as_deref(), Some("done"));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_done_when_the_time_is_up() {
        let (_a, first) = agent("a");
        let began = tokio::time::Instant::now();
        assert!(first_done(&mut [first], MIN_TIME).await.is_empty());
        assert_eq!(began.elapsed(), MIN_TIME);
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_ends_while_it_is_waited_for_was_shut_down() {
        let ((a, first), (b, second)) = (agent("a"), agent("b"));
        b.send_replace(subagent::state(CollabAgentStatus::Completed));
        drop(b);
        assert_eq!(names(&done_now(&mut [second])), [("b", CollabAgentStatus::Completed)]);
        let mut watches = [first];
        let (done, ()) = tokio::join!(first_done(&mut watches, MAX_TIME), async { drop(a) });
        assert_eq!(names(&done), [("a", CollabAgentStatus::Shutdown)]);
    }
}
