//! The environments of threads and turns.

use codicil_protocol::{
    ThreadList, ThreadResume, ThreadStart, ThreadStartResponse, TurnCompleted, TurnStart,
};
use codicil_testkit::{App, Script};
use serde_json::{Value, from_value, json};

/// Tools that use the machine of the server.
const LOCAL_TOOLS: [&str; 4] = ["exec_command", "write_stdin", "apply_patch", "view_image"];

async fn app(replies: usize) -> App {
    let script = (1..replies).fold(Script::new().say("Ok"), |script, _| script.then().say("Ok"));
    App::builder().experimental().later_client().script(script).start().await
}

async fn start_thread(app: &mut App, environments: Value) -> ThreadStartResponse {
    let params = json!({ "cwd": app.workspace(), "environments": environments });
    app.call::<ThreadStart>(from_value(params).unwrap()).await
}

async fn run_turn(app: &mut App, thread: &ThreadStartResponse, more: Value) {
    let mut params = json!({ "threadId": thread.thread.id, "input": [{ "type": "text", "text": "go" }] });
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    app.call::<TurnStart>(from_value(params).unwrap()).await;
    app.until::<TurnCompleted>().await;
}

/// Returns the tools of the last request that use the machine.
fn local_tools(app: &App) -> Vec<String> {
    let requests = app.model().requests();
    let tools = requests.last().unwrap().tools();
    tools.into_iter().filter(|tool| LOCAL_TOOLS.contains(tool)).map(str::to_owned).collect()
}

fn last_input(app: &App) -> String {
    Value::from(app.model().requests().last().unwrap().input().to_vec()).to_string()
}

#[tokio::test]
async fn a_thread_without_an_environment_has_no_tools_for_commands_and_files() {
    let mut app = app(2).await;
    std::fs::write(app.workspace().join("AGENTS.md"), "PROJECT RULES").unwrap();
    let started = start_thread(&mut app, json!([])).await;
    assert_eq!(started.thread.environments, Some(Vec::new()));
    assert!(started.runtime_workspace_roots.is_empty() && started.instruction_sources.is_empty());
    run_turn(&mut app, &started, json!({})).await;
    assert!(local_tools(&app).is_empty(), "{:?}", local_tools(&app));
    let input = last_input(&app);
    assert!(!input.contains("PROJECT RULES") && !input.contains("<cwd>"), "{input}");
    let listed = app.call::<ThreadList>(from_value(json!({})).unwrap()).await.data;
    assert_eq!(listed[0].environments, Some(Vec::new()));

    app.rest().await;
    app.restart().await;
    let resume = json!({ "threadId": started.thread.id, "excludeTurns": true });
    let resumed = app.call::<ThreadResume>(from_value(resume).unwrap()).await;
    assert_eq!(resumed.thread.environments, Some(Vec::new()));
    run_turn(&mut app, &started, json!({})).await;
    assert!(local_tools(&app).is_empty(), "{:?}", local_tools(&app));
    app.rest().await;
}

#[tokio::test]
async fn the_environments_of_a_turn_are_for_that_turn() {
    let mut app = app(3).await;
    let started = start_thread(&mut app, json!([])).await;
    let local = json!([{ "environmentId": "local", "cwd": app.workspace() }]);
    run_turn(&mut app, &started, json!({ "environments": local })).await;
    assert!(local_tools(&app).contains(&"exec_command".to_owned()), "{:?}", local_tools(&app));
    assert!(last_input(&app).contains("<cwd>"));
    run_turn(&mut app, &started, json!({})).await;
    assert!(local_tools(&app).is_empty(), "{:?}", local_tools(&app));

    let usual = app.start_thread().await;
    let without =
        json!({ "threadId": usual.id, "environments": [], "input": [{ "type": "text", "text": "go" }] });
    app.call::<TurnStart>(from_value(without).unwrap()).await;
    app.until::<TurnCompleted>().await;
    assert!(local_tools(&app).is_empty(), "{:?}", local_tools(&app));
    app.rest().await;
}

#[tokio::test]
async fn an_unknown_environment_is_refused() {
    let mut app = app(1).await;
    let thread = app.start_thread().await;
    let named = json!([{ "environmentId": "nope", "cwd": app.workspace() }]);
    let start = json!({ "environments": named });
    let refused = app.try_call::<ThreadStart>(from_value(start).unwrap()).await.unwrap_err();
    assert_eq!(refused.message, "unknown turn environment id `nope`");
    let turn =
        json!({ "threadId": thread.id, "environments": named, "input": [{ "type": "text", "text": "x" }] });
    let refused = app.try_call::<TurnStart>(from_value(turn).unwrap()).await.unwrap_err();
    assert_eq!(refused.message, "unknown turn environment id `nope`");
    app.run_turn(&thread, "go").await;
    app.rest().await;
}
