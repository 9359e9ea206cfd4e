//! Apps of a ChatGPT account as tools, served by a backend on loopback.

use std::fs;

use codicil_protocol::{
    AccountLogout, McpServerElicitation, McpServerElicitationAction, McpServerElicitationRequest,
    McpServerElicitationRequestResponse, McpServerStatusList, McpToolCallStatus, NoParams, SkillsList,
    Thread, ThreadItem, ThreadStartParams, Turn, TurnCompleted, TurnStart, TurnSteer,
};
use codicil_testkit::{App, RecordedRequest, Script, TestIssuer};
use serde_json::{Value, from_value, json};

const SEARCH: &str = "mcp__codex_apps__demo_search";
const SEND: &str = "mcp__codex_apps__demo_send";
const LIST: &str = "mcp__codex_apps__other_list";

fn tool(name: &str, app: &str, app_name: &str, is_read_only: bool) -> Value {
    json!({
        "name": name,
        "description": format!("Does {name}"),
        "inputSchema": { "type": "object", "properties": { "query": { "type": "string" } } },
        "annotations": { "readOnlyHint": is_read_only },
        "_meta": { "connector_id": app, "connector_name": app_name, "_codex_apps": { "resource": name } },
    })
}

fn demo_tools() -> Vec<Value> {
    let placeholder = json!({ "name": "link", "inputSchema": {},
        "_meta": { "connector_id": "unlinked", "_codex_apps": { "synthetic_link": true } } });
    vec![
        tool("demo_search", "demo-app", "Demo App", true),
        tool("demo_send", "demo-app", "Demo App", false),
        tool("other_list", "other", "Other", true),
        placeholder,
        json!({ "name": "of_no_app", "inputSchema": {} }),
    ]
}

/// Starts a server that is signed in with an account of the issuer.
async fn signed_in(issuer: &TestIssuer, keys: &str, script: Script) -> App {
    let config = format!("{keys}\n{}", issuer.config());
    let mut app = App::builder().script(script).config(&config).experimental().start().await;
    fs::write(app.home().join("auth.json"), issuer.auth_json().to_string()).unwrap();
    app.ignore_rest();
    app
}

async fn start_thread(app: &mut App) -> Thread {
    let params: ThreadStartParams = from_value(json!({ "approvalPolicy": "on-request" })).unwrap();
    app.start_thread_with(params).await
}

async fn turn(app: &mut App, thread: &Thread, input: Value) -> Turn {
    let params = from_value(json!({ "threadId": thread.id, "input": input })).unwrap();
    let turn = app.call::<TurnStart>(params).await.turn;
    app.until_where::<TurnCompleted>(|completed| completed.turn.id == turn.id).await.turn
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn app_tools(request: &RecordedRequest) -> Vec<String> {
    let tools = request.tools();
    tools.into_iter().filter(|name| name.starts_with("mcp__codex_apps")).map(str::to_owned).collect()
}

/// Returns the texts of the developer's messages that are about a mentioned app.
fn app_messages(request: &RecordedRequest) -> Vec<String> {
    let parts = request.input().iter().flat_map(|item| item["content"].as_array().into_iter().flatten());
    let texts = parts.filter_map(|part| part["text"].as_str());
    texts.filter(|text| text.contains("mentioned the app")).map(str::to_owned).collect()
}

#[tokio::test]
async fn the_tools_of_connected_apps_are_offered_and_called() {
    let issuer = TestIssuer::start().await;
    issuer.offer_apps(demo_tools());
    let script = Script::new()
        .call(SEARCH, json!({ "query": "tea" }))
        .call_id("s")
        .then()
        .say("Found")
        .then()
        .say("No");
    let mut app = signed_in(&issuer, "", script).await;
    let thread = start_thread(&mut app).await;
    turn(&mut app, &thread, json!([text("look")])).await;

    let requests = app.model().requests();
    assert_eq!(app_tools(&requests[0]), [SEARCH, SEND, LIST]);
    let calls = issuer.app_calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(
        (&calls[0]["name"], &calls[0]["arguments"]),
        (&json!("demo_search"), &json!({ "query": "tea" }))
    );
    assert_eq!(calls[0]["_meta"]["_codex_apps"], json!({ "resource": "demo_search" }));
    let output = requests[1].tool_output("s").unwrap();
    assert!(output.contains("demo_search"), "{output}");
    let is_call = |item: &ThreadItem| {
        matches!(item, ThreadItem::McpToolCall { server, tool, status, .. }
            if server == "codex_apps" && tool == "demo_search" && *status == McpToolCallStatus::Completed)
    };
    assert!(app.read(&thread).await.turns[0].items.iter().any(is_call));

    let status = app.call::<McpServerStatusList>(from_value(json!({})).unwrap()).await;
    let apps = status.data.iter().find(|server| server.name == "codex_apps").unwrap();
    assert_eq!(apps.tools.len(), 3);

    app.call::<AccountLogout>(NoParams).await;
    turn(&mut app, &thread, json!([text("again")])).await;
    assert!(app_tools(app.model().requests().last().unwrap()).is_empty(), "signed out");
}

#[tokio::test]
async fn there_are_no_app_tools_without_the_feature_or_a_chatgpt_account() {
    let issuer = TestIssuer::start().await;
    issuer.offer_apps(demo_tools());
    let api_key = json!({ "auth_mode": "apikey", "OPENAI_API_KEY": "sk-1" });
    for (keys, auth) in [("features.apps = false", None), ("", Some(api_key))] {
        let mut app = signed_in(&issuer, keys, Script::new().say("Hello")).await;
        if let Some(auth) = auth {
            fs::write(app.home().join("auth.json"), auth.to_string()).unwrap();
        }
        let thread = start_thread(&mut app).await;
        turn(&mut app, &thread, json!([text("hi")])).await;
        assert!(app_tools(&app.model().requests()[0]).is_empty(), "{keys}");
    }
    assert!(issuer.requests().is_empty());
}

#[tokio::test]
async fn the_configuration_disables_apps_and_tools() {
    let issuer = TestIssuer::start().await;
    issuer.offer_apps(demo_tools());
    let check = async |keys: &str, expected: &[&str]| {
        let mut app = signed_in(&issuer, keys, Script::new().say("Hello")).await;
        let thread = start_thread(&mut app).await;
        turn(&mut app, &thread, json!([text("hi")])).await;
        assert_eq!(app_tools(&app.model().requests()[0]), expected, "{keys}");
    };
    check("apps.demo-app.enabled = false", &[LIST]).await;
    check("apps._default.enabled = false\napps.other.enabled = true", &[LIST]).await;
    check("apps.demo-app.tools.demo_search.enabled = false", &[SEND, LIST]).await;
}

#[tokio::test]
async fn mentioned_apps_are_described_to_the_model() {
    let issuer = TestIssuer::start().await;
    issuer.offer_apps(demo_tools());
    let script = Script::new().say("1").then().say("2").then().say("3").then().say("4");
    let mut app = signed_in(&issuer, "", script).await;
    let thread = start_thread(&mut app).await;
    let mention = |path: &str| json!({ "type": "mention", "name": "X", "path": path });
    let demo = format!(
        "The person mentioned the app `Demo App`. Use its tools for what was asked: `{SEARCH}`, `{SEND}`."
    );
    let other = format!("The person mentioned the app `Other`. Use its tools for what was asked: `{LIST}`.");

    turn(&mut app, &thread, json!([text("$demo-app find tea"), mention("app://demo-app")])).await;
    assert_eq!(app_messages(&app.model().requests()[0]), [demo.as_str()]);

    turn(&mut app, &thread, json!([text("[$it](app://other) please, $nothing else")])).await;
    assert_eq!(app_messages(&app.model().requests()[1]), [demo, other]);

    // A skill has precedence over an app of its name.
    let skill = app.workspace().join(".agents/skills/demo-app/SKILL.md");
    fs::create_dir_all(skill.parent().unwrap()).unwrap();
    fs::write(&skill, "---\ndescription: Mine\n---\nBODY").unwrap();
    let list = json!({ "cwds": [app.workspace()], "forceReload": true });
    app.call::<SkillsList>(from_value(list).unwrap()).await;
    turn(&mut app, &thread, json!([text("$demo-app")])).await;
    assert_eq!(app_messages(&app.model().requests()[2]).len(), 2);

    turn(&mut app, &thread, json!([text("use it"), mention("app://unlinked")])).await;
    let about = app_messages(&app.model().requests()[3]);
    assert!(about[2].contains("`unlinked`, but it offers no tools here"), "{about:?}");
    // The messages are part of the stored conversation.
    let mut app = app;
    app.restart().await;
    app.ignore_rest();
    let stored = fs::read_to_string(app.resume(&thread).await.path.unwrap()).unwrap();
    assert_eq!(stored.matches("mentioned the app `Demo App`").count(), 1);
}

#[tokio::test]
async fn the_tools_of_a_mentioned_app_are_offered_even_if_there_are_many() {
    let issuer = TestIssuer::start().await;
    let mut tools = demo_tools();
    tools.extend((0..120).map(|number| tool(&format!("big_{number}"), "big", "Big", true)));
    issuer.offer_apps(tools);
    let script = Script::new().say("1").then().hold("steered").say("2").then().say("3");
    let mut app = signed_in(&issuer, "", script).await;
    let thread = start_thread(&mut app).await;
    turn(&mut app, &thread, json!([text("hi")])).await;

    let started = app.start_turn(&thread, "$other now").await;
    app.model().reached("steered").await;
    let steer =
        json!({ "threadId": thread.id, "input": [text("and $demo-app")], "expectedTurnId": started.id });
    app.call::<TurnSteer>(from_value(steer).unwrap()).await;
    app.model().release("steered");
    app.until_where::<TurnCompleted>(|completed| completed.turn.id == started.id).await;

    let offered: Vec<_> = app.model().requests().iter().map(app_tools).collect();
    assert_eq!(offered, [vec![], vec![LIST], vec![SEARCH, SEND, LIST]]);
}

/// Answers the approval of a call, and returns the question and its metadata.
async fn approve(app: &mut App, meta: Value) -> (String, Value) {
    let asked = app.expect_request::<McpServerElicitation>().await;
    assert_eq!(asked.params.server_name, "codex_apps");
    let McpServerElicitationRequest::Form { message, meta: about, .. } = asked.params.request.clone() else {
        panic!("the question is not a form")
    };
    let action = McpServerElicitationAction::Accept;
    let response = McpServerElicitationRequestResponse { action, content: None, meta: Some(meta) };
    app.reply(&asked, response).await;
    (message, about.unwrap())
}

#[tokio::test]
async fn a_tool_that_may_change_something_is_approved_once_and_for_all() {
    let issuer = TestIssuer::start().await;
    issuer.offer_apps(demo_tools());
    let script = Script::new()
        .call(SEND, json!({ "query": "a" }))
        .then()
        .say("Sent")
        .then()
        .call(SEND, json!({ "query": "b" }))
        .then()
        .say("Sent");
    let mut app = signed_in(&issuer, "", script).await;
    let thread = start_thread(&mut app).await;
    let started = app.start_turn(&thread, "send").await;
    let (message, about) = approve(&mut app, json!({ "persist": "always" })).await;
    assert_eq!(message, "Allow Demo App to run tool \"demo_send\"?");
    assert_eq!((&about["connector_id"], &about["connector_name"]), (&json!("demo-app"), &json!("Demo App")));
    app.until_where::<TurnCompleted>(|completed| completed.turn.id == started.id).await;

    let config = fs::read_to_string(app.home().join("config.toml")).unwrap();
    assert!(config.contains("[apps.demo-app.tools.demo_send]\napproval_mode = \"approve\""), "{config}");
    let thread = start_thread(&mut app).await;
    turn(&mut app, &thread, json!([text("again")])).await;
    let queries: Vec<_> = issuer.app_calls().iter().map(|call| call["arguments"]["query"].clone()).collect();
    assert_eq!(queries, ["a", "b"]);
}

#[tokio::test]
async fn a_tool_that_only_reads_is_asked_about_if_the_configuration_says_so() {
    let issuer = TestIssuer::start().await;
    issuer.offer_apps(demo_tools());
    let keys = "apps.demo-app.default_tools_approval_mode = 'prompt'";
    let script = Script::new().call(SEARCH, json!({})).then().say("Done");
    let mut app = signed_in(&issuer, keys, script).await;
    let thread = start_thread(&mut app).await;
    let started = app.start_turn(&thread, "look").await;
    approve(&mut app, json!({})).await;
    app.until_where::<TurnCompleted>(|completed| completed.turn.id == started.id).await;
    assert_eq!(issuer.app_calls().len(), 1);
}

#[tokio::test]
async fn an_expired_token_is_renewed_for_a_call() {
    let issuer = TestIssuer::start().await;
    issuer.offer_apps(demo_tools());
    let script = Script::new().say("Hello").then().call(SEARCH, json!({})).call_id("s").then().say("Done");
    let mut app = signed_in(&issuer, "", script).await;
    let thread = start_thread(&mut app).await;
    turn(&mut app, &thread, json!([text("hi")])).await;
    issuer.expire();
    turn(&mut app, &thread, json!([text("look")])).await;
    let output = app.model().requests()[2].tool_output("s").unwrap();
    assert!(output.contains("demo_search"), "{output}");
    assert_eq!(issuer.refreshes(), 1);
}
