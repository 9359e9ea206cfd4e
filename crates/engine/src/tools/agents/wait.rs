//! `wait_agent`: waits until one of the subagents is done.

use std::{collections::BTreeSet, pin::pin, time::Duration};

use codicil_model::ToolSpec;
use codicil_protocol::{CollabAgentState, CollabAgentStatus, CollabAgentTool, ThreadId};
use futures_util::future::{BoxFuture, select_all};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::{AgentCallItem, AgentError, AgentStates, AgentTarget, addresses_by_path, model_status};
use crate::{
    subagent,
    tools::{
        TurnTools,
        builtin::BuiltinTool,
        call::{ToolCall, ToolError, ToolResult, lenient_number, text_output},
        offer::ToolOffer,
        schema::{function, number, strings},
    },
};

const DEFAULT_TIME: Duration = Duration::from_secs(30);
/// Shorter waits would make the model poll.
const MIN_TIME: Duration = Duration::from_secs(10);
const MAX_TIME: Duration = Duration::from_secs(60 * 60);

pub(in crate::tools) struct WaitAgent;

#[derive(Deserialize)]
struct WaitArguments {
    #[serde(default, alias = "ids", deserialize_with = "one_or_more")]
    targets: Vec<String>,
    #[serde(default, deserialize_with = "lenient_number")]
    timeout_ms: Option<u64>,
}

impl BuiltinTool for WaitAgent {
    fn name(&self) -> &'static str {
        "wait_agent"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        let by_path = offer.agents.as_ref()?.by_path;
        let targets = if by_path {
            "The agents to wait for; all of them when left out."
        } else {
            "The ids of the agents to wait for."
        };
        let properties = json!({
            "targets": strings(targets),
            "timeout_ms": number(
                "How long to wait, in milliseconds: 30000 by default, 10000 at least, 3600000 at most."
            ),
        });
        let description = "Waits until one of the agents is done and returns how those that are done ended, with their \
                           last messages. Prefer long waits to repeated ones.";
        let required: &[&str] = if by_path { &[] } else { &["targets"] };
        Some(function(self.name(), description, properties, required))
    }

    fn begins_at_once(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(wait(turn, call))
    }
}

/// A subagent to wait for.
type AgentWatch = (ThreadId, watch::Receiver<CollabAgentState>);

/// The subagents that a call names.
struct WaitTargets {
    /// Those that are gone, which count as done.
    gone: AgentStates,
    live: Vec<AgentWatch>,
}

async fn wait(turn: &TurnTools, call: &ToolCall) -> ToolResult {
    let arguments: WaitArguments = call.arguments()?;
    let WaitTargets { gone, live: mut watches } = WaitTargets::find(turn, &arguments.targets)?;
    let time = wait_time(arguments.timeout_ms)?;
    let item = AgentCallItem::new(turn, call, CollabAgentTool::Wait);
    let receivers = gone.iter().map(|(id, _)| id).chain(watches.iter().map(|(id, _)| id));
    item.begin(receivers.cloned().collect()).await?;
    let mut done = gone;
    done.extend(done_now(&mut watches));
    if done.is_empty() {
        let first = turn.cancel.run_until_cancelled(first_done(&mut watches, time)).await;
        done = first.ok_or(ToolError::Cancelled)?;
    }
    let statuses: Map<_, _> = done.iter().map(|(id, state)| (id.to_string(), model_status(state))).collect();
    let output = json!({ "status": statuses, "timed_out": done.is_empty() });
    item.emit_completed(done).await;
    Ok(text_output(output.to_string()))
}

impl WaitTargets {
    /// Finds the named subagents. Without names, and where subagents are addressed by path, all live ones.
    fn find(turn: &TurnTools, names: &[String]) -> Result<Self, AgentError> {
        let targets: Vec<_> = if names.is_empty() && addresses_by_path(&turn.config) {
            let live = turn.thread.subagents.threads()?.agents_below(&turn.thread.thread_id);
            live.into_iter().map(AgentTarget::Live).collect()
        } else {
            names.iter().map(|name| AgentTarget::find(turn, name)).collect::<Result<_, _>>()?
        };
        let mut found = Self { gone: Vec::new(), live: Vec::new() };
        let mut seen = BTreeSet::new();
        for target in targets {
            if !seen.insert(target.id().clone()) {
                continue;
            }
            match target {
                AgentTarget::Live(handle) => found.live.push((handle.id().clone(), handle.progress())),
                AgentTarget::Gone(id) => found.gone.push((id, subagent::state(CollabAgentStatus::NotFound))),
            }
        }
        if seen.is_empty() { Err(AgentError::NoTargets) } else { Ok(found) }
    }
}

/// Returns the subagents that are done by now.
fn done_now(watches: &mut [AgentWatch]) -> AgentStates {
    let states = watches.iter_mut().map(|(id, watch)| (id.clone(), current(watch)));
    states.filter(|(_, state)| subagent::is_final(&state.status)).collect()
}

/// Returns the state of a subagent. One whose thread ended before it was done counts as shut down.
fn current(watch: &mut watch::Receiver<CollabAgentState>) -> CollabAgentState {
    let has_ended = watch.has_changed().is_err();
    let state = watch.borrow_and_update().clone();
    if has_ended && !subagent::is_final(&state.status) {
        subagent::state(CollabAgentStatus::Shutdown)
    } else {
        state
    }
}

/// Waits until at least one subagent is done. Empty when the time is up.
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

/// Deserializes a list, or a single text that a model did not put into a list.
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
    fn wait_times_are_clamped() {
        let check = |asked, expected| assert_eq!(wait_time(asked).ok(), expected, "{asked:?}");
        check(None, Some(DEFAULT_TIME));
        check(Some(1), Some(MIN_TIME));
        check(Some(12_500), Some(Duration::from_millis(12_500)));
        check(Some(u64::MAX), Some(MAX_TIME));
        check(Some(0), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_finished_agent_ends_the_wait() {
        let (a, first) = agent("a");
        let (b, second) = agent("b");
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
    async fn a_wait_without_finished_agents_times_out() {
        let (_a, first) = agent("a");
        let began = tokio::time::Instant::now();
        assert!(first_done(&mut [first], MIN_TIME).await.is_empty());
        assert_eq!(began.elapsed(), MIN_TIME);
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_ends_during_the_wait_was_shut_down() {
        let (a, first) = agent("a");
        let (b, second) = agent("b");
        b.send_replace(subagent::state(CollabAgentStatus::Completed));
        drop(b);
        assert_eq!(names(&done_now(&mut [second])), [("b", CollabAgentStatus::Completed)]);
        let mut watches = [first];
        let (done, ()) = tokio::join!(first_done(&mut watches, MAX_TIME), async { drop(a) });
        assert_eq!(names(&done), [("a", CollabAgentStatus::Shutdown)]);
    }
}
