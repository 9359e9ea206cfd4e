//! Every method that takes a key, through the real binary: repeated with its key, before and after the server was killed, it has
//! one effect and one result; other params with the same key are refused.

use std::{collections::BTreeMap, fs};

use codicil_protocol::{
    CodicilRequestList, CommandExecutionApproval, KEYED_REQUESTS, Thread, ThreadArchive, ThreadGoalGet,
    ThreadList, ThreadListParams, ThreadQueueAdd, ThreadQueueList, ThreadResume, ThreadStatus, TurnCompleted,
    TurnStarted,
};
use codicil_testkit::{App, RecordedRequest, Reply, Script, TestTransport};
use serde::de::DeserializeOwned;
use serde_json::{Value, from_value, json};

use crate::repeated_requests::{read, thread_files};

/// The state of a thread in which a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// Two turns, the last of which has ended.
    Idle,
    Archived,
    /// A goal that is paused.
    Goal,
    /// A turn that streams without an end, and two entries in the queue.
    Running,
    /// The same queue, which is paused because the server was killed.
    Paused,
    /// A turn that waits for an approval.
    Asked,
}

/// What the params of a request refer to.
struct Place {
    thread: Thread,
    turns: Vec<Value>,
    queue: Vec<Value>,
    request: Value,
}

/// A method, when it is called, its params, and other params for the same key.
struct KeyedCase {
    method: &'static str,
    before: Before,
    params: fn(&Place) -> Value,
    other: fn(&Place) -> Value,
}

/// A thread that does not exist.
const NO_THREAD: &str = "0199a213-81c0-7800-8aa1-bbab2a035a53";

fn text(text: &str) -> Value {
    json!([{ "type": "text", "text": text }])
}

fn note(text: &str) -> Value {
    json!([{ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] }])
}

fn review(instructions: &str) -> Value {
    json!({ "target": { "type": "custom", "instructions": instructions } })
}

/// A method without params but its thread has no other ones for the same key.
fn none(_: &Place) -> Value {
    Value::Null
}

fn no_thread(_: &Place) -> Value {
    json!({ "threadId": NO_THREAD })
}

const fn case(
    method: &'static str,
    before: Before,
    params: fn(&Place) -> Value,
    other: fn(&Place) -> Value,
) -> KeyedCase {
    KeyedCase { method, before, params, other }
}

const CASES: &[KeyedCase] = &[
    case(
        "thread/start",
        Before::Idle,
        |_| json!({ "developerInstructions": "mark" }),
        |_| json!({ "developerInstructions": "other" }),
    ),
    case("thread/fork", Before::Idle, |_| json!({}), |_| json!({ "developerInstructions": "other" })),
    case("thread/archive", Before::Idle, |_| json!({}), no_thread),
    case("thread/unarchive", Before::Archived, |_| json!({}), no_thread),
    case("thread/delete", Before::Idle, |_| json!({}), no_thread),
    case("thread/name/set", Before::Idle, |_| json!({ "name": "mark" }), |_| json!({ "name": "other" })),
    case(
        "thread/settings/update",
        Before::Idle,
        |_| json!({ "effort": "high" }),
        |_| json!({ "effort": "low" }),
    ),
    case("thread/compact/start", Before::Idle, |_| json!({}), none),
    case("thread/rollback", Before::Idle, |_| json!({ "numTurns": 1 }), |_| json!({ "numTurns": 2 })),
    case(
        "thread/revert",
        Before::Idle,
        |place| json!({ "beforeTurnId": place.turns[1] }),
        |place| json!({ "beforeTurnId": place.turns[0] }),
    ),
    case(
        "thread/inject_items",
        Before::Idle,
        |_| json!({ "items": note("mark") }),
        |_| json!({ "items": note("other") }),
    ),
    case(
        "thread/shellCommand",
        Before::Idle,
        |_| json!({ "command": "echo mark >> lines" }),
        |_| json!({ "command": "echo other >> lines" }),
    ),
    case(
        "thread/goal/set",
        Before::Idle,
        |_| json!({ "objective": "mark", "status": "paused" }),
        |_| json!({ "objective": "other", "status": "paused" }),
    ),
    case("thread/goal/clear", Before::Goal, |_| json!({}), none),
    case(
        "thread/queue/add",
        Before::Running,
        |_| json!({ "input": text("mark"), "clientUserMessageId": "c-mark" }),
        |_| json!({ "input": text("other"), "clientUserMessageId": "c-mark" }),
    ),
    case(
        "thread/queue/update",
        Before::Running,
        |place| json!({ "queuedSubmissionId": place.queue[1], "input": text("mark") }),
        |place| json!({ "queuedSubmissionId": place.queue[1], "input": text("other") }),
    ),
    case(
        "thread/queue/delete",
        Before::Running,
        |place| json!({ "queuedSubmissionId": place.queue[0] }),
        |place| json!({ "queuedSubmissionId": place.queue[1] }),
    ),
    case(
        "thread/queue/reorder",
        Before::Running,
        |place| json!({ "queuedSubmissionIds": [place.queue[1], place.queue[0]] }),
        |place| json!({ "queuedSubmissionIds": [place.queue[0], place.queue[1]] }),
    ),
    case(
        "thread/queue/start",
        Before::Paused,
        |place| json!({ "queuedSubmissionId": place.queue[0] }),
        |place| json!({ "queuedSubmissionId": place.queue[1] }),
    ),
    case(
        "turn/start",
        Before::Idle,
        |_| json!({ "input": text("mark") }),
        |_| json!({ "input": text("other") }),
    ),
    case(
        "turn/steer",
        Before::Running,
        |place| json!({ "input": text("mark"), "expectedTurnId": place.turns[0] }),
        |place| json!({ "input": text("other"), "expectedTurnId": place.turns[0] }),
    ),
    case(
        "turn/interrupt",
        Before::Running,
        |place| json!({ "turnId": place.turns[0] }),
        |_| json!({ "turnId": NO_THREAD }),
    ),
    case("review/start", Before::Idle, |_| review("mark"), |_| review("other")),
    case(
        "codicil/request/answer",
        Before::Asked,
        |place| json!({ "request": place.request, "result": { "decision": "accept" } }),
        |place| json!({ "request": place.request, "result": { "decision": "decline" } }),
    ),
];

/// Returns whether the key of a method belongs to the home, so that no thread has to be loaded.
fn is_of_home(method: &str) -> bool {
    let moves = ["thread/start", "thread/fork", "thread/archive", "thread/unarchive", "thread/delete"];
    moves.contains(&method)
}

async fn start() -> App {
    let script = Script::new().respond_with(|request: &RecordedRequest| {
        let said = request.last_user_text().unwrap_or_default();
        match said.as_str() {
            "hang" => Reply::new().say("begun").hang(),
            "ask" if request.tool_output("c").is_none() => {
                let arguments =
                    json!({ "cmd": "echo asked >> lines", "sandbox_permissions": "require_escalated" });
                Reply::new().call("exec_command", arguments).call_id("c")
            }
            _ => Reply::new().say("Done"),
        }
    });
    let builder = App::builder().script(script).extension().experimental();
    let mut app = builder.over(TestTransport::WebSocket).start().await;
    app.ignore_rest();
    app
}

fn of<T: DeserializeOwned>(thread: &Thread) -> T {
    from_value(json!({ "threadId": thread.id })).unwrap()
}

async fn kill(app: &mut App) {
    app.process().kill();
    app.revive().await;
    app.ignore_rest();
}

impl Place {
    async fn prepare(app: &mut App, before: Before) -> Self {
        let thread = app.start_thread().await;
        let mut place = Self { thread, turns: Vec::new(), queue: Vec::new(), request: Value::Null };
        match before {
            Before::Idle | Before::Archived | Before::Goal => {
                for text in ["one", "two"] {
                    place.turns.push(json!(app.run_turn(&place.thread, text).await.id));
                }
            }
            Before::Running | Before::Paused => {
                place.turns.push(json!(app.start_turn(&place.thread, "hang").await.id));
                app.until::<TurnStarted>().await;
                place.fill_queue(app).await;
            }
            Before::Asked => {
                place.turns.push(json!(app.start_turn(&place.thread, "ask").await.id));
                app.expect_request::<CommandExecutionApproval>().await;
                let listed = app.call::<CodicilRequestList>(Default::default()).await.data;
                place.request = json!(listed[0].request);
            }
        }
        match before {
            Before::Archived => {
                app.call::<ThreadArchive>(of(&place.thread)).await;
            }
            Before::Goal => {
                let goal = json!({ "threadId": place.thread.id, "objective": "win", "status": "paused" });
                app.keyed("thread/goal/set", &goal, "goal").await;
            }
            Before::Paused => {
                kill(app).await;
                app.call::<ThreadResume>(of(&place.thread)).await;
            }
            _ => {}
        }
        place
    }

    async fn fill_queue(&mut self, app: &mut App) {
        for word in ["a", "b"] {
            let params = json!({ "threadId": self.thread.id, "input": text(word), "clientUserMessageId": format!("c-{word}") });
            let added = app.call::<ThreadQueueAdd>(from_value(params).unwrap()).await;
            self.queue.push(json!(added.queued_submission.id));
        }
    }
}

/// Waits until no turn runs any more and none follows, unless one runs without an end.
async fn settle(app: &mut App, place: &Place, case: &KeyedCase) {
    let is_steered = case.method == "turn/steer";
    if case.before == Before::Running && !is_steered && case.method != "turn/interrupt" {
        return;
    }
    // Threads that are in the archive or deleted cannot be read.
    if matches!(case.method, "thread/archive" | "thread/delete") {
        return;
    }
    loop {
        let is_active = matches!(read(app, &place.thread.id).await.status, ThreadStatus::Active { .. });
        let uses_queue = is_steered || case.before == Before::Paused;
        let follows = uses_queue && !queue(app, place).await.is_empty();
        if !is_active && !follows {
            return;
        }
        app.until::<TurnCompleted>().await;
    }
}

async fn queue(app: &mut App, place: &Place) -> Vec<Value> {
    let listed = app.try_call::<ThreadQueueList>(of(&place.thread)).await;
    let listed = listed.map(|listed| listed.data).unwrap_or_default();
    listed.into_iter().map(|entry| json!([entry.client_user_message_id, entry.input])).collect()
}

/// Returns everything that a request can change.
async fn state(app: &mut App, place: &Place) -> Value {
    let mut threads = BTreeMap::new();
    for archived in [false, true] {
        let params = ThreadListParams { archived: Some(archived), ..ThreadListParams::default() };
        for listed in app.call::<ThreadList>(params).await.data {
            if archived {
                threads.insert(listed.id.to_string(), json!([archived, listed.name]));
                continue;
            }
            let thread = read(app, &listed.id).await;
            let turns: Vec<_> =
                thread.turns.iter().map(|turn| json!([turn.id, turn.items, turn.status])).collect();
            threads.insert(listed.id.to_string(), json!([archived, thread.name, turns]));
        }
    }
    let goal = app.try_call::<ThreadGoalGet>(of(&place.thread)).await.ok();
    let lines = fs::read_to_string(app.workspace().join("lines")).unwrap_or_default();
    json!({
        "threads": threads,
        "queue": queue(app, place).await,
        "goal": goal.and_then(|goal| goal.goal).map(|goal| json!([goal.objective, goal.status])),
        "lines": lines,
        "files": thread_files(app.home()),
        "marks": marks(app),
        "requests": app.model().requests().len(),
    })
}

/// Counts the records with the text of the request, or its effort.
fn marks(app: &App) -> usize {
    let mut dirs = vec![app.home().join("sessions")];
    let mut count = 0;
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let text = fs::read_to_string(path).unwrap_or_default();
                count += text.lines().filter(|line| line.contains("mark")).count();
            }
        }
    }
    count
}

async fn check(case: &KeyedCase) {
    let method = case.method;
    let mut app = start().await;
    let place = Place::prepare(&mut app, case.before).await;
    let named = |mut params: Value| {
        if method != "thread/start" && params.get("threadId").is_none() {
            params["threadId"] = json!(place.thread.id);
        }
        params
    };
    let params = named((case.params)(&place));
    let initial = state(&mut app, &place).await;

    let first = app.keyed(method, &params, "key").await;
    assert!(!first.is_replayed, "{method}");
    settle(&mut app, &place, case).await;
    let changed = state(&mut app, &place).await;
    let is_visible = !matches!(method, "thread/settings/update");
    assert!(!is_visible || changed != initial, "{method} has an effect: {changed}");

    let again = app.keyed(method, &params, "key").await;
    assert!(again.is_replayed && again.result == first.result, "{method}: {again:?}, {first:?}");
    settle(&mut app, &place, case).await;
    assert_eq!(state(&mut app, &place).await, changed, "{method}");

    kill(&mut app).await;
    if !is_of_home(method) {
        app.call::<ThreadResume>(of(&place.thread)).await;
    }
    let restarted = state(&mut app, &place).await;
    let again = app.keyed(method, &params, "key").await;
    assert!(
        again.is_replayed && again.result == first.result,
        "{method} after the kill: {again:?}, {first:?}"
    );
    assert_eq!(state(&mut app, &place).await, restarted, "{method} after the kill");

    let (other_method, other) = match (case.other)(&place) {
        Value::Null => ("thread/name/set", json!({ "name": "other" })),
        other => (method, other),
    };
    let error = app.try_keyed(other_method, &named(other), "key").await.unwrap_err();
    assert_eq!(
        (error.code, &error.data),
        (-32602, &Some(json!({ "codicil": { "code": "keyConflict" } }))),
        "{method}"
    );
    assert_eq!(state(&mut app, &place).await, restarted, "{method} with other params");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_method_with_a_key_has_one_effect() {
    let methods: Vec<_> = CASES.iter().map(|case| case.method).collect();
    assert_eq!(methods, KEYED_REQUESTS, "every method is in the table, once");
    for case in CASES {
        check(case).await;
    }
}
