//! Agents that the model spawns, from the view of clients and of the model.

mod cycle;
mod endings;
mod limits;
mod paths;
mod permissions;
mod spawned;
mod subscribed;

use codicil_protocol::{
    CollabAgentStatus, CollabAgentTool, CollabAgentToolCallStatus, ItemCompleted, Thread, ThreadId,
    ThreadItem, ThreadList, ThreadListParams, ThreadSourceKind, TurnCompleted, TurnStatus,
};
use codicil_testkit::{App, RecordedRequest, Reply, TestClient};
use serde_json::{Value, from_str, json};

/// Returns whether a request comes from an agent, not from the thread that spawned it.
fn is_agent(request: &RecordedRequest) -> bool {
    request.header("x-openai-subagent") == Some("collab_spawn")
}

fn is_main(request: &RecordedRequest) -> bool {
    !is_agent(request)
}

/// Returns the output of a call of the main thread, which is part of the following request.
fn output(request: &RecordedRequest, call: &str) -> Value {
    let text = request.tool_output(call).unwrap_or_else(|| panic!("no output for {call}"));
    from_str(&text).unwrap_or(Value::String(text))
}

/// Returns the id of the agent that the call `spawn` started.
fn spawned(request: &RecordedRequest) -> String {
    output(request, "spawn")["agent_id"].as_str().expect("an agent was started").to_owned()
}

/// Returns the number of tool outputs in a request, which is the step of the script.
fn steps(request: &RecordedRequest) -> usize {
    request.input().iter().filter(|item| item["type"] == "function_call_output").count()
}

/// Returns every text of the history.
fn texts(request: &RecordedRequest) -> Vec<String> {
    let parts = request.input().iter().flat_map(|item| item["content"].as_array().into_iter().flatten());
    parts.filter_map(|part| part["text"].as_str()).map(str::to_owned).collect()
}

/// Returns the notifications about agents in a request of the main thread.
fn notifications(request: &RecordedRequest) -> Vec<Value> {
    let texts = texts(request).into_iter();
    let inner = texts.filter_map(|text| {
        let inner = text.strip_prefix("<subagent_notification>\n")?;
        Some(inner.strip_suffix("\n</subagent_notification>")?.to_owned())
    });
    inner.map(|text| from_str(&text).expect("a notification is JSON")).collect()
}

fn spawn(message: &str) -> Reply {
    Reply::new().call("spawn_agent", json!({ "message": message })).call_id("spawn")
}

/// Returns the requests of the main thread, or of its agents, in order.
fn requests(app: &App, of: fn(&RecordedRequest) -> bool) -> Vec<RecordedRequest> {
    app.model().requests().into_iter().filter(of).collect()
}

/// Reads messages up to the end of a turn of another thread.
async fn agent_done(client: &mut TestClient, main: &Thread) -> (ThreadId, TurnStatus) {
    let done = client.until_where::<TurnCompleted>(|done| done.thread_id != main.id).await;
    (done.thread_id, done.turn.status)
}

/// Reads messages up to the end of this thread's turn.
async fn main_done(client: &mut TestClient, main: &Thread) -> TurnStatus {
    client.until_where::<TurnCompleted>(|done| done.thread_id == main.id).await.turn.status
}

/// A call about agents, from its completed item.
struct Seen {
    tool: CollabAgentTool,
    status: CollabAgentToolCallStatus,
    receivers: Vec<ThreadId>,
    states: Vec<(CollabAgentStatus, Option<String>)>,
    item: ThreadItem,
}

async fn next_call(client: &mut TestClient) -> Seen {
    let is_call = |item: &ThreadItem| matches!(item, ThreadItem::CollabAgentToolCall { .. });
    let item = client.until_where::<ItemCompleted>(|completed| is_call(&completed.item)).await.item;
    let ThreadItem::CollabAgentToolCall { tool, status, receiver_thread_ids, agents_states, .. } =
        item.clone()
    else {
        unreachable!("it was looked for");
    };
    let states = agents_states.into_values().map(|state| (state.status, state.message)).collect();
    Seen { tool, status, receivers: receiver_thread_ids, states, item }
}

async fn listed(client: &mut TestClient, kinds: Option<Vec<ThreadSourceKind>>) -> Vec<Thread> {
    let params = ThreadListParams { source_kinds: kinds, ..ThreadListParams::default() };
    client.call::<ThreadList>(params).await.data
}
